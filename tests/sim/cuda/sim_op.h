/*
 * sim_op.h - what streams execute. Included by sim_internal.h, in its middle.
 */
#ifndef SIM_OP_H
#define SIM_OP_H

/* ---- commands (sim_cmd.c) ---- */
enum sim_cmd_kind {
	CMD_NOP,
	CMD_COPY,
	CMD_SET,
	CMD_KERNEL,
	CMD_HOST,
	CMD_CALLBACK,
	CMD_WAIT_VALUE,
	CMD_WRITE_VALUE,
	CMD_FREE,        /* of memory of cuMemAlloc */
	CMD_POOL_FREE,   /* of memory of a pool */
	CMD_GRAPH_ALLOC, /* nodes; they do nothing when they run */
	CMD_GRAPH_FREE,
	CMD_USER_OBJECT, /* runs nowhere: only its references count (sim_user_object.c) */
	CMD_GRAPH_KEEP,  /* ends a launch: its allocation nodes are not gone before */
	CMD_WAIT_EVENT,
	CMD_RECORD_EVENT,
	CMD_WAIT_IPC,
	CMD_RECORD_IPC,
};

struct sim_copy { /* a box of bytes; addresses are the program's */
	uintptr_t dst, src;
	size_t width, height, depth;
	size_t dst_pitch, src_pitch, dst_slice, src_slice;
	bool src_pinned, dst_pinned; /* must still be pinned when the copy runs */
	bool pageable;               /* in a graph: a launch waits for it */
	bool async;                  /* of an asynchronous call */
	bool part;                   /* the program's copy is told with a later piece, */
	size_t whole;                /* … of which these are the bytes; 0: no pieces */
	void *staged;                /* owned: the source was read at the call */
};

struct sim_set {
	uintptr_t dst;
	size_t pitch, width, height; /* in elements of `unit` bytes, but the pitch */
	unsigned unit;
	uint32_t value;
	bool async;
};

#define SIM_KERNEL_ARGS 8
struct sim_launch {
	const struct sim_kernel *kernel;
	uint64_t arg[SIM_KERNEL_ARGS];
	uint32_t grid[3], block[3], shared;
};

struct sim_value {
	uintptr_t addr;
	uint64_t value;
	unsigned flags;
	bool wide;
};

/* Immutable once submitted; refcounted, since graph nodes replay them. */
struct sim_cmd {
	int refs;
	enum sim_cmd_kind kind;
	union {
		struct sim_copy copy;
		struct sim_set set;
		struct sim_launch launch;
		struct sim_value value;
		struct {
			CUhostFn fn;
			CUstreamCallback callback;
			void *user;
			CUstream stream;
		} host;
		uintptr_t free;                  /* CMD_FREE; the allocation of CMD_GRAPH_ALLOC */
		struct sim_pool_free *pool_free; /* owned */
		struct {
			struct sim_cmd **cmds; /* owned, with a reference each */
			int count;
		} keep;
		struct {
			void *ptr;
			CUhostFn destroy; /* the lock is held: it must not call the driver, as CUDA asks */
		} object;
		struct sim_event *event; /* external event nodes of a graph; holds a reference */
		struct {
			struct sim_ipc *event; /* holds a reference */
			uint64_t ticket;       /* of a record: set when it is in the queue */
		} ipc;
	};
};

struct sim_cmd *sim_cmd_new(enum sim_cmd_kind kind);
void sim_cmd_put(struct sim_cmd *cmd);
/* On the stream's thread, without the lock. */
struct sim_op;
bool sim_cmd_names(const struct sim_cmd *cmd, uintptr_t base, size_t size); /* an address in there */
CUresult sim_cmd_run(struct sim_ctx *ctx, struct sim_op *op);
CUresult sim_kernel_run(struct sim_ctx *ctx, const struct sim_launch *launch);

/* One submitted command. Others wait for it by holding a reference. */
struct sim_op {
	int refs;
	bool done;
	uint64_t done_ns; /* CLOCK_MONOTONIC, set with done */
	struct sim_stream *stream;
	uint64_t seq;  /* in the stream */
	unsigned mark; /* of the newest search that came by */
	struct sim_cmd *cmd;
	struct sim_trace_item *trace; /* who is told when it has run; NULL: nobody */
	struct sim_op *next;
	struct sim_waiter *waiters; /* threads that wait until it is done */
	int dep_count, dep_room;
	struct sim_op **deps; /* must be done before this one starts */
};

struct sim_stream {
	uint32_t magic;
	bool blocking; /* orders with the legacy default stream */
	bool legacy, per_thread, hidden;
	bool dying; /* destroyed: the thread drains the queue and leaves */
	bool has_thread;
	unsigned flags;
	int priority;
	unsigned long long id;
	uint64_t owner; /* thread of a per-thread default stream */
	struct sim_ctx *ctx;
	struct sim_op *head, *tail; /* queue: head is running or next */
	uint64_t seq;               /* of the newest submitted */
	struct sim_op *last;        /* newest submitted, done or not; NULL: none yet */
	pthread_cond_t wake;
	struct sim_capture *capture; /* NULL: not capturing */
	struct sim_node **frontier;  /* capture: nodes the next one depends on */
	int frontier_count;
	struct sim_stream *next;
};

struct sim_event {
	uint32_t magic;
	int refs;
	unsigned flags;
	uint32_t id;
	struct sim_ctx *ctx;
	struct sim_op *record;       /* newest record, or NULL */
	struct sim_ipc *ipc;         /* shared with other processes: stands for `record` */
	struct sim_capture *capture; /* recorded inside this capture */
	struct sim_node **nodes;     /* the capture's nodes it stands for */
	int node_count;
	struct sim_event **link, *next; /* list of live events */
};

void sim_op_put(struct sim_op *op);
static inline struct sim_op *sim_op_get(struct sim_op *op)
{
	op->refs++;
	return op;
}
/* Waits (drops the lock meanwhile) until op is done; op must be held by the caller. */
void sim_op_wait(struct sim_op *op);

/* Lock held. Queues cmd, or records it when the stream is capturing. Takes over the
 * reference to cmd, whatever it returns. `out` (may be NULL) gets a reference to the
 * operation, NULL if captured. */
CUresult sim_submit(struct sim_stream *s, struct sim_cmd *cmd, struct sim_op **out);
CUresult sim_submit_after(struct sim_stream *s, struct sim_cmd *cmd, struct sim_op **deps, int count,
						  struct sim_op **out);
/* Waits for all that a host wait on this stream covers. Lock held. */
void sim_stream_drain(struct sim_stream *s);
bool sim_stream_idle(struct sim_stream *s);
uint64_t sim_now_ns(void);

#endif

/*
 * internal.h - types shared by the files of the simulated NCCL.
 *
 * nc.lock guards the process's list of communicators; a communicator's own lock what it launches. What ranks share lies
 * in one memfd a communicator (struct shared): everything there is reached by atomics.
 */
#ifndef SIM_NCCL_INTERNAL_H
#define SIM_NCCL_INTERNAL_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "../sim.h"
#include "../sim_nccl.h"

#define MAX_RANKS 64
#define CHUNK (128u << 10)    /* half a rank's room for collectives */
#define P2P_CHUNK (64u << 10) /* half a pair's room */
#define DESC_OPS 16           /* of a launch that are told when ranks are unlike */
#define LOOK_NS 100000000     /* sleepers look whether they were aborted, or their context failed */
#define PARTITIONS 4096

/* ---- configuration (conf.c): faults are relaxed atomics, the rest constant after the constructor ---- */
#define FAULTS(F)                                                                                         \
	F(RANK)       /* plus one: faults below strike this rank alone; 0: all */                             \
	F(COMM)       /* plus one: … and in this communicator of the process alone, in order of creation */ \
	F(DELAY_US)   /* up to so many us, from the seed, before an operation starts on the device */         \
	F(ISSUE_US)   /* … before a call issues it */                                                       \
	F(LATE_US)    /* every operation starts so many us late on the device */                              \
	F(TIME_US)    /* what it takes when all have started */                                               \
	F(ERROR)      /* after so many operations the communicator has the async error ERROR_CODE */          \
	F(ERROR_CODE) /* standard ncclRemoteError */                                                          \
	F(STUCK)      /* the so-many-th launch: all start, none completes */                                  \
	F(NO_START)   /* the so-many-th launch never starts */                                                \
	F(HALF)       /* the so-many-th launch stops for good after its first data */                         \
	F(DIE)        /* the process kills itself when its so-many-th launch runs */                          \
	F(PEER_ERROR) /* 1: who waits for a process that died gets ncclRemoteError, as over a network */      \
	F(SIZE_ERROR) /* 1: all-gathers of unlike size give ncclRemoteError, as over a network */             \
	F(MIXED)      /* 1: unlike launches complete, and nothing is moved */                                 \
	F(ABORT)      /* 1: ncclCommAbort never returns */                                                    \
	F(ASYNC_MS)   /* ncclCommGetAsyncError takes so long; 1: for ever */                                  \
	F(INIT)       /* 1: initialisation never ends */                                                      \
	F(CONNECT)    /* 1: the first call of each function waits, on the host, for all ranks' */

enum fault {
#define F(name) FAULT_##name,
	FAULTS(F)
#undef F
		FAULT_COUNT
};

struct comm;
uint64_t fault_raw(enum fault which);
/* Of a communicator, 0 when it strikes another rank or communicator. */
uint64_t fault(const struct comm *c, enum fault which);
uint64_t draw(uint64_t below); /* from the seed; 0 for 0 */
void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int nccl_version(void);
void count_call(const char *function);
uint64_t now_ns(void); /* CLOCK_MONOTONIC */
void sleep_us(uint64_t us);
/* With SIM_COSTS: what 64 all-gathers take on two H200s, one by one, in groups of 8 and in one, as so much an operation and so
 * much a launch, less what the simulated driver's calls of a launch take. */
#define COST_OP_NS 1000
#define COST_LAUNCH_NS 6000
void cost_ns(uint64_t ns);
void hang_forever(void);

/* ---- what ranks share (shared.c) ---- */
enum func {
	F_ALLGATHER,
	F_ALLREDUCE,
	F_REDUCESCATTER,
	F_REDUCE,
	F_BROADCAST,
	F_ALLTOALL,
	F_GATHER,
	F_SCATTER,
	F_SEND,
	F_RECV,
	F_COUNT
};
extern const char *const func_name[F_COUNT];

struct desc_op {
	uint32_t func, type, op;
	int32_t root;
	uint64_t count;
};
struct desc { /* of a launch */
	uint64_t hash;
	uint32_t ops, known;
	struct desc_op op[DESC_OPS];
};

struct meeting {     /* of a split or shrink; even and odd ones take turns */
	uint64_t number; /* release: the rest is there */
	int32_t color, key;
	int32_t pid, fd; /* of the child's memory: the first rank of a color makes it */
	uint64_t nonce;
	uint64_t made; /* number, when it is there */
};

struct rank_shared {
	uint32_t claimed, pid;
	uint32_t bell; /* futex: something happened to this rank's sends and receives */
	uint32_t left;
	uint64_t started, completed; /* launches */
	uint64_t arrived;            /* at the data barrier */
	uint64_t connected;          /* at the host barrier of CONNECT */
	struct desc desc[2];
	struct meeting meeting[2];
};

struct p2p_op {
	uint64_t bytes;
	uint32_t type;
};
struct pair {              /* sends of one rank to another */
	uint64_t sends, recvs; /* begun; release: op is there */
	struct p2p_op send[2], recv[2];
	uint64_t filled, emptied; /* chunks */
};

struct shared {
	uint64_t magic, nonce;
	uint32_t ranks; /* 0: nobody has joined yet */
	uint32_t joined;
	uint32_t closed; /* the maker's descriptor */
	uint32_t bell;   /* futex: a rank has joined, started, arrived, or met */
	struct rank_shared rank[MAX_RANKS];
};

/* The id's bytes. */
struct place {
	uint64_t magic, nonce;
	int32_t pid, fd;
};

int shared_make(struct place *place);                             /* the descriptor, or -1 */
struct shared *shared_open(const struct place *place, int ranks); /* NULL: cannot be */
void shared_close(struct shared *s, int ranks);
struct pair *shared_pair(struct shared *s, int from, int to);
unsigned char *shared_pair_room(struct shared *s, int from, int to, unsigned half);
unsigned char *shared_room(struct shared *s, int rank, unsigned half);
void bell_ring(uint32_t *bell);
/* Until it is rung again after `seen`, or ns have passed. */
void bell_wait(uint32_t *bell, uint32_t seen, long ns);
static inline uint32_t bell_look(uint32_t *bell)
{
	return __atomic_load_n(bell, __ATOMIC_SEQ_CST);
}
bool process_dead(uint32_t pid);

/* ---- communicators (comm.c) ---- */
#define COMM_MAGIC 0x6d6d6f636d6973ull
#define COMM_GONE 0x656e6f676d6973ull
#define MAX_OPS 16 /* dynamic reduction operators */

enum stop { STOP_NONE, STOP_REVOKED, STOP_ABORTED };

struct premul {
	bool used, device;
	ncclDataType_t type;
	unsigned char scalar[8];
	uint64_t address;
};

struct comm {       /* is a struct ncclComm */
	uint64_t magic; /* atomic */
	int rank, ranks, number;
	CUdevice dev;
	CUcontext ctx;
	struct shared *shared; /* set once, atomically: an abort looks while a thread initialises */
	struct place place;
	uint32_t stop;      /* enum stop; atomic */
	int32_t state;      /* a ncclResult_t: what ncclCommGetAsyncError says; atomic */
	int32_t persistent; /* launches that graphs hold; atomic */
	int32_t behind;     /* threads that run jobs of it; atomic */
	bool blocking, finalized;
	ncclConfig_t config;
	char error[256]; /* ncclGetLastError; lock */

	pthread_mutex_t lock;
	CUevent order; /* what was launched last; the next launch waits for it */
	bool launched;
	CUevent capture_order;
	cuuint64_t capture; /* the capture it was recorded in */
	uint64_t ops;       /* issued */
	uint64_t launches, signature;
	uint64_t order_since; /* hash of the operations since sim_nccl_order() */
	uint32_t partition[PARTITIONS];
	uint64_t meetings;
	uint32_t connected; /* functions, a bit each */
	uint64_t connects;
	struct premul premul[MAX_OPS];

	pthread_mutex_t run; /* held by the kernel that runs */
	uint64_t started, round;
	int profiled;               /* event types that the plugin wants; constant after initialisation */
	void *profiler;             /* its context */
	uint64_t sequence[F_COUNT]; /* for the plugin; lock */
	uint64_t sends[MAX_RANKS], recvs[MAX_RANKS]; /* begun, by peer */

	struct comm *next;
};

struct nc {
	pthread_mutex_t lock;
	struct comm *comms; /* all ever made: what is gone is recognised */
	int created;
	uint64_t live;
};
extern struct nc nc;

/* ncclSuccess when it can be used; else what the call returns. */
ncclResult_t comm_check(struct comm *c, const char *function);
ncclResult_t comm_ready(struct comm *c, const char *function); /* and no call on it is under way */
void comm_fail(struct comm *c, ncclResult_t state, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
struct comm *comm_new(int ranks, int rank, const ncclConfig_t *config, const struct place *place);
void comm_free(struct comm *c); /* it becomes a tombstone */
void comm_stop(struct comm *c, enum stop how);
bool comm_has_stopped(const struct comm *c);
void set_last_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- the driver (driver.c) ---- */
/* D(symbol, name, version): what is asked for, and the symbol that is meant */
#define DRIVER_FUNCTIONS(D)                                                        \
	D(cuInit, cuInit, 2000)                                                        \
	D(cuCtxGetCurrent, cuCtxGetCurrent, 4000)                                      \
	D(cuCtxSetCurrent, cuCtxSetCurrent, 4000)                                      \
	D(cuCtxGetDevice, cuCtxGetDevice, 2000)                                        \
	D(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000)                    \
	D(cuDeviceGetCount, cuDeviceGetCount, 2000)                                    \
	D(cuModuleLoadData, cuModuleLoadData, 2000)                                    \
	D(cuModuleGetFunction, cuModuleGetFunction, 2000)                              \
	D(cuLaunchKernelEx, cuLaunchKernelEx, 11060)                                   \
	D(cuEventCreate, cuEventCreate, 2000)                                          \
	D(cuEventDestroy_v2, cuEventDestroy, 4000)                                     \
	D(cuEventRecord, cuEventRecord, 2000)                                          \
	D(cuEventQuery, cuEventQuery, 2000)                                            \
	D(cuStreamWaitEvent, cuStreamWaitEvent, 3020)                                  \
	D(cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo, 11030)                    \
	D(cuUserObjectCreate, cuUserObjectCreate, 11030)                               \
	D(cuGraphRetainUserObject, cuGraphRetainUserObject, 11030)                     \
	D(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, 10010) \
	D(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync, 3020)                               \
	D(cuMemAlloc_v2, cuMemAlloc, 3020)                                             \
	D(cuMemFree_v2, cuMemFree, 3020)

struct driver {
#define D(symbol, name, version) __typeof__(&symbol) symbol;
	DRIVER_FUNCTIONS(D)
#undef D
	int (*load)(void *to, uint64_t from, size_t n);
	int (*store)(uint64_t to, const void *from, size_t n);
};
extern struct driver dr;
ncclResult_t driver_ready(void);
ncclResult_t device_context(CUdevice dev, CUcontext *ctx);
CUfunction kernel_of(const struct comm *c, enum func func); /* its context is current */

/* ---- jobs: what calls on communicators do, step by step (job.c) ---- */
struct job {
	/* True when it is done; never waits. */
	bool (*step)(struct job *job);
	struct comm *comm; /* whose state and blocking mode it has */
	uint32_t *bell;    /* that may tell of progress; NULL: none */
	bool waits;        /* also for a non-blocking communicator */
	int phase, kind;
	ncclResult_t result;
	uint64_t number;
	int color, key;
	int excluded[MAX_RANKS], excludes;
	struct comm **out, *parent;
	ncclConfig_t config;
	uint64_t since;
	bool done;
	struct job *next;
};
/* Takes over the job: into the group that is open, or runs it now. */
ncclResult_t job_submit(struct job *job);
struct job *job_new(struct comm *c, bool (*step)(struct job *));
/* Until all are done; frees them. The first result that is no success. */
ncclResult_t jobs_run(struct job *jobs);
/* Meanwhile an abort by another thread ends them, and waits for that. */
ncclResult_t jobs_run_held(struct job *jobs);
/* In a thread of their own; the communicators say ncclInProgress meanwhile. */
ncclResult_t jobs_run_behind(struct job *jobs);

bool takes_part(const struct job *job, int rank);
bool step_init(struct job *job);
bool step_split(struct job *job);
bool step_close(struct job *job); /* finalize, destroy, abort, revoke: by phase */
enum { CLOSE_FINALIZE, CLOSE_DESTROY, CLOSE_ABORT, CLOSE_REVOKE };

/* ---- operations (group.c, launch.c, run.c, p2p.c, reduce.c) ---- */
struct op {
	enum func func;
	const void *send;
	void *recv;
	size_t count;
	ncclDataType_t type;
	ncclRedOp_t op;
	struct premul premul; /* of a dynamic op */
	int root;             /* or the peer */
	struct comm *comm;
	CUstream stream;
	void *event; /* of the profiler plugin; NULL: none */
};

struct
	launch { /* what a kernel runs: all collectives, or all sends and receives, of one communicator's part of a group */
	struct comm *comm;
	bool persistent;
	int count;
	struct desc desc;
	void *group; /* event of the profiler plugin */
	struct op op[];
};

size_t type_size(ncclDataType_t type); /* 0: unknown */
/* What NCCL checks before it queues. */
ncclResult_t op_enqueue(struct op *op, const char *function);
ncclResult_t group_start(void);
ncclResult_t group_end(void);
int group_depth(void);
/* Launches ops (in order of issue) of any communicators. */
ncclResult_t launch_all(struct op *ops, int count);
int run_launch(void *launch, int (*lost)(const void *), const void *ctx); /* the kernel's body */

struct run { /* a kernel that runs */
	struct comm *c;
	const struct launch *l;
	int (*lost)(const void *);
	const void *ctx;
	unsigned char *temp; /* CHUNK bytes */
	CUresult result;
};
bool run_must_end(struct run *r);
void run_hang(struct run *r); /* until it must end */
void run_p2p(struct run *r);
void run_collectives(struct run *r);
void run_load(struct run *r, void *to, const void *from, size_t n);
void run_store(struct run *r, void *to, const void *from, size_t n);

/* acc = acc (op) in, n elements. */
void reduce(ncclRedOp_t op, ncclDataType_t type, void *acc, const void *in, size_t n);
void reduce_average(ncclDataType_t type, void *acc, size_t n, int ranks);
void reduce_scale(ncclDataType_t type, void *acc, size_t n, const void *scalar);

/* ---- profiler plugin (profiler.c) ---- */
void profiler_begin(struct comm *c);
void profiler_end(struct comm *c);
void profiler_launch(struct comm *c, struct launch *l); /* lock held */
void profiler_launched(const struct comm *c, const struct launch *l);
/* On the device; events has room for one an operation, zeroed. */
void profiler_kernel_start(const struct comm *c, const struct launch *l, void **events);
void profiler_kernel_end(const struct comm *c, const struct launch *l, void **events);

/* nccl* is a weak name of pnccl*, as in the real library. */
#define NCCL_API(name, params)                                 \
	ncclResult_t p##name params __attribute__((alias(#name))); \
	__attribute__((weak)) ncclResult_t name params

#endif

/*
 * sim_internal.h - types shared by the files of the simulated driver.
 *
 * One mutex, sim.lock, guards every structure below unless a field says
 * otherwise. Bytes move and host functions run without it.
 */
#ifndef SIM_INTERNAL_H
#define SIM_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Protected: a preloaded library that exports the same names never captures our own
 * references, as in the real driver. */
#pragma GCC visibility push(protected)
#define __CUDA_API_VERSION_INTERNAL /* cuda.h then declares every symbol under its own name */
#include <cuda.h>
#include <cudaProfiler.h>

#include "../sim.h"
#include "sim_trace.h"
#pragma GCC visibility pop
#pragma GCC visibility push(hidden)

#if defined(__SANITIZE_THREAD__)
#define SIM_TSAN
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SIM_TSAN
#endif
#endif

#define SIM_MAX_DEVICES 16
#define SIM_MAX_CTX_STACK 32
#define SIM_PAGEABLE_EARLY (2u << 20) /* bytes of a pageable H2D that are read at once */
#define SIM_GRANULARITY (2u << 20)    /* VMM */

/* ---- configuration (sim_conf.c): constant after the constructor ---- */
struct sim_conf {
	int version; /* as cuDriverGetVersion says */
	int devices;
	uint64_t mem_bytes; /* memory of each device */
	uint64_t ctx_bytes; /* what a context takes of it */
	unsigned dma_us;    /* added to every copy */
	double gbps;        /* copy speed; 0: no limit */
	unsigned jitter_us; /* 0 .. jitter_us added to every operation */
	uint64_t seed;
	bool hmm; /* kernels can reach pageable memory */
	bool ats;
	bool peer_strict; /* kernels need peer access to other devices' memory */
	bool costs;       /* calls take as long as real ones */
	bool quiet;       /* no "sim: ..." lines */
};
extern struct sim_conf sim_conf;

/* ---- entry of every exported function (sim_entry.c) ---- */
enum {
	S_DEV = 0,    /* needs cuInit */
	S_ANY = 1,    /* may be called before cuInit */
	S_CTX = 2,    /* needs a current context; reports its sticky error */
	S_UNSAFE = 4, /* prohibited while a capture that concerns this thread is live */
	S_HOST = 8,   /* may be called inside a host function, as all of S_ANY may */
};

struct sim_symbol {
	const char *name;
	void *fn;
	unsigned flags;
	uint64_t calls; /* relaxed atomics */
};

/* What a traced call returns: known of those that SIM_FN makes, of others only when the entry fails. */
static inline CUresult sim_result(struct sim_call *call, CUresult result)
{
	if (call->tracer)
		call->result = result;
	return result;
}
/* Counts the call, applies injected failures and the rules named by flags. */
CUresult sim_enter(struct sim_symbol *symbol, struct sim_call *call);
/* The call ends; runs when it goes out of scope (sim_trace.c). */
void sim_leave(struct sim_call *call);
bool sim_in_child(void); /* forked from the process that called cuInit */
/* Registered symbol of that exact name, or NULL. */
struct sim_symbol *sim_symbol_find(const char *name);
/* Marks this process as the one that owns the driver (cuInit). */
void sim_entry_mark_process(void);
void sim_resolve_check_self(void);
void sim_fail_parse(const char *text); /* SIM_FAIL */
/* Counts an error and says it on stderr. */
void sim_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* First in a function: registers the symbol (the linker gathers the pointers) and runs sim_enter. */
#define SIM_ENTER(sym, flag)                                                                      \
	static struct sim_symbol self_ = {#sym, (void *)&sym, (flag), 0};                             \
	static struct sim_symbol *const link_ __attribute__((section("sim_symbols"), used)) = &self_; \
	(void)link_;                                                                                  \
	struct sim_call call_ __attribute__((cleanup(sim_leave)));                                    \
	CUresult entry_ = sim_enter(&self_, &call_);                                                  \
	if (entry_ != CUDA_SUCCESS)                                                                   \
	return entry_

/* A whole exported function whose body is fn(args). */
#define SIM_FN(sym, flag, params, call)    \
	CUresult sym params                    \
	{                                      \
		SIM_ENTER(sym, flag);              \
		return sim_result(&call_, (call)); \
	}

/* The legacy-default-stream symbol and its per-thread twin: fn(per_thread, args). */
#define SIM_TWIN(sym, suffix, flag, params, fn, ...)  \
	SIM_FN(sym, flag, params, fn(false, __VA_ARGS__)) \
	SIM_FN(sym##suffix, flag, params, fn(true, __VA_ARGS__))

/* ---- devices and contexts (sim_device.c, sim_ctx.c) ---- */
struct sim_phys;
struct sim_pool;
struct sim_pool_free;
struct sim_block;
struct sim_graph;
struct sim_kernel;
struct sim_capture;
struct sim_node;
struct sim_event;
struct sim_ipc;
struct sim_arena;
struct sim_import;
struct sim_handle;
struct sim_waiter;

struct sim_device {
	int ordinal;
	uintptr_t va_base, va_next, va_end; /* addresses handed out; never backed by pages */
	uint64_t used, peak;                /* bytes that this process has of sim_conf.mem_bytes */
	struct sim_arena *arena;            /* their bytes */
	struct sim_ctx *primary;            /* NULL until first retained */
	unsigned primary_refs, primary_flags;
	CUresult broken; /* fatal error of a primary context that was reset */
	int stall;       /* > 0: a free or unregister drains the device and launches wait */
	struct sim_pool *default_pool, *pool;
	uint64_t graph_used, graph_high; /* memory of graphs */
};

#define SIM_MAGIC_CTX 0x78746373u
#define SIM_MAGIC_STREAM 0x6d727473u
#define SIM_MAGIC_EVENT 0x746e7665u

struct sim_ctx {
	uint32_t magic;
	bool primary, destroyed;
	bool green;    /* of a green context */
	unsigned uses; /* cuCtxCreate's and cuCtxAttach's */
	unsigned flags;
	unsigned long long id;
	struct sim_device *dev;
	CUresult sticky;            /* atomic: read without the lock at entry */
	struct sim_stream *streams; /* all, the hidden ones too */
	struct sim_stream *legacy;
	struct sim_stream *joint;  /* hidden: carries cuCtxRecordEvent; made at first use */
	struct sim_stream *waiter; /* hidden: carries cuCtxWaitEvent of other processes' events */
	struct sim_op **barriers;  /* of cuCtxWaitEvent: all that is submitted later waits for them */
	int barrier_count;
	struct sim_ctx *next;
	uint64_t peers;   /* bit per device whose memory this context may reach */
	uint64_t charged; /* bytes of the device's memory that the context itself takes */
	size_t limits[CU_LIMIT_MAX];
};

struct sim_thread { /* TLS */
	struct sim_ctx *stack[SIM_MAX_CTX_STACK];
	int depth;
	CUstreamCaptureMode capture_mode;
	bool in_host_func;      /* most calls are refused */
	struct sim_call *call;  /* innermost traced call, or NULL */
	uint32_t graph, node;   /* what a launch of a graph submits now; else 0 */
	struct sim_ctx *kernel; /* whose kernel runs on this thread; else NULL */
	uint64_t id;            /* 0: not assigned yet */
};
extern __thread struct sim_thread sim_thread;

struct sim_state {
	pthread_mutex_t lock;
	pthread_cond_t stall_ended;
	bool inited; /* atomic */
	bool dead;   /* atomic: the process is exiting */
	struct sim_device dev[SIM_MAX_DEVICES];
	struct sim_ctx *contexts;
	struct sim_ctx *dead_contexts; /* kept, so that stale handles are recognised */
	struct sim_stream *dead_streams;
	unsigned long long next_id;
	uint32_t next_event, next_graph; /* their numbers for a tracer */
	uint64_t jitter_state;
	uint64_t allocs, events, streams, registrations, host_allocs;
	uint64_t errors;          /* relaxed atomic */
	uint64_t free_waits;      /* frees and unregistrations that found the device busy */
	uint64_t launch_delay_ns; /* longest that one of them held a submission back */
	int live_captures;        /* atomic: lets the entry skip the capture rules */
};
extern struct sim_state sim;

static inline void sim_lock(void)
{
	pthread_mutex_lock(&sim.lock);
}
static inline void sim_unlock(void)
{
	pthread_mutex_unlock(&sim.lock);
}

/* The calling thread's current context, or NULL. */
static inline struct sim_ctx *sim_current(void)
{
	return sim_thread.depth ? sim_thread.stack[sim_thread.depth - 1] : NULL;
}
uint64_t sim_thread_id(void);
struct sim_ctx *sim_ctx_new(struct sim_device *dev, unsigned flags, bool primary); /* lock held */
void sim_ctx_teardown(struct sim_ctx *ctx);
/* Lock held. NULL: *why says it. */
struct sim_ctx *sim_primary_retain(struct sim_device *dev, CUresult *why);
CUresult sim_primary_release(struct sim_device *dev);
struct sim_device *sim_device_get(CUdevice dev); /* NULL: no such device */
bool sim_ctx_valid(const struct sim_ctx *ctx);
void sim_ctx_stick(struct sim_ctx *ctx, CUresult code);
/* Lock held; both may drop it while they wait. Returns the sticky error. */
CUresult sim_ctx_drain(struct sim_ctx *ctx);
/* True when there was work. */
bool sim_device_drain(struct sim_device *dev);
/* As a real free does: drains the device while no other thread can launch on it. */
void sim_device_stop_and_drain(struct sim_device *dev);

#include "sim_op.h"

/* ---- streams and events ---- */
/* Lock held. NULL, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD are resolved against the
 * current context. */
CUresult sim_stream_get(CUstream handle, bool per_thread, struct sim_stream **out);
struct sim_stream *sim_stream_new(struct sim_ctx *ctx, unsigned flags);
void sim_stream_destroy(struct sim_stream *s);
void sim_event_ctx_gone(struct sim_ctx *ctx); /* destroys the context's events */
/* Takes over the reference to ipc, which may be NULL. Lock not held. */
CUresult sim_event_new(unsigned flags, struct sim_ipc *ipc, CUevent *out);
bool sim_event_recorded(const struct sim_event *e);
CUresult sim_event_get(CUevent handle, struct sim_event **out);
void sim_event_put(struct sim_event *e);
CUresult sim_event_stream_waits(struct sim_event *e, struct sim_stream *s, unsigned flags);
/* Submits cmd, to run when all of the context's work of now is done. As sim_submit. */
CUresult sim_ctx_join(struct sim_ctx *ctx, struct sim_cmd *cmd, struct sim_op **out);
/* All that is submitted to ctx from now on waits for op. False: out of memory. */
bool sim_ctx_bar(struct sim_ctx *ctx, struct sim_op *op);
/* A stream that the program never sees, kept in *at. NULL: out of memory. */
struct sim_stream *sim_ctx_hidden(struct sim_ctx *ctx, struct sim_stream **at);

/* ---- the tracer (sim_trace.c) ---- */
void sim_trace_enter(struct sim_call *call, const char *symbol);
uint64_t sim_trace_now(void); /* ns of CLOCK_REALTIME */
/* Differs between two times at which a tracer is attached, and 0 without one. */
unsigned sim_trace_epoch(void);
/* A tracer records graphs whole now. */
bool sim_trace_whole_graphs(void);
/* Lock held for all: what the current call does. */
struct sim_trace_item *sim_trace_submit(const struct sim_stream *s, const struct sim_cmd *cmd);
void sim_trace_wait(enum sim_trace_wait wait, const struct sim_ctx *ctx, const struct sim_stream *s,
					const struct sim_event *e);
void sim_trace_record(const struct sim_stream *s, const struct sim_event *e);

/* ---- capture (sim_capture.c); lock held unless said ---- */
CUresult sim_capture_unsafe_locked(void); /* 900, breaking the capture, when prohibited */
CUresult sim_capture_unsafe(void);        /* takes the lock itself */
/* For a host wait or query on s, by the same rules as the driver's. */
CUresult sim_capture_host_looks(struct sim_stream *s);
CUresult sim_capture_add(struct sim_stream *s, struct sim_cmd *cmd); /* takes the reference */
CUresult sim_capture_refuse(struct sim_stream *s);                   /* breaks the capture; 900 */
bool sim_capture_implicit(struct sim_ctx *ctx);                      /* legacy stream used: breaks captures */
bool sim_capture_in_ctx(struct sim_ctx *ctx); /* some stream captures: breaks the captures */
CUresult sim_capture_record(struct sim_stream *s, struct sim_event *e);
CUresult sim_capture_wait_event(struct sim_stream *s, struct sim_event *e);
CUresult sim_capture_event_used(struct sim_event *e); /* host looked at a captured event */
void sim_capture_stream_gone(struct sim_stream *s);
void sim_capture_forget_event(struct sim_event *e);

#pragma GCC visibility pop

#include "sim_range.h"

#endif

/*
 * replay_worker.h - one replay under way.
 */
#ifndef TURBO_REPLAY_WORKER_H
#define TURBO_REPLAY_WORKER_H

#include "replay.h"
#include "replay_driver.h"

struct replay_worker {
	struct replay_driver drv;
	const struct replay_mode *mode;
	bool touch;
	unsigned devices, current;
	struct {
		CUcontext ctx;
		CUevent event;
		CUmemoryPool pool;
		size_t free_before;                      /* bytes free on the device before the first operation */
		uint64_t live, peak_live, peak_reserved; /* bytes */
	} device[TRACE_DEVICES];
	CUstream *stream;   /* [number * devices + device]; NULL: not made yet */
	CUdeviceptr *block; /* by number; 0: not allocated */
	uint32_t streams, blocks;
	uint64_t calls;       /* driver calls that the operations made */
	uint64_t alloc_calls; /* those of them that allocate and free */
	uint64_t own_calls;   /* what we asked the driver meanwhile */
	uint64_t ops, ns, oom;
	/* the chunk */
	struct trace_op *op;
	bool *sample;
	/* samples are planned while the trace is read */
	uint64_t planned_op, planned_live;
};

/* False, after saying so, unless the driver answered with success. */
static inline bool replay_answer(struct replay_worker *w, const char *call, CUresult r)
{
	return r == CUDA_SUCCESS || replay_failed(&w->drv, call, r);
}
#define REPLAY_OK(w, f, ...) ((w)->calls++, replay_answer((w), #f, (w)->drv.f(__VA_ARGS__)))

/* replay_ops.c: one operation. False after saying on stderr what failed; no memory is no failure. */
bool replay_carry_out(struct replay_worker *w, const struct trace_op *op);

#endif

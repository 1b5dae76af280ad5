/* progress.c - see progress.h: what the issuing thread does for a launch, and the life of all of it. */
#define _GNU_SOURCE
#include "progress.h"

#include <stddef.h>

#include "capture.h"
#include "graphs.h"
#include "launches.h"
#include "life.h"
#include "log.h"
#include "real.h"
#include "sampler.h"
#include "waits.h"

enum { NOT_STARTED, STARTING, FOLLOWING, OFF };

static _Atomic int state; /* relaxed: a launch more or less does not matter */
/* The driver can begin captures that we do not see, so the stream is asked each time. Set before FOLLOWING. */
static bool hidden_captures;

static bool driver_suffices(void)
{
	return REAL_HAS(cuEventCreate) && REAL_HAS(cuEventDestroy_v2) && REAL_HAS(cuEventRecord) &&
		   REAL_HAS(cuEventQuery) && REAL_HAS(cuStreamGetCtx) && REAL_HAS(cuCtxGetCurrent) &&
		   REAL_HAS(cuCtxPushCurrent_v2) && REAL_HAS(cuCtxPopCurrent_v2) && REAL_HAS(cuCtxGetDevice) &&
		   REAL_HAS(cuDevicePrimaryCtxGetState) && REAL_HAS(cuThreadExchangeStreamCaptureMode) &&
		   REAL_HAS(cuStreamIsCapturing);
}

/* NCCL may be what calls cuInit, in the course of making the first communicator: then the first launch comes here again. */
static bool try_start(void)
{
	int none = NOT_STARTED, starting = STARTING;

	if (!life_cuda() || !atomic_compare_exchange_strong(&state, &none, STARTING))
		return false;
	if (!driver_suffices() || !sampler_start()) {
		log_once(LOG_INFO,
				 "nccl: no thread to ask the driver, or an old driver; how far the GPU gets is not followed");
		return false;
	}
	hidden_captures = REAL_HAS(cuStreamBeginRecaptureToGraph) || REAL_HAS(cuStreamBeginCaptureToCig);
	/* Unless the process is exiting. */
	return atomic_compare_exchange_strong(&state, &starting, FOLLOWING);
}

void progress_start(void)
{
	waits_start();
	try_start();
}

static bool follows(void)
{
	int now = atomic_load_explicit(&state, memory_order_acquire);

	return __builtin_expect(now == FOLLOWING, 1) || (now == NOT_STARTED && try_start());
}

/* An event in a capture would become part of the graph, and asking for it would break the capture. */
static bool captures(CUstream stream)
{
	return (__builtin_expect(capture_live(), 0) || hidden_captures) && capture_on(stream, false);
}

uint32_t progress_before(struct flight_comm *comm, void *handle)
{
	CUstream stream = handle;
	struct launch *l;

	if (!follows())
		return 0;
	/* Its launches happen on a thread of NCCL's, later. */
	if (comm->nonblocking || captures(stream))
		return 0;
	l = launch_take(stream, comm->device);
	if (!l)
		return 0;
	CUresult r = REAL(cuEventRecord)(l->begin, stream);
	if (r != CUDA_SUCCESS) {
		launch_give(l);
		return 0;
	}
	l->comm = comm;
	l->life = atomic_load_explicit(&comm->life, memory_order_relaxed);
	l->begun = 0;
	return l->number;
}

/* The operations of the launch, which this thread has just written: of a group all, of which those on other streams of the
 * communicator have launches of their own. */
static void gather(struct launch *l, uint64_t index)
{
	const struct flight_op *op = &l->comm->op[index % FLIGHT_OPS];
	uint32_t group = op->group;

	l->first = l->index = l->last = index;
	l->bytes = op->bytes;
	l->not_begun = op->issued;
	for (uint64_t i = index - 1; group && i && index - i < FLIGHT_OPS - 1; i--) {
		op = &l->comm->op[i % FLIGHT_OPS];
		if (op->index != i || op->group != group)
			break;
		l->first = i;
		l->not_begun = op->issued;
		if (op->stream == (uint64_t)(uintptr_t)l->handle)
			l->bytes += op->bytes;
	}
}

void progress_after(uint32_t number, uint64_t index)
{
	struct launch *l = launch_of(number);

	if (!l)
		return;
	l->recorded = launch_alive(l) && REAL(cuEventRecord)(l->end, l->handle) == CUDA_SUCCESS;
	gather(l, index);
	launch_push(l);
	sampler_wake();
}

/* ---- life ---- */

void progress_stop(void)
{
	atomic_store(&state, OFF);
	sampler_stop();
}

void progress_context_gone(void *ctx, int device)
{
	if (atomic_load(&state) != FOLLOWING)
		return;
	sampler_quiet(true);
	gpus_gone(ctx, device);
	sampler_quiet(false);
	sampler_wake();
}

void progress_quiet(bool on)
{
	sampler_quiet(on);
}

void progress_fork_child(void)
{
	atomic_store(&state, OFF);
	launches_fork_child();
	sampler_fork_child();
	graphs_fork_child();
	waits_fork_child();
}

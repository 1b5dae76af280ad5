/*
 * h2d.c - host to device: workers fill slots, the caller issues DMAs in order.
 *
 * Two ways, by who may wait for whom:
 *
 *   on the program's stream (at most 2 MiB; with TURBO_COPY=early as much as the slots
 *   hold): all bytes are read at once, as the driver does, and the DMAs queue behind
 *   the stream's earlier work; every chunk has a slot of its own, so the call waits
 *   for nothing on the device.
 *
 *   on our own stream (larger): the call waits, as the driver's does, until the
 *   stream's earlier work has run. Only then DMAs are issued, on a stream on which
 *   nothing but such DMAs stands, so a slot is always free again within the time of
 *   a transfer, whatever other threads put on the program's stream meanwhile.
 */
#include "capture.h"
#include "pause.h"
#include "real.h"
#include "stage.h"

/* Work that comes after the call on the program's stream must see the bytes. */
static CUresult order_behind(struct stage *st)
{
	const struct copy_call *call = st->call;
	bool legacy = call->stream == CU_STREAM_LEGACY || (!call->stream && !call->per_thread);
	/* The legacy stream orders all blocking streams behind its work; whether a bare
	 * wait counts as such is nowhere written, so there the DMA itself is awaited. */
	/* A capture that another thread has begun on this very stream meanwhile would be
	 * broken by a wait for an event from outside it. */
	if (call->sync || legacy || capture_live())
		return stage_finish(st);
	CUevent last = st->slot[(st->issued - 1) % st->slots]->done;
	CUresult r = call->per_thread ? REAL(cuStreamWaitEvent_ptsz)(call->stream, last, 0)
								  : REAL(cuStreamWaitEvent)(call->stream, last, 0);
	return r == CUDA_SUCCESS ? r : stage_finish(st);
}

/* One round; sets *idle when nothing moved. */
static CUresult h2d_step(struct stage *st, struct turn *turn, bool *idle)
{
	CUresult r = turn->passed ? CUDA_SUCCESS : turn_poll(turn);
	if (r != CUDA_SUCCESS)
		return r;
	uint64_t planned = st->planned, issued = st->issued;
	while (stage_plan(st, turn->passed ? SIZE_MAX : st->early))
		;
	if (st->planned != planned)
		stage_allow(st, st->planned);
	while (turn->passed && st->issued < st->planned && stage_moved(st, st->issued)) {
		r = stage_issue(st);
		if (r != CUDA_SUCCESS)
			return r;
	}
	/* Ask for finished DMAs only when a slot is needed: a query costs 0.2 us. */
	if (!stage_planned_all(st) && st->planned == st->reusable + st->slots) {
		r = stage_poll(st);
		st->reusable = st->done;
	}
	*idle = st->planned == planned && st->issued == issued && !stage_help(st, st->issued);
	return r;
}

CUresult h2d_run(struct stage *st)
{
	struct turn turn = {.passed = st->on_caller};
	CUresult r = st->on_caller ? CUDA_SUCCESS : turn_take(&turn, st->call);
	uint64_t since = clock_ns();
	while (r == CUDA_SUCCESS && !(stage_planned_all(st) && st->issued == st->planned)) {
		bool idle = false;
		r = h2d_step(st, &turn, &idle);
		if (idle)
			pause_poll(since);
		else
			since = clock_ns();
	}
	turn_drop(&turn);
	if (r != CUDA_SUCCESS)
		return r;
	if (st->on_caller)
		return st->call->sync ? stage_finish(st) : CUDA_SUCCESS;
	return order_behind(st);
}

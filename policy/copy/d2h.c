/*
 * d2h.c - device to host: the caller issues DMAs into slots and watches their
 * events, workers empty the slots into the program's memory.
 *
 * The driver's pageable D2H always waits for the stream's earlier work, and so do
 * we, on the host, before the first DMA: on our own stream nothing may ever stand
 * that waits for the program. The call returns when the last byte is in place, so
 * later work on the program's stream is behind it by itself.
 */
#include "pause.h"
#include "stage.h"

static CUresult d2h_step(struct stage *st, bool *idle)
{
	uint64_t issued = st->issued, done = st->done, reusable = st->reusable;
	while (stage_plan(st, SIZE_MAX)) {
		CUresult r = stage_issue(st);
		if (r != CUDA_SUCCESS)
			return r;
	}
	CUresult r = stage_poll(st);
	if (r != CUDA_SUCCESS)
		return r;
	if (st->done != done)
		stage_allow(st, st->done);
	while (st->reusable < st->done && stage_moved(st, st->reusable))
		st->reusable++;
	*idle = st->issued == issued && st->done == done && st->reusable == reusable &&
			!stage_help(st, st->reusable);
	return CUDA_SUCCESS;
}

CUresult d2h_run(struct stage *st)
{
	struct turn turn;
	CUresult r = turn_take(&turn, st->call);
	uint64_t since = clock_ns();
	while (r == CUDA_SUCCESS && !turn.passed) {
		r = turn_poll(&turn);
		if (r == CUDA_SUCCESS && !turn.passed)
			pause_poll(since);
	}
	turn_drop(&turn);
	since = clock_ns();
	while (r == CUDA_SUCCESS && !(stage_planned_all(st) && st->reusable == st->planned)) {
		bool idle = false;
		r = d2h_step(st, &idle);
		if (idle)
			pause_poll(since);
		else
			since = clock_ns();
	}
	return r;
}

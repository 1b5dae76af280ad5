/*
 * h2d.c - host to device: workers fill the ring, the caller issues DMAs in order.
 *
 * Two ways, by who may wait for whom:
 *
 *   on the program's stream (at most 2 MiB; with TURBO_COPY=early as much as the slots
 *   hold): all bytes are read at once, as the driver does, and the DMAs queue behind
 *   the stream's earlier work; there is room for every byte, so the call waits for
 *   nothing on the device.
 *
 *   on our own stream (larger): the call has waited, as the driver's does, until the
 *   stream's earlier work had run (turn.h). Only then DMAs are issued, on a stream on which
 *   nothing but such DMAs stands, so ring memory is always free again within the time
 *   of a transfer, whatever other threads put on the program's stream meanwhile.
 */
#include "capture.h"
#include "pause.h"
#include "real.h"
#include "stage.h"
#include "turn.h"

/* Work that comes after the call on the program's stream must see the bytes. */
static CUresult order_behind(struct stage *st)
{
	const struct copy_call *call = st->call;
	CUevent last;
	/* The legacy stream orders all blocking streams behind its work; whether a bare
	 * wait counts as such is nowhere written, so there the DMA itself is awaited.
	 * A capture that another thread has begun on this very stream meanwhile would be
	 * broken by a wait for an event from outside it. */
	if (call->sync || turn_is_legacy(call) || capture_live() || stage_fence(st, &last) != CUDA_SUCCESS)
		return stage_finish(st);
	CUresult r = call->per_thread ? REAL(cuStreamWaitEvent_ptsz)(call->stream, last, 0)
								  : REAL(cuStreamWaitEvent)(call->stream, last, 0);
	return r == CUDA_SUCCESS ? r : stage_finish(st);
}

/* Small at both ends: the first DMA starts early, and little is left to move when the
 * last one could start. */
static size_t piece_bytes(const struct stage *st)
{
	size_t n = stage_piece_bytes(st, st->call->bytes - st->planned);
	bool first = st->pieces - st->first_piece <= workers_wanted;
	return first && n > COPY_PIECE_FIRST ? COPY_PIECE_FIRST : n;
}

/* Gives the workers pieces of the source; true if there were any. */
static bool plan(struct stage *st)
{
	uint64_t before = st->pieces;
	while (st->planned < st->call->bytes) {
		size_t room = stage_room(st), piece = piece_bytes(st);
		/* A crumb is taken only where the ring or the copy ends. */
		bool cut = (st->planned + room) % st->room == 0 || st->planned + room == st->call->bytes;
		size_t n = room < piece ? room : piece;
		if (!n || (n < piece && !cut) || !stage_piece(st, st->planned, n))
			break;
		st->planned += n;
	}
	if (st->pieces != before)
		stage_allow(st);
	return st->pieces != before;
}

/*
 * Feeds the device: at once while fewer than two DMAs are in flight (one runs, one is
 * next), so that what is moved meanwhile goes as one larger DMA. On the program's
 * stream nothing is asked; DMAs go in parts of COPY_FEED_BYTES.
 */
static CUresult feed(struct stage *st)
{
	size_t end = st->moved;
	if (end == st->issued)
		return CUDA_SUCCESS;
	if (st->on_caller) {
		if (end - st->issued < COPY_FEED_BYTES && end < st->call->bytes)
			return CUDA_SUCCESS;
	} else if (stage_dmas(st) >= 2) {
		return CUDA_SUCCESS;
	}
	size_t straight = st->room - st->issued % st->room;
	if (end - st->issued > straight)
		end = st->issued + straight;
	if (end - st->issued > COPY_DMA_BYTES)
		end = st->issued + COPY_DMA_BYTES;
	return stage_dma(st, end);
}

/* One round; sets *idle when nothing moved. */
static CUresult h2d_step(struct stage *st, bool *idle)
{
	size_t moved = st->moved, issued = st->issued;
	CUresult r = stage_dmas(st) ? stage_poll(st) : CUDA_SUCCESS;
	if (r != CUDA_SUCCESS)
		return r;
	st->reusable = st->done;
	bool planned = plan(st);
	stage_moved(st);
	r = feed(st);
	*idle = !planned && st->moved == moved && st->issued == issued && !stage_help(st);
	return r;
}

CUresult h2d_run(struct stage *st)
{
	CUresult r = CUDA_SUCCESS;
	uint64_t since = clock_ns();
	while (r == CUDA_SUCCESS && st->issued < st->call->bytes) {
		bool idle = false;
		r = h2d_step(st, &idle);
		if (idle)
			pause_poll(since);
		else
			since = clock_ns();
	}
	if (r != CUDA_SUCCESS)
		return r;
	if (st->on_caller)
		return st->call->sync ? stage_finish(st) : CUDA_SUCCESS;
	return order_behind(st);
}

/*
 * d2h.c - device to host: the caller issues DMAs into the ring and watches their
 * events, workers empty it into the program's memory.
 *
 * The driver's pageable D2H always waits for the stream's earlier work, and so do
 * we, on the host, before the first DMA (turn.h): on our own stream nothing may ever stand
 * that waits for the program. The call returns when the last byte is in place, so
 * later work on the program's stream is behind it by itself.
 */
#include "pause.h"
#include "stage.h"

/* Small at both ends: the workers start early, and little is left for them when the
 * last DMA has run. */
static size_t dma_bytes(const struct stage *st)
{
	size_t left = st->call->bytes - st->planned;
	size_t ramp = st->next_dma < 8 ? (size_t)COPY_D2H_FIRST << (st->next_dma / 2) : COPY_D2H_DMA_BYTES;
	size_t tail = left / 2 > COPY_D2H_FIRST ? left / 2 : COPY_D2H_FIRST;
	size_t n = ramp < tail ? ramp : tail;
	return n < COPY_D2H_DMA_BYTES ? n : COPY_D2H_DMA_BYTES;
}

/* Keeps the device busy: a few DMAs ahead of what the workers have emptied. */
static CUresult fill(struct stage *st)
{
	while (st->planned < st->call->bytes && stage_dmas(st) < COPY_D2H_AHEAD && stage_dmas(st) < st->slots) {
		size_t n = dma_bytes(st), room = stage_room(st);
		bool cut = (st->planned + room) % st->room == 0 || st->planned + room == st->call->bytes;
		if (room < n && (!room || !cut))
			return CUDA_SUCCESS;
		st->planned += room < n ? room : n;
		CUresult r = stage_dma(st, st->planned);
		if (r != CUDA_SUCCESS)
			return r;
	}
	return CUDA_SUCCESS;
}

/* Gives the workers what has arrived, in pieces. */
static bool hand_out(struct stage *st, size_t *handed)
{
	size_t before = *handed;
	while (*handed < st->done) {
		size_t n = st->done - *handed, straight = st->room - *handed % st->room;
		if (n > straight)
			n = straight;
		size_t piece = stage_piece_bytes(st, st->call->bytes - *handed);
		if (n > piece)
			n = piece;
		if (!stage_piece(st, *handed, n))
			break;
		*handed += n;
	}
	if (*handed != before)
		stage_allow(st);
	return *handed != before;
}

static CUresult d2h_step(struct stage *st, size_t *handed, bool *idle)
{
	size_t issued = st->issued, moved = st->moved;
	CUresult r = fill(st);
	if (r == CUDA_SUCCESS)
		r = stage_poll(st);
	if (r != CUDA_SUCCESS)
		return r;
	bool gave = hand_out(st, handed);
	stage_moved(st);
	st->reusable = st->moved;
	*idle = !gave && st->issued == issued && st->moved == moved && !stage_help(st);
	return r;
}

CUresult d2h_run(struct stage *st)
{
	CUresult r = CUDA_SUCCESS;
	size_t handed = 0;
	uint64_t since = clock_ns();
	while (r == CUDA_SUCCESS && st->moved < st->call->bytes) {
		bool idle = false;
		r = d2h_step(st, &handed, &idle);
		if (idle)
			pause_poll(since);
		else
			since = clock_ns();
	}
	return r;
}

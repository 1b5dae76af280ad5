#include "stage.h"

#include "move.h"
#include "pause.h"
#include "real.h"
#include "stats.h"

static CUresult event_record(CUevent event, CUstream stream, bool ptsz)
{
	return ptsz ? REAL(cuEventRecord_ptsz)(event, stream) : REAL(cuEventRecord)(event, stream);
}

/* --- opening and closing --- */

static unsigned slots_for(const struct copy_call *call)
{
	return (unsigned)((call->bytes + COPY_SLOT_BYTES - 1) / COPY_SLOT_BYTES);
}

/* What a copy may hold: never all, but for a ring so small that two slots are more. */
static unsigned slots_at_most(const struct copy_ring *ring)
{
	unsigned most = ring->slots / 2 < COPY_JOB_SLOTS ? ring->slots / 2 : COPY_JOB_SLOTS;
	return most < 2 ? 2 : most; /* one is filled while the other one's DMA runs */
}

bool stage_fits_caller(const struct copy_call *call, const struct copy_ring *ring, size_t early)
{
	return call->dir == COPY_H2D && call->bytes <= early &&
		   call->bytes <= (size_t)slots_at_most(ring) * COPY_SLOT_BYTES;
}

enum stage_open stage_open(struct stage *st, const struct copy_call *call, struct copy_ring *ring,
						   bool on_caller)
{
	*st = (struct stage){.call = call, .ring = ring, .on_caller = on_caller};
	unsigned most = slots_at_most(ring);
	unsigned want = call->bytes < (size_t)most * COPY_SLOT_BYTES ? slots_for(call) : most;
	unsigned least = on_caller ? want : 2;
	st->slots = ring_take(ring, st->slot, want > least ? want : least, least);
	if (!st->slots)
		return STAGE_BUSY;
	st->room = (size_t)st->slots * COPY_SLOT_BYTES;
	st->job = workers_job_get();
	if (!st->job) {
		ring_give(st->slot, st->slots, NULL);
		return STAGE_BUSY;
	}
	bool to_device = call->dir == COPY_H2D;
	st->stream = st->on_caller ? call->stream : to_device ? ring->stream_in : ring->stream_out;
	st->stream_ptsz = st->on_caller && call->per_thread;
	st->job->to_device = to_device;
	st->job->past_caches =
		to_device && (call->bytes <= COPY_STREAM_BYTES || move_is_unmapped((void *)call->src, call->bytes));
	st->job->fresh = !to_device && move_is_fresh((void *)call->dst, call->bytes);
	st->job->host = (unsigned char *)(to_device ? call->src : call->dst);
	st->first_piece = st->pieces = st->moved_pieces = workers_job_start(st->job);
	return STAGE_OPEN;
}

CUresult stage_fence(struct stage *st, CUevent *fence)
{
	*fence = st->slot[st->next_dma % st->slots]->own;
	if (st->recorded) {
		*fence = st->slot[(st->next_dma - 1) % st->slots]->own;
		return CUDA_SUCCESS;
	}
	CUresult r = event_record(*fence, st->stream, st->stream_ptsz);
	if (r != CUDA_SUCCESS)
		return r;
	st->dma_end[st->next_dma++ % st->slots] = st->issued;
	st->recorded = true;
	return r;
}

void stage_close(struct stage *st, CUresult status)
{
	CUevent fence = NULL;
	bool lost = false;
	workers_job_end(st->job);
	/* On our own stream nothing but copies is ahead, so this wait is short; on the
	 * program's stream its order already puts the driver's copy behind ours. */
	if (status != CUDA_SUCCESS && !st->on_caller && REAL(cuStreamSynchronize)(st->stream) == CUDA_SUCCESS)
		st->done = st->issued;
	if (st->done < st->issued && stage_fence(st, &fence) != CUDA_SUCCESS)
		lost = true;
	if (lost)
		ring_lose(st->slot, st->slots);
	else
		ring_give(st->slot, st->slots, fence);
}

/* --- pieces --- */

size_t stage_piece_bytes(const struct stage *st, size_t left)
{
	size_t share = left / (2 * (workers_wanted + 1)) & ~(size_t)(COPY_PIECE_MIN - 1);
	size_t most = st->job->to_device ? COPY_PIECE_BYTES : st->job->fresh ? COPY_PIECE_FRESH : COPY_PIECE_D2H;
	return share < COPY_PIECE_MIN ? COPY_PIECE_MIN : share < most ? share : most;
}

size_t stage_room(const struct stage *st)
{
	size_t free = st->room - (st->planned - st->reusable);
	size_t straight = st->room - st->planned % st->room;
	size_t left = st->call->bytes - st->planned;
	size_t n = free < straight ? free : straight;
	return n < left ? n : left;
}

bool stage_piece(struct stage *st, size_t at, size_t bytes)
{
	if (st->pieces - st->moved_pieces == COPY_CELLS)
		return false;
	struct copy_cell *cell = &st->job->cell[st->pieces % COPY_CELLS];
	cell->ring = st->slot[0]->mem + at % st->room;
	cell->offset = at;
	cell->bytes = bytes;
	st->pieces++;
	return true;
}

void stage_allow(struct stage *st)
{
	workers_job_allow(st->job, st->pieces);
}

void stage_moved(struct stage *st)
{
	while (st->moved_pieces < st->pieces) {
		struct copy_cell *cell = &st->job->cell[st->moved_pieces % COPY_CELLS];
		/* Acquire: pairs with the mover's release, see struct copy_cell. */
		if (atomic_load_explicit(&cell->moved, memory_order_acquire) != st->moved_pieces + 1)
			return;
		st->moved = cell->offset + cell->bytes;
		st->moved_pieces++;
	}
}

bool stage_help(struct stage *st)
{
	/* With few workers the caller is one of them; with many it only steps in when the
	 * piece it needs next has not even been claimed (they are still waking). */
	if (workers_wanted >= 4 && atomic_load_explicit(&st->job->next, memory_order_relaxed) > st->moved_pieces)
		return false;
	return workers_job_help(st->job);
}

/* --- DMAs --- */

unsigned stage_dmas(const struct stage *st)
{
	return (unsigned)(st->next_dma - st->first_dma);
}

static CUresult dma(struct stage *st, size_t at, size_t bytes)
{
	unsigned char *mem = st->slot[0]->mem + at % st->room;
	if (st->call->dir == COPY_D2H)
		return REAL(cuMemcpyDtoHAsync_v2)(mem, st->call->src + at, bytes, st->stream);
	if (st->stream_ptsz)
		return REAL(cuMemcpyHtoDAsync_v2_ptsz)(st->call->dst + at, mem, bytes, st->stream);
	return REAL(cuMemcpyHtoDAsync_v2)(st->call->dst + at, mem, bytes, st->stream);
}

CUresult stage_dma(struct stage *st, size_t end)
{
	CUresult r = dma(st, st->issued, end - st->issued);
	if (r != CUDA_SUCCESS)
		return r;
	st->issued = end;
	st->recorded = false;
	CUevent fence;
	return st->on_caller ? CUDA_SUCCESS : stage_fence(st, &fence);
}

CUresult stage_poll(struct stage *st)
{
	while (st->first_dma < st->next_dma) {
		unsigned i = (unsigned)(st->first_dma % st->slots);
		CUresult r = REAL(cuEventQuery)(st->slot[i]->own);
		if (r == CUDA_ERROR_NOT_READY)
			return CUDA_SUCCESS;
		if (r != CUDA_SUCCESS)
			return r;
		st->done = st->dma_end[i];
		st->first_dma++;
	}
	return CUDA_SUCCESS;
}

CUresult stage_finish(struct stage *st)
{
	uint64_t since = clock_ns();
	CUevent fence;
	CUresult r = st->done < st->issued ? stage_fence(st, &fence) : CUDA_SUCCESS;
	while (r == CUDA_SUCCESS && st->done < st->issued) {
		r = stage_poll(st);
		if (st->done < st->issued)
			pause_poll(since);
	}
	return r;
}

#include "stage.h"

#include "pause.h"
#include "real.h"
#include "stats.h"

static CUresult event_record(CUevent event, CUstream stream, bool ptsz)
{
	return ptsz ? REAL(cuEventRecord_ptsz)(event, stream) : REAL(cuEventRecord)(event, stream);
}

/* --- the copy's turn in the program's stream --- */

CUresult turn_take(struct turn *turn, const struct copy_call *call)
{
	turn->passed = false;
	CUresult r = REAL(cuEventCreate)(&turn->event, CU_EVENT_DISABLE_TIMING);
	if (r != CUDA_SUCCESS) {
		turn->event = NULL;
		return r;
	}
	return event_record(turn->event, call->stream, call->per_thread);
}

CUresult turn_poll(struct turn *turn)
{
	CUresult r = REAL(cuEventQuery)(turn->event);
	if (r == CUDA_ERROR_NOT_READY)
		return CUDA_SUCCESS;
	turn->passed = r == CUDA_SUCCESS;
	return r;
}

void turn_drop(struct turn *turn)
{
	if (turn->event)
		REAL(cuEventDestroy_v2)(turn->event);
	turn->event = NULL;
}

/* --- opening and closing --- */

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

enum stage_open stage_open(struct stage *st, const struct copy_call *call, struct copy_ring *ring,
						   size_t early)
{
	*st = (struct stage){.call = call, .ring = ring, .early = early};
	unsigned want = ring->slots / 2 < COPY_JOB_SLOTS ? ring->slots / 2 : COPY_JOB_SLOTS;
	if (want < 2) /* a slot is filled while the other one's DMA runs */
		want = 2;
	size_t every = round_up(call->bytes, COPY_SLOT_BYTES) / COPY_SLOT_BYTES;
	/* On the program's stream a copy must not wait for one of its own DMAs, which may be
	 * behind anything: there it holds a slot for every byte. */
	st->on_caller = call->dir == COPY_H2D && call->bytes <= early && every <= want;
	st->slots = ring_take(ring, st->slot, want, st->on_caller ? (unsigned)every : 2);
	if (!st->slots)
		return STAGE_BUSY;
	st->job = workers_job_get();
	if (!st->job) {
		while (st->slots)
			ring_give(st->slot[--st->slots], SLOT_FREE);
		return STAGE_BUSY;
	}
	bool to_device = call->dir == COPY_H2D;
	st->stream = st->on_caller ? call->stream : to_device ? ring->stream_in : ring->stream_out;
	st->stream_ptsz = st->on_caller && call->per_thread;
	st->job->to_device = to_device;
	st->job->host = (unsigned char *)(to_device ? call->src : call->dst);
	st->job->slots = st->slots;
	for (unsigned i = 0; i < st->slots; i++)
		st->job->cell[i].slot = st->slot[i]->mem;
	workers_job_start(st->job);
	return STAGE_OPEN;
}

/* State of slot i, whose newest DMA is that of chunk c (none: no chunk used it). */
static enum slot_state slot_after(const struct stage *st, unsigned i, bool drained)
{
	if (i >= st->issued)
		return SLOT_FREE;
	uint64_t c = i + (st->issued - 1 - i) / st->slots * st->slots;
	if (drained || c < st->done)
		return SLOT_FREE;
	if (c == st->issued - 1 && !st->recorded)
		return SLOT_LOST;
	return SLOT_IN_FLIGHT;
}

void stage_close(struct stage *st, CUresult status)
{
	workers_job_end(st->job);
	bool drained = false;
	/* On our own stream nothing but copies is ahead, so this wait is short; on the
	 * program's stream its order already puts the driver's copy behind ours. */
	if (status != CUDA_SUCCESS && !st->on_caller)
		drained = REAL(cuStreamSynchronize)(st->stream) == CUDA_SUCCESS;
	for (unsigned i = 0; i < st->slots; i++)
		ring_give(st->slot[i], slot_after(st, i, drained));
}

/* --- chunks --- */

/*
 * Small at both ends: the first round of chunks lets the first DMA start early, the
 * last ones keep the tail (which nothing overlaps) short; full slots in between.
 */
static size_t chunk_bytes(const struct stage *st)
{
	size_t left = st->call->bytes - st->planned_bytes;
	size_t movers = workers_wanted + 1;
	size_t first = COPY_FIRST_BYTES;
	if (st->on_caller) { /* at most one chunk a slot */
		size_t even = round_up((st->call->bytes + st->slots - 1) / st->slots, 64 << 10);
		first = even > first ? even : first;
	}
	uint64_t round = st->planned / movers;
	size_t bytes = round < 8 ? first << round : COPY_SLOT_BYTES;
	size_t tail = round_up(left / (2 * movers), 64 << 10);
	if (bytes > tail)
		bytes = tail > first ? tail : first;
	if (bytes > COPY_SLOT_BYTES)
		bytes = COPY_SLOT_BYTES;
	return bytes < left ? bytes : left;
}

bool stage_planned_all(const struct stage *st)
{
	return st->planned_bytes == st->call->bytes;
}

bool stage_plan(struct stage *st, size_t upto)
{
	if (stage_planned_all(st) || st->planned_bytes >= upto || st->planned >= st->reusable + st->slots)
		return false;
	size_t bytes = chunk_bytes(st);
	if (bytes > upto - st->planned_bytes)
		bytes = upto - st->planned_bytes;
	struct copy_cell *cell = &st->job->cell[st->planned % st->slots];
	cell->offset = st->planned_bytes;
	cell->bytes = bytes;
	st->planned_bytes += bytes;
	st->planned++;
	return true;
}

void stage_allow(struct stage *st, uint64_t n)
{
	workers_job_allow(st->job, n);
}

bool stage_moved(const struct stage *st, uint64_t c)
{
	/* Acquire: pairs with the mover's release, see struct copy_cell. */
	return atomic_load_explicit(&st->job->cell[c % st->slots].moved, memory_order_acquire) == c + 1;
}

bool stage_help(struct stage *st, uint64_t wanted)
{
	/* With few workers the caller is one of them; with many it only steps in when
	 * the chunk it needs next has not even been claimed (they are still waking). */
	if (workers_wanted >= 4 &&
		atomic_load_explicit(&st->job->next, memory_order_relaxed) > wanted)
		return false;
	return workers_job_help(st->job);
}

static CUresult dma(struct stage *st, struct copy_cell *cell)
{
	CUdeviceptr dst = st->call->dst + cell->offset, src = st->call->src + cell->offset;
	if (st->call->dir == COPY_D2H)
		return REAL(cuMemcpyDtoHAsync_v2)(cell->slot, src, cell->bytes, st->stream);
	if (st->stream_ptsz)
		return REAL(cuMemcpyHtoDAsync_v2_ptsz)(dst, cell->slot, cell->bytes, st->stream);
	return REAL(cuMemcpyHtoDAsync_v2)(dst, cell->slot, cell->bytes, st->stream);
}

CUresult stage_issue(struct stage *st)
{
	unsigned i = (unsigned)(st->issued % st->slots);
	CUresult r = dma(st, &st->job->cell[i]);
	if (r != CUDA_SUCCESS)
		return r;
	st->issued++;
	st->recorded = false;
	r = event_record(st->slot[i]->done, st->stream, st->stream_ptsz);
	st->recorded = r == CUDA_SUCCESS;
	return r;
}

CUresult stage_poll(struct stage *st)
{
	while (st->done < st->issued) {
		CUresult r = REAL(cuEventQuery)(st->slot[st->done % st->slots]->done);
		if (r == CUDA_ERROR_NOT_READY)
			return CUDA_SUCCESS;
		if (r != CUDA_SUCCESS)
			return r;
		st->done++;
	}
	return CUDA_SUCCESS;
}

CUresult stage_finish(struct stage *st)
{
	uint64_t since = clock_ns();
	for (;;) {
		CUresult r = stage_poll(st);
		if (r != CUDA_SUCCESS || st->done == st->issued)
			return r;
		pause_poll(since);
	}
}

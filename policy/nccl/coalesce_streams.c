/* coalesce_streams.c - see coalesce_streams.h. */
#include "coalesce_streams.h"

#include <stddef.h>
#include <string.h>

#include "real.h"
#include "timed_lock.h"

#define STREAMS 16 /* NCCL's streams of a process: one a process group */
#define LOCK_NS 1000000000ull

static struct gather_stream streams[STREAMS];
static struct timed_lock lock;
static unsigned turn; /* the lock; who goes next when all are in use */

static bool enter(void)
{
	return timed_lock_take(&lock, LOCK_NS);
}

static CUstream handle_of(const struct gather_stream *s)
{
	return atomic_load_explicit(&s->stream, memory_order_acquire);
}

static struct gather_stream *find(CUstream stream)
{
	for (unsigned i = 0; i < STREAMS && stream; i++)
		if (handle_of(&streams[i]) == stream)
			return &streams[i];
	return NULL;
}

static struct gather_stream *add(CUstream stream, CUcontext ctx, bool serves)
{
	struct gather_stream *s = NULL;

	if (!enter())
		return NULL;
	for (unsigned i = 0; i < STREAMS && !s; i++)
		if (!handle_of(&streams[i]))
			s = &streams[i];
	if (!s)
		s = &streams[turn++ % STREAMS];
	atomic_store_explicit(&s->stream, NULL, memory_order_release);
	s->ctx = ctx;
	s->serves = serves;
	s->next = 0;
	memset(s->waits, 0, sizeof(s->waits));
	atomic_store_explicit(&s->stream, stream, memory_order_release);
	timed_lock_leave(&lock);
	return s;
}

struct gather_stream *coalesce_streams_get(CUstream stream)
{
	struct gather_stream *s = find(stream);
	unsigned flags = 0;
	CUcontext ctx = NULL;

	/* The default streams. */
	if ((uintptr_t)stream <= (uintptr_t)CU_STREAM_PER_THREAD)
		return NULL;
	if (!s) {
		bool serves = REAL_HAS(cuStreamGetFlags) && REAL_HAS(cuStreamGetCtx) &&
					  REAL(cuStreamGetFlags)(stream, &flags) == CUDA_SUCCESS &&
					  flags & CU_STREAM_NON_BLOCKING && REAL(cuStreamGetCtx)(stream, &ctx) == CUDA_SUCCESS;
		s = add(stream, ctx, serves);
	}
	return s && s->serves ? s : NULL;
}

void coalesce_streams_waited(CUstream stream, CUevent event)
{
	struct gather_stream *s = find(stream);
	struct doors_last last;

	if (!s || !doors_last_record(event, &last) || !enter())
		return;
	if (handle_of(s) == stream)
		s->waits[s->next++ % STREAM_WAITS] = last;
	timed_lock_leave(&lock);
}

void coalesce_streams_gone(CUstream stream)
{
	struct gather_stream *s = find(stream);

	if (!s || !enter())
		return;
	if (handle_of(s) == stream)
		atomic_store_explicit(&s->stream, NULL, memory_order_release);
	timed_lock_leave(&lock);
}

void coalesce_streams_forget(void)
{
	if (!enter())
		return;
	for (unsigned i = 0; i < STREAMS; i++)
		atomic_store_explicit(&streams[i].stream, NULL, memory_order_release);
	timed_lock_leave(&lock);
}

static bool is_one(const struct doors_last *wait)
{
	return wait->stream || wait->ctx;
}

bool coalesce_streams_has(struct gather_stream *s, CUevent event)
{
	struct doors_last again;
	bool has = false;

	if (!doors_last_record(event, &again) || !enter())
		return false;
	for (unsigned i = 0; i < STREAM_WAITS && !has; i++)
		has = is_one(&s->waits[i]) && doors_same_work(&s->waits[i], &again);
	timed_lock_leave(&lock);
	return has;
}

bool coalesce_streams_follows(struct gather_stream *s, CUstream other)
{
	bool is_default = !other || other == CU_STREAM_LEGACY, follows = false;
	uint64_t now = doors_submissions(other);
	CUcontext ctx = NULL;

	if (other == CU_STREAM_PER_THREAD || (is_default && REAL(cuCtxGetCurrent)(&ctx) != CUDA_SUCCESS) ||
		!enter())
		return false;
	for (unsigned i = 0; i < STREAM_WAITS && !follows; i++)
		follows = is_one(&s->waits[i]) && s->waits[i].stream == other && s->waits[i].ctx == ctx &&
				  s->waits[i].before == now;
	timed_lock_leave(&lock);
	return follows;
}

/* cache.c - cuMemAlloc and cuMemFree of tier A. */
#define _GNU_SOURCE
#include "cache.h"

#include "block.h"
#include "bound.h"
#include "capture.h"
#include "clock.h"
#include "devmem.h"
#include "keeper.h"
#include "real.h"
#include "stats.h"

/* The program never sees a buffer id twice; the driver's own are small numbers. */
#define FIRST_BUFFER_ID (1ull << 48)

static _Atomic unsigned long long next_buffer_id = FIRST_BUFFER_ID;

/* ---- what is kept; the space's lock is held ---- */

void cache_put(struct space *s, struct block *b)
{
	b->state = BLOCK_CACHED;
	b->asked = 0;
	b->since = clock_ns();
	bins_put(&s->bins, b);
	b->newer = NULL;
	b->older = s->newest;
	if (s->newest)
		s->newest->newer = b;
	else
		s->oldest = b;
	s->newest = b;
	s->cached += b->size;
	bound_add(s->device, b->size);
}

void cache_remove(struct space *s, struct block *b)
{
	bins_take(&s->bins, b);
	if (b->older)
		b->older->newer = b->newer;
	else
		s->oldest = b->newer;
	if (b->newer)
		b->newer->older = b->older;
	else
		s->newest = b->older;
	b->older = b->newer = NULL;
	s->cached -= b->size;
	bound_sub(s->device, b->size);
}

struct block *cache_take(struct space *s, size_t rounded, size_t asked)
{
	struct block *b;
	while ((b = bins_find(&s->bins, rounded))) {
		cache_remove(s, b);
		if (!(__atomic_load_n(&b->flags, __ATOMIC_RELAXED) & BLOCK_STALE))
			break;
		block_drop(b);
	}
	if (!b)
		return NULL;
	b->state = BLOCK_LIVE;
	b->asked = asked;
	__atomic_store_n(&b->flags, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&b->buffer_id, atomic_fetch_add_explicit(&next_buffer_id, 1, memory_order_relaxed),
					 __ATOMIC_RELAXED);
	return b;
}

/* ---- cuMemAlloc ---- */

static void track(struct space *s, CUdeviceptr base, size_t size, size_t asked)
{
	struct block *b = block_new();
	if (!b)
		return; /* its free is a real one */
	b->base = base;
	b->size = size;
	b->asked = asked;
	b->space = s;
	if (!block_insert(b))
		block_drop(b);
}

/* The driver's memory: rounded, so that it serves more requests; if it has not so much, as asked. */
static CUresult alloc_real(struct space *s, CUdeviceptr *ptr, size_t rounded, size_t bytes)
{
	CUdeviceptr base = 0;
	CUresult r = REAL(cuMemAlloc_v2)(&base, rounded);
	size_t size = rounded;
	if (r == CUDA_ERROR_OUT_OF_MEMORY && bytes != rounded) {
		r = REAL(cuMemAlloc_v2)(&base, bytes);
		size = bytes;
	}
	if (r != CUDA_SUCCESS)
		return r;
	track(s, base, size, bytes);
	*ptr = base;
	return r;
}

static CUresult alloc_miss(struct space *s, CUdeviceptr *ptr, size_t rounded, size_t bytes)
{
	stats_add(STATS_DEVMEM_CACHE_MISSES, 1);
	CUresult r = alloc_real(s, ptr, rounded, bytes);
	if (r != CUDA_ERROR_OUT_OF_MEMORY)
		return r;
	/* A little more than is missing does no harm: the driver's memory may be in pieces. */
	if (cache_release(NULL, s->device, SIZE_MAX, RELEASE_PRESSURE))
		r = alloc_real(s, ptr, rounded, bytes);
	return r;
}

bool cache_alloc(CUdeviceptr *ptr, size_t bytes, CUresult *status)
{
	CUcontext current;
	if (!ptr || !bytes || bytes > SIZE_MAX / 4)
		return false; /* the driver's own error */
	if (capture_live()) {
		stats_add(STATS_DEVMEM_PASS_CAPTURE, 1);
		return false;
	}
	struct space *s = space_get(&current);
	if (!s) {
		stats_add(STATS_DEVMEM_PASS_CONTEXT, 1);
		return false;
	}
	size_t rounded = bins_round(bytes);
	pthread_mutex_lock(&s->lock);
	struct block *b = cache_take(s, rounded, bytes);
	pthread_mutex_unlock(&s->lock);
	if (b) {
		stats_add(STATS_DEVMEM_CACHE_HITS, 1);
		*ptr = b->base;
		*status = CUDA_SUCCESS;
	} else {
		*status = alloc_miss(s, ptr, rounded, bytes);
	}
	space_put(s);
	return true;
}

/* ---- cuMemFree ---- */

/* The program's own free, as it made it: no context is pushed, its capture mode stays. The block
 * is out of the table first: the driver may hand the address out before its call returns. */
static CUresult free_as_asked(struct space *s, struct block *b, CUdeviceptr base)
{
	pthread_mutex_lock(&s->lock);
	bool alive = atomic_load(&s->state) == SPACE_READY;
	if (alive)
		block_remove(b);
	pthread_mutex_unlock(&s->lock);
	CUresult r = REAL(cuMemFree_v2)(base);
	if (!alive) /* the context ended, and the block was dropped with it */
		return r;
	pthread_mutex_lock(&s->lock);
	bool back = r != CUDA_SUCCESS && atomic_load(&s->state) == SPACE_READY && block_insert(b);
	if (back)
		b->state = BLOCK_LIVE;
	pthread_mutex_unlock(&s->lock);
	if (!back)
		block_drop(b);
	return r;
}

/* Errors that say that the barrier may not be asked for here, not that the device has failed. */
static bool refusal(CUresult r)
{
	return r == CUDA_ERROR_NOT_PERMITTED || r == CUDA_ERROR_INVALID_CONTEXT ||
		   (r >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && r <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
}

/* Counts why a block of the program's is not kept; false: it is. */
static bool passes(const struct space *s, const struct block *b)
{
	enum stats_counter why;
	if (capture_live())
		why = STATS_DEVMEM_PASS_CAPTURE;
	else if (__atomic_load_n(&b->flags, __ATOMIC_RELAXED) & BLOCK_KEEP_OUT)
		why = STATS_DEVMEM_PASS_KEEP_OUT;
	else if (b->size > bound_room(s->device))
		why = STATS_DEVMEM_PASS_LARGE;
	else
		return false;
	stats_add(why, 1);
	return true;
}

/* Waits as the driver's cuMemFree does, and keeps the block. */
static CUresult free_cached(struct space *s, struct block *b, CUdeviceptr base)
{
	CUresult r = space_barrier(s);
	if (r != CUDA_SUCCESS) {
		CUresult freed = free_as_asked(s, b, base);
		return freed != CUDA_SUCCESS || refusal(r) ? freed : r;
	}
	pthread_mutex_lock(&s->lock);
	/* The context may have ended meanwhile, and the block with it. */
	bool alive = atomic_load(&s->state) == SPACE_READY;
	if (alive)
		cache_put(s, b);
	pthread_mutex_unlock(&s->lock);
	if (alive) {
		cache_trim(s);
		keeper_wake();
	}
	return CUDA_SUCCESS;
}

bool cache_free(CUdeviceptr ptr, CUresult *status)
{
	struct block *b = ptr ? block_find(ptr) : NULL;
	struct space *s = b ? b->space : NULL;
	if (!s || !space_hold(s))
		return false;
	pthread_mutex_lock(&s->lock);
	bool ours = b->base == ptr && b->space == s && b->state != BLOCK_GONE, live = b->state == BLOCK_LIVE;
	bool keep = ours && live && !passes(s, b);
	if (ours && live)
		b->state = keep ? BLOCK_BARRIER : BLOCK_GONE;
	pthread_mutex_unlock(&s->lock);
	if (keep)
		*status = free_cached(s, b, ptr);
	else if (ours && live)
		*status = free_as_asked(s, b, ptr);
	else if (ours) /* freed by the program before */
		*status = CUDA_ERROR_INVALID_VALUE;
	space_put(s);
	return ours;
}

void cache_synchronized(CUcontext ctx)
{
	CUcontext current = ctx;
	struct space *s;
	if (capture_live() || (!ctx && (REAL(cuCtxGetCurrent)(&current) != CUDA_SUCCESS || !current)))
		return;
	s = space_known(current);
	if (!s)
		return;
	keeper_after_wait(s);
	space_put(s);
}

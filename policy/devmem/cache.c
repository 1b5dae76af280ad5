/* cache.c - cuMemAlloc and cuMemFree of tier A. */
#define _GNU_SOURCE
#include "cache.h"

#include "block.h"
#include "bound.h"
#include "cache_fault.h"
#include "capture.h"
#include "clock.h"
#include "devmem.h"
#include "keeper.h"
#include "oom.h"
#include "room.h"
#include "calls.h"
#include "stats.h"

/* The program never sees a buffer id twice; the driver's own are small numbers. */
#define FIRST_BUFFER_ID (1ull << 48)

/* What live blocks are larger than was asked for is lost to the program, and nothing can give it back when the
 * device is full: no more than this share of the device, which programs that fill one leave free anyway. */
#define SLACK_SHARE 256

static _Atomic unsigned long long next_buffer_id = FIRST_BUFFER_ID;

static bool deferred(void)
{
	return __atomic_load_n(&devmem_mode, __ATOMIC_RELAXED) == DEVMEM_DEFERRED;
}

/* ---- what is kept; the space's lock is held ---- */

void cache_put(struct space *s, struct block *b, uint64_t now)
{
	b->state = BLOCK_CACHED;
	b->asked = 0;
	b->since = now;
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

static size_t slack_of(const struct block *b)
{
	size_t rounded = bins_round(b->asked);
	return b->size > rounded ? b->size - rounded : 0;
}

size_t cache_most(const struct space *s, size_t rounded)
{
	size_t may = space_device_bytes(s->device) / SLACK_SHARE;
	size_t left = may > s->slack ? may - s->slack : 0, most = bins_most(rounded) - rounded;
	return rounded + (most < left ? most : left);
}

struct block *cache_take(struct space *s, size_t rounded, size_t asked)
{
	struct block *b;
	while ((b = bins_find(&s->bins, rounded, cache_most(s, rounded)))) {
		cache_remove(s, b);
		if (!(__atomic_load_n(&b->flags, __ATOMIC_RELAXED) & BLOCK_STALE))
			break;
		block_drop(b);
	}
	if (!b)
		return NULL;
	b->state = BLOCK_LIVE;
	b->asked = asked;
	s->slack += slack_of(b);
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
	uint64_t since = events_begin();
	CUresult r = REAL(cuMemAlloc_v2)(&base, rounded);
	size_t size = rounded;
	if (r == CUDA_ERROR_OUT_OF_MEMORY && bytes != rounded) {
		r = REAL(cuMemAlloc_v2)(&base, bytes);
		size = bytes;
	}
	events_end(EVENT_DEVMEM_MISS, since, size, r != CUDA_SUCCESS);
	if (r != CUDA_SUCCESS)
		return r;
	track(s, base, size, bytes);
	oom_watch(s->device);
	*ptr = base;
	return r;
}

/* What is kept is given back before the program is told that there is no more: as much as it
 * asks for, then all that can be had. */
static CUresult alloc_miss(struct space *s, CUdeviceptr *ptr, size_t rounded, size_t bytes)
{
	struct devmem_room room = devmem_room_begin();
	stats_add(STATS_DEVMEM_CACHE_MISSES, 1);
	if (deferred()) /* whose frees never wait: what is over has come up since */
		cache_trim_bound(s);
	CUresult r = alloc_real(s, ptr, rounded, bytes);
	fault_seen(s, r);
	if (r != CUDA_ERROR_OUT_OF_MEMORY || bytes > space_device_bytes(s->device))
		return r;
	while (r == CUDA_ERROR_OUT_OF_MEMORY && room_more(&room, s->device, rounded))
		r = alloc_real(s, ptr, rounded, bytes);
	if (r == CUDA_ERROR_OUT_OF_MEMORY)
		oom_report(s->device, bytes);
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
	bool faulted = s->faulted; /* the driver is to say what it says now */
	struct block *b = faulted ? NULL : cache_take(s, rounded, bytes);
	pthread_mutex_unlock(&s->lock);
	if (!b && !faulted && deferred())
		b = defer_take(s, rounded, bytes);
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
	size_t size = alive ? b->size : 0;
	if (alive)
		block_remove(b);
	pthread_mutex_unlock(&s->lock);
	CUresult r = calls_free(base, size);
	if (!alive) /* the context ended, and the block was dropped with it */
		return r;
	fault_seen(s, r);
	pthread_mutex_lock(&s->lock);
	bool back = r != CUDA_SUCCESS && atomic_load(&s->state) == SPACE_READY && block_insert(b);
	if (back) {
		b->state = BLOCK_LIVE;
		s->slack += slack_of(b);
	}
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

/* What becomes of a block that the program frees. */
enum fate {
	FATE_NONE,    /* not in the table: the driver's business */
	FATE_TWICE,   /* freed before */
	FATE_REAL,    /* freed by the driver */
	FATE_BARRIER, /* kept, after a wait */
	FATE_DEFERRED /* kept, once a fence has passed */
};

/* Counts why a block is not kept; false: it is. */
static bool passes(const struct space *s, const struct block *b)
{
	enum stats_counter why;
	size_t room = bound_room(s->device);
	if (capture_live() && !deferred())
		why = STATS_DEVMEM_PASS_CAPTURE;
	else if (__atomic_load_n(&b->flags, __ATOMIC_RELAXED) & BLOCK_KEEP_OUT)
		why = STATS_DEVMEM_PASS_KEEP_OUT;
	else if (deferred() ? !room && !capture_live() : b->size > room)
		why = STATS_DEVMEM_PASS_LARGE;
	else
		return false;
	stats_add(why, 1);
	return true;
}

/* The space's lock is held. The block is in no other thread's hands from now on. */
static enum fate decide(struct space *s, struct block *b, CUdeviceptr ptr, bool permitted)
{
	if (b->base != ptr || b->space != s || b->state == BLOCK_GONE)
		return FATE_NONE;
	if (b->state != BLOCK_LIVE)
		return FATE_TWICE;
	s->slack -= slack_of(b);
	if (!permitted || passes(s, b)) {
		b->state = BLOCK_GONE;
		return FATE_REAL;
	}
	if (deferred() && !s->faulted && defer_put(s, b))
		return FATE_DEFERRED;
	b->state = BLOCK_BARRIER;
	return FATE_BARRIER;
}

/* Waits as the driver's cuMemFree does, and keeps the block. */
static CUresult free_cached(struct space *s, struct block *b, CUdeviceptr base)
{
	CUresult r = deferred() ? defer_settle(s) : space_barrier(s);
	if (r != CUDA_SUCCESS) {
		fault_seen(s, r);
		CUresult freed = free_as_asked(s, b, base);
		return freed != CUDA_SUCCESS || refusal(r) ? freed : r;
	}
	pthread_mutex_lock(&s->lock);
	/* The context may have ended meanwhile, and the block with it. */
	bool alive = atomic_load(&s->state) == SPACE_READY;
	if (alive)
		cache_put(s, b, clock_ns());
	if (!deferred()) /* else it is settled already */
		s->faulted = false;
	pthread_mutex_unlock(&s->lock);
	if (alive) {
		cache_trim(s);
		keeper_wake();
	}
	return CUDA_SUCCESS;
}

/* In a host function the driver refuses cuMemFree, which waits: so do we, through it. */
static bool permitted(void)
{
	CUcontext current;
	return !deferred() || REAL(cuCtxGetCurrent)(&current) == CUDA_SUCCESS;
}

bool cache_free(CUdeviceptr ptr, CUresult *status)
{
	struct block *b = ptr ? block_find(ptr) : NULL;
	struct space *s = b ? b->space : NULL;
	if (!s || !space_hold(s))
		return false;
	bool may = permitted();
	pthread_mutex_lock(&s->lock);
	enum fate fate = decide(s, b, ptr, may);
	bool due = fate == FATE_DEFERRED && defer_due(s);
	pthread_mutex_unlock(&s->lock);
	switch (fate) {
	case FATE_NONE: break;
	/* What the driver says, where this thread is, of memory that is not the program's. */
	case FATE_TWICE: *status = REAL(cuMemFree_v2)(DEVMEM_NOBODYS); break;
	case FATE_REAL: *status = free_as_asked(s, b, ptr); break;
	case FATE_BARRIER: *status = free_cached(s, b, ptr); break;
	case FATE_DEFERRED:
		if (due)
			defer_advance(s);
		keeper_wake();
		*status = CUDA_SUCCESS;
		break;
	}
	space_put(s);
	return fate != FATE_NONE;
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
	if (deferred())
		defer_advance(s);
	keeper_after_wait(s);
	space_put(s);
}

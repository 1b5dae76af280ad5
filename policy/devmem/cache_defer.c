/* cache_defer.c - see cache_defer.h. */
#define _GNU_SOURCE
#include "cache_defer.h"

#include "block.h"
#include "bound.h"
#include "cache.h"
#include "cache_relaxed.h"
#include "capture.h"
#include "clock.h"
#include "log.h"
#include "room.h"
#include "calls.h"
#include "stats.h"

/* An allocation waits for memory that is on its way back rather than take more, and at last goes
 * to the driver all the same: kernels may run for ever. */
#define WAIT_NS 1000000000ull
/* The same when all is to go back; bare, the frees before it would have waited. */
#define DRAIN_NS 60000000000ull

/* A fence costs a record and a look, 0.4 us on an H200, nearly what a pair may cost: a 16th of that is little. */
#define SPARES 16
#define SPARE_STREAK 16

/* A batch is closed, and blocks get spares, up to this share of what may be kept: four blocks of 1 GiB on an H200
 * (25 % of the device, an eighth of it: 4.4 GiB). */
#define BATCH_SHARE 8

/* ---- lock held ---- */

static void pending_add(struct space *s, size_t bytes)
{
	atomic_store_explicit(&s->defer.pending, s->defer.pending + bytes, memory_order_relaxed);
	stats_add(STATS_DEVMEM_DEFERRED_BYTES, bytes);
}

static void park_open(struct space *s)
{
	if (!s->defer.open)
		return;
	batch_append(&s->defer.parked, s->defer.open);
	s->defer.open = NULL;
}

/* The one that was emptied last, if there is one: no other thread's cache has it. */
static bool open_batch(struct space *s)
{
	struct batch *b = s->defer.emptied;
	s->defer.emptied = NULL;
	if (b)
		batch_clear(b);
	else
		b = batch_new();
	s->defer.open = b;
	return b;
}

bool defer_put(struct space *s, struct block *b)
{
	if (s->defer.open && s->defer.open->n == BATCH_BLOCKS)
		park_open(s);
	if (!s->defer.open && !open_batch(s))
		return false;
	struct batch *batch = s->defer.open;
	b->state = BLOCK_PENDING;
	b->asked = 0;
	batch->bin[batch->n] = bins_of_block(&s->bins, b);
	batch->block[batch->n++] = b;
	batch->bytes += b->size;
	pending_add(s, b->size);
	return true;
}

bool defer_due(const struct space *s)
{
	const struct batch *b = s->defer.open;
	return b && (b->n == BATCH_BLOCKS ||
				 (b->bytes >= BATCH_BYTES && b->bytes >= bound_room(s->device) / BATCH_SHARE));
}

/* The device is done with the batch. */
static void cache_batch(struct space *s, struct batch *batch)
{
	uint64_t now = clock_ns();
	for (unsigned i = 0; i < batch->n; i++)
		cache_put(s, batch->block[i], now);
	pending_add(s, -batch->bytes);
	if (s->defer.emptied)
		batch_drop(batch);
	else
		s->defer.emptied = batch;
}

static bool holds_fit(const struct batch *b, uint32_t low, uint32_t high)
{
	for (unsigned i = 0; b && i < b->n; i++)
		if (b->bin[i] >= low && b->bin[i] <= high)
			return true;
	return false;
}

static bool list_fits(const struct batch_list *list, uint32_t low, uint32_t high)
{
	for (const struct batch *b = list->first; b; b = b->next)
		if (holds_fit(b, low, high))
			return true;
	return false;
}

static void forget_list(struct batch_list *list, bool left)
{
	while (list->first) {
		struct batch *b = batch_remove_first(list);
		if (!left) /* else somebody may still have it in hand */
			batch_drop(b);
	}
}

void defer_forget(struct space *s, bool left)
{
	park_open(s);
	forget_list(&s->defer.parked, left);
	forget_list(&s->defer.closed, left);
	pending_add(s, -s->defer.pending);
	s->defer.recording = s->defer.looking = false;
	s->defer.stuck = s->defer.no_spares = false;
	s->events.n = 0;
}

/* ---- lock held, but given up around driver calls; relaxed mode ---- */

/* Records fences for all that have none. */
static void record(struct space *s)
{
	unsigned life = atomic_load(&s->life);
	park_open(s);
	while (s->defer.parked.first && !s->defer.recording && !s->faulted) {
		struct batch *b = s->defer.parked.first;
		s->defer.recording = true;
		pthread_mutex_unlock(&s->lock);
		/* Its blocks were freed before: the fence covers all their uses. */
		bool ok = fence_record(&b->fence, s);
		pthread_mutex_lock(&s->lock);
		if (atomic_load(&s->life) != life)
			break; /* the context ended, and this was forgotten */
		s->defer.recording = false;
		if (!ok) {
			s->faulted = !capture_live();
			break;
		}
		stats_add(STATS_DEVMEM_DEFERRED_BATCHES, 1);
		batch_append(&s->defer.closed, batch_remove_first(&s->defer.parked));
	}
}

/* Caches all whose fences have passed. */
static void look(struct space *s)
{
	unsigned life = atomic_load(&s->life);
	while (s->defer.closed.first && !s->defer.looking && !capture_live()) {
		struct batch *b = s->defer.closed.first;
		s->defer.looking = true;
		pthread_mutex_unlock(&s->lock);
		enum fence_state state = fence_look(&b->fence);
		pthread_mutex_lock(&s->lock);
		if (atomic_load(&s->life) != life)
			break;
		s->defer.looking = false;
		if (state == FENCE_FAILED)
			s->faulted = true;
		if (state != FENCE_PASSED)
			break;
		s->defer.stuck = false;
		cache_batch(s, batch_remove_first(&s->defer.closed));
	}
}

/*
 * A program that takes and frees one block again and again would pay an event for each pair. After some
 * of these it is let have one more block, up to SPARES, so that an event serves as many
 * frees; if they are little beside what may be kept, and while the driver has memory.
 */
static bool wants_spare(struct space *s, uint32_t bin, size_t bytes)
{
	struct defer *d = &s->defer;
	if (!d->open || d->open->n >= SPARES || d->parked.first || bin != d->wanted) {
		d->wanted = bin;
		d->streak = 0;
		return false;
	}
	if (++d->streak < SPARE_STREAK || d->no_spares ||
		bytes * (d->open->n + 1) > bound_room(s->device) / BATCH_SHARE)
		return false;
	d->streak = 0;
	return true;
}

/* From what is open and not fenced yet. Not while an older one is ahead: this one passes later. */
static struct block *take_open(struct space *s, size_t rounded, size_t asked, uint32_t low, uint32_t high)
{
	if (s->defer.closed.first || s->faulted || capture_live() ||
		!(holds_fit(s->defer.open, low, high) || list_fits(&s->defer.parked, low, high)) ||
		wants_spare(s, low, rounded))
		return NULL;
	record(s);
	look(s);
	return cache_take(s, rounded, asked);
}

/* So much is kept or on its way back that an allocation should wait for its own. */
static bool worth_waiting(struct space *s, uint32_t low, uint32_t high)
{
	if (s->defer.pending + bound_kept(s->device) <= bound_room(s->device) || s->faulted || s->defer.stuck)
		return false;
	return holds_fit(s->defer.open, low, high) || list_fits(&s->defer.parked, low, high) ||
		   list_fits(&s->defer.closed, low, high);
}

static struct block *wait_for_fit(struct space *s, size_t rounded, size_t asked)
{
	uint64_t since = clock_ns();
	struct block *b = NULL;
	stats_add(STATS_DEVMEM_DEFERRED_WAITS, 1);
	record(s);
	while (!b && !capture_live() && !s->faulted && clock_ns() - since < WAIT_NS) {
		pthread_mutex_unlock(&s->lock);
		pause_poll(since);
		pthread_mutex_lock(&s->lock);
		look(s);
		b = cache_take(s, rounded, asked);
	}
	if (!b)
		s->defer.stuck = true;
	return b;
}

/* ---- no lock held ---- */

void defer_advance(struct space *s)
{
	CUstreamCaptureMode mode;
	if (capture_live() || !relaxed_begin(&mode))
		return;
	pthread_mutex_lock(&s->lock);
	record(s);
	look(s);
	pthread_mutex_unlock(&s->lock);
	relaxed_end(mode);
}

struct block *defer_take(struct space *s, size_t rounded, size_t asked)
{
	CUstreamCaptureMode mode;
	uint32_t low = bins_of_request(rounded), high;
	if (!atomic_load_explicit(&s->defer.pending, memory_order_relaxed) || !relaxed_begin(&mode))
		return NULL;
	pthread_mutex_lock(&s->lock);
	high = bins_of_request(cache_most(s, rounded));
	look(s);
	struct block *b = cache_take(s, rounded, asked);
	if (!b)
		b = take_open(s, rounded, asked, low, high);
	if (!b && worth_waiting(s, low, high))
		b = wait_for_fit(s, rounded, asked);
	pthread_mutex_unlock(&s->lock);
	relaxed_end(mode);
	return b;
}

void defer_squeeze(struct space *s)
{
	pthread_mutex_lock(&s->lock);
	s->defer.no_spares = true;
	pthread_mutex_unlock(&s->lock);
	if (s->faulted)
		defer_settle(s);
	else
		defer_advance(s);
}

void defer_drain(struct space *s)
{
	CUstreamCaptureMode mode;
	uint64_t since = clock_ns();
	if (!s->defer.pending || capture_live() || !relaxed_begin(&mode))
		return;
	stats_add(STATS_DEVMEM_DEFERRED_WAITS, 1);
	pthread_mutex_lock(&s->lock);
	record(s);
	look(s);
	while (s->defer.pending && !s->faulted && !capture_live() && clock_ns() - since < DRAIN_NS) {
		pthread_mutex_unlock(&s->lock);
		pause_poll(since);
		pthread_mutex_lock(&s->lock);
		record(s); /* another thread may free meanwhile */
		look(s);
	}
	pthread_mutex_unlock(&s->lock);
	relaxed_end(mode);
	if (s->faulted)
		defer_settle(s);
}

/* ---- after a fault ---- */

/* All that is pending, oldest first; nothing when another thread has one of them in hand. */
static struct batch_list detach(struct space *s)
{
	struct batch_list all = {NULL, NULL};
	pthread_mutex_lock(&s->lock);
	park_open(s);
	if (!s->defer.recording && !s->defer.looking) {
		all = s->defer.closed;
		while (s->defer.parked.first)
			batch_append(&all, batch_remove_first(&s->defer.parked));
		s->defer.closed = (struct batch_list){NULL, NULL};
	}
	pthread_mutex_unlock(&s->lock);
	return all;
}

/* The last block of a batch. False: the driver has refused and it is pending still, or the context has ended, and it
 * was dropped. */
static bool free_last(struct space *s, struct batch *batch, unsigned life)
{
	struct block *b = batch->block[batch->n - 1];
	size_t size = b->size;
	pthread_mutex_lock(&s->lock);
	bool alive = atomic_load(&s->life) == life;
	if (alive) /* before the free: the driver may hand the address out before its call returns */
		block_remove(b);
	pthread_mutex_unlock(&s->lock);
	if (!alive)
		return false;
	bool stale = __atomic_load_n(&b->flags, __ATOMIC_RELAXED) & BLOCK_STALE;
	bool freed = stale || calls_free(b->base, size) == CUDA_SUCCESS;
	pthread_mutex_lock(&s->lock);
	alive = atomic_load(&s->life) == life;
	bool back = !freed && alive && block_insert(b);
	if (alive && !back)
		pending_add(s, -size);
	pthread_mutex_unlock(&s->lock);
	if (back)
		return false;
	block_drop(b);
	batch->n--;
	batch->bytes -= size;
	if (freed)
		room_came();
	return true;
}

/* The driver waits for what we cannot wait for, until it refuses; what it has taken leaves the list. */
static void free_list(struct space *s, struct batch_list *all, unsigned life)
{
	struct space_call call;
	bool taken = true;
	if (capture_live() || !space_enter(s, &call))
		return;
	while (taken && all->first) {
		struct batch *b = all->first;
		while (b->n && taken)
			taken = free_last(s, b, life);
		if (!b->n)
			batch_drop(batch_remove_first(all));
	}
	space_leave(&call);
}

CUresult defer_settle(struct space *s)
{
	unsigned life = atomic_load(&s->life);
	struct batch_list all = detach(s);
	for (struct batch *b = all.first; b; b = b->next)
		fence_drop(&b->fence);
	CUresult r = space_barrier(s);
	if (r != CUDA_SUCCESS)
		free_list(s, &all, life);
	pthread_mutex_lock(&s->lock);
	bool alive = atomic_load(&s->life) == life;
	if (alive && r == CUDA_SUCCESS)
		s->faulted = false;
	while (all.first) {
		struct batch *b = batch_remove_first(&all);
		if (!alive)
			batch_drop(b);
		else if (r == CUDA_SUCCESS)
			cache_batch(s, b);
		else
			batch_append(&s->defer.parked, b);
	}
	pthread_mutex_unlock(&s->lock);
	return r;
}

/* cache_defer.c - see cache_defer.h. */
#define _GNU_SOURCE
#include "cache_defer.h"

#include <sys/mman.h>

#include "block.h"
#include "bound.h"
#include "cache.h"
#include "cache_relaxed.h"
#include "capture.h"
#include "clock.h"
#include "log.h"
#include "calls.h"
#include "stats.h"

/* An allocation waits for memory that is on its way back rather than take more, and at last goes
 * to the driver all the same: kernels may run for ever. */
#define WAIT_NS 1000000000ull
/* The same for one that fails otherwise; bare, the frees before it would have waited. */
#define DRAIN_NS 60000000000ull

#define SLAB_BATCHES 32

/* ---- batches ---- */

static struct {
	pthread_mutex_t lock;
	struct batch *free;
} store = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void slab_add(void)
{
	size_t bytes = SLAB_BATCHES * sizeof(struct batch);
	struct batch *slab = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (slab == MAP_FAILED)
		return;
	for (unsigned i = 0; i < SLAB_BATCHES; i++) {
		slab[i].next = store.free;
		store.free = &slab[i];
	}
}

static struct batch *batch_new(void)
{
	pthread_mutex_lock(&store.lock);
	if (!store.free)
		slab_add();
	struct batch *b = store.free;
	if (b)
		store.free = b->next;
	pthread_mutex_unlock(&store.lock);
	if (b) {
		b->next = NULL;
		b->n = 0;
		b->bytes = 0;
		b->fence.n = 0;
	}
	return b;
}

static void batch_drop(struct batch *b)
{
	pthread_mutex_lock(&store.lock);
	b->next = store.free;
	store.free = b;
	pthread_mutex_unlock(&store.lock);
}

void defer_fork_child(void)
{
	pthread_mutex_init(&store.lock, NULL);
}

static void append(struct batch_list *list, struct batch *b)
{
	b->next = NULL;
	if (list->last)
		list->last->next = b;
	else
		list->first = b;
	list->last = b;
}

static struct batch *remove_first(struct batch_list *list)
{
	struct batch *b = list->first;
	list->first = b->next;
	if (!list->first)
		list->last = NULL;
	return b;
}

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
	append(&s->defer.parked, s->defer.open);
	s->defer.open = NULL;
}

bool defer_put(struct space *s, struct block *b)
{
	if (s->defer.open && s->defer.open->n == BATCH_BLOCKS)
		park_open(s);
	if (!s->defer.open && !(s->defer.open = batch_new()))
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
	return b && (b->n == BATCH_BLOCKS || b->bytes >= BATCH_BYTES);
}

/* The device is done with the batch. */
static void cache_batch(struct space *s, struct batch *batch)
{
	uint64_t now = clock_ns();
	for (unsigned i = 0; i < batch->n; i++)
		cache_put(s, batch->block[i], now);
	pending_add(s, -batch->bytes);
	batch_drop(batch);
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
		struct batch *b = remove_first(list);
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
	s->defer.faulted = s->defer.stuck = false;
	s->events.n = 0;
}

/* ---- no lock held, relaxed mode ---- */

/* Records fences for all that have none. */
static void record(struct space *s)
{
	unsigned life = atomic_load(&s->life);
	pthread_mutex_lock(&s->lock);
	park_open(s);
	while (s->defer.parked.first && !s->defer.recording && !s->defer.faulted) {
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
			s->defer.faulted = !capture_live();
			break;
		}
		stats_add(STATS_DEVMEM_DEFERRED_BATCHES, 1);
		append(&s->defer.closed, remove_first(&s->defer.parked));
	}
	pthread_mutex_unlock(&s->lock);
}

/* Caches all whose fences have passed. */
static void look(struct space *s)
{
	unsigned life = atomic_load(&s->life);
	pthread_mutex_lock(&s->lock);
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
			s->defer.faulted = true;
		if (state != FENCE_PASSED)
			break;
		s->defer.stuck = false;
		cache_batch(s, remove_first(&s->defer.closed));
	}
	pthread_mutex_unlock(&s->lock);
}

void defer_advance(struct space *s)
{
	CUstreamCaptureMode mode;
	if (capture_live() || !relaxed_begin(&mode))
		return;
	record(s);
	look(s);
	relaxed_end(mode);
}

static struct block *take(struct space *s, size_t rounded, size_t asked)
{
	pthread_mutex_lock(&s->lock);
	struct block *b = cache_take(s, rounded, asked);
	pthread_mutex_unlock(&s->lock);
	return b;
}

/* Is it worth closing the open batch? Not while an older one is ahead: this one passes later. */
static bool worth_closing(struct space *s, uint32_t low, uint32_t high)
{
	pthread_mutex_lock(&s->lock);
	bool yes = !s->defer.closed.first && !s->defer.faulted &&
			   (holds_fit(s->defer.open, low, high) || list_fits(&s->defer.parked, low, high));
	pthread_mutex_unlock(&s->lock);
	return yes;
}

/* So much is kept or on its way back that an allocation should wait for its own. */
static bool worth_waiting(struct space *s, uint32_t low, uint32_t high)
{
	if (s->defer.pending + bound_kept(s->device) <= bound_room(s->device))
		return false;
	pthread_mutex_lock(&s->lock);
	bool yes = !s->defer.faulted && !s->defer.stuck &&
			   (holds_fit(s->defer.open, low, high) || list_fits(&s->defer.parked, low, high) ||
				list_fits(&s->defer.closed, low, high));
	pthread_mutex_unlock(&s->lock);
	return yes;
}

static struct block *wait_for_fit(struct space *s, size_t rounded, size_t asked)
{
	uint64_t since = clock_ns();
	struct block *b = NULL;
	stats_add(STATS_DEVMEM_DEFERRED_WAITS, 1);
	record(s);
	while (!b && !capture_live() && !s->defer.faulted && clock_ns() - since < WAIT_NS) {
		look(s);
		b = take(s, rounded, asked);
		if (!b)
			pause_poll(since);
	}
	if (!b)
		s->defer.stuck = true;
	return b;
}

struct block *defer_take(struct space *s, size_t rounded, size_t asked)
{
	CUstreamCaptureMode mode;
	uint32_t low = bins_of_request(rounded), high = bins_of_request(bins_most(rounded));
	if (!atomic_load_explicit(&s->defer.pending, memory_order_relaxed) || !relaxed_begin(&mode))
		return NULL;
	look(s);
	struct block *b = take(s, rounded, asked);
	if (!b && worth_closing(s, low, high)) {
		record(s);
		look(s);
		b = take(s, rounded, asked);
	}
	if (!b && worth_waiting(s, low, high))
		b = wait_for_fit(s, rounded, asked);
	relaxed_end(mode);
	return b;
}

void defer_drain(struct space *s)
{
	CUstreamCaptureMode mode;
	uint64_t since = clock_ns();
	if (!s->defer.pending || capture_live() || !relaxed_begin(&mode))
		return;
	stats_add(STATS_DEVMEM_DEFERRED_WAITS, 1);
	record(s);
	look(s);
	while (s->defer.pending && !s->defer.faulted && !capture_live() && clock_ns() - since < DRAIN_NS) {
		pause_poll(since);
		record(s); /* another thread may free meanwhile */
		look(s);
	}
	relaxed_end(mode);
	if (s->defer.faulted)
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
			append(&all, remove_first(&s->defer.parked));
		s->defer.closed = (struct batch_list){NULL, NULL};
	}
	pthread_mutex_unlock(&s->lock);
	return all;
}

CUresult defer_settle(struct space *s)
{
	unsigned life = atomic_load(&s->life);
	struct batch_list all = detach(s);
	for (struct batch *b = all.first; b; b = b->next)
		fence_drop(&b->fence);
	CUresult r = space_barrier(s);
	pthread_mutex_lock(&s->lock);
	bool alive = atomic_load(&s->life) == life;
	if (alive && r == CUDA_SUCCESS)
		s->defer.faulted = false;
	while (all.first) {
		struct batch *b = remove_first(&all);
		if (!alive)
			batch_drop(b);
		else if (r == CUDA_SUCCESS)
			cache_batch(s, b);
		else
			append(&s->defer.parked, b);
	}
	pthread_mutex_unlock(&s->lock);
	return r;
}

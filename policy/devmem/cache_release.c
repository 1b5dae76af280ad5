/* cache_release.c - what is kept goes back to the driver. */
#define _GNU_SOURCE
#include "cache.h"

#include "block.h"
#include "bound.h"
#include "clock.h"
#include "devmem.h"
#include "room.h"
#include "calls.h"
#include "stats.h"

/* The oldest blocks, `bytes` of them, and none younger than `before`; no longer kept. */
static struct block *victims(struct space *s, size_t bytes, uint64_t before)
{
	struct block *list = NULL, *b;
	pthread_mutex_lock(&s->lock);
	for (size_t got = 0; got < bytes && (b = s->oldest) && b->since < before; got += b->size) {
		room_leaving(b->size);
		cache_remove(s, b);
		b->state = BLOCK_GONE;
		b->next = list;
		list = b;
	}
	pthread_mutex_unlock(&s->lock);
	return list;
}

/* Out of the table first: the driver may hand the address out before its call returns. One that
 * the driver does not take is kept still, and tried again when it is old once more. */
static size_t give_back(struct space *s, struct block *b, enum release_reason reason)
{
	static const enum stats_counter counters[] = {
		[RELEASE_BOUND] = STATS_DEVMEM_RELEASED_BOUND,
		[RELEASE_IDLE] = STATS_DEVMEM_RELEASED_IDLE,
		[RELEASE_PRESSURE] = STATS_DEVMEM_RELEASED_PRESSURE,
	};
	size_t size = b->size;
	bool stale = __atomic_load_n(&b->flags, __ATOMIC_RELAXED) & BLOCK_STALE;
	block_remove(b);
	if (stale || calls_free(b->base, size) == CUDA_SUCCESS) {
		room_left(size);
		block_drop(b);
		stats_add(counters[reason], size);
		return size;
	}
	pthread_mutex_lock(&s->lock);
	bool back = atomic_load(&s->state) == SPACE_READY && block_insert(b);
	if (back)
		cache_put(s, b, clock_ns());
	pthread_mutex_unlock(&s->lock);
	room_refused(size);
	if (!back)
		block_drop(b);
	return 0;
}

static void keep_after_all(struct space *s, struct block *list)
{
	pthread_mutex_lock(&s->lock);
	for (struct block *next; list; list = next) {
		next = list->next;
		cache_put(s, list, clock_ns());
		room_refused(list->size);
	}
	pthread_mutex_unlock(&s->lock);
}

static size_t release(struct space *s, size_t bytes, uint64_t before, enum release_reason reason)
{
	struct space_call call;
	size_t freed = 0;
	struct block *list = victims(s, bytes, before), *next;
	if (!list)
		return 0;
	if (!space_enter(s, &call)) {
		keep_after_all(s, list);
		return 0;
	}
	for (; list; list = next) {
		next = list->next;
		freed += give_back(s, list, reason);
	}
	space_leave(&call);
	return freed;
}

size_t cache_release(struct space *s, int device, size_t bytes, enum release_reason reason)
{
	size_t freed = 0;
	if (s)
		return release(s, bytes, UINT64_MAX, reason);
	for (unsigned i = 0; i < SPACES && freed < bytes; i++) {
		if (!space_hold(&spaces[i]))
			continue;
		if (spaces[i].device == device)
			freed += release(&spaces[i], bytes - freed, UINT64_MAX, reason);
		space_put(&spaces[i]);
	}
	return freed;
}

size_t cache_release_old(struct space *s, uint64_t before)
{
	return release(s, 1, before, RELEASE_IDLE);
}

void cache_release_all(void)
{
	for (unsigned i = 0; i < SPACES; i++) {
		if (!space_hold(&spaces[i]))
			continue;
		defer_drain(&spaces[i]);
		release(&spaces[i], SIZE_MAX, UINT64_MAX, RELEASE_PRESSURE);
		space_put(&spaces[i]);
	}
}

void cache_trim_bound(struct space *s)
{
	size_t kept = bound_kept(s->device), room = bound_room(s->device);
	/* Under `deferred` this waits for the device: not at every call from here on. */
	size_t goal = devmem_mode_now() == DEVMEM_DEFERRED ? room - room / 4 : room;
	if (kept > room && cache_release(s, 0, kept - goal, RELEASE_BOUND) < kept - goal)
		cache_release(NULL, s->device, kept - goal, RELEASE_BOUND);
}

void cache_trim(struct space *s)
{
	uint64_t now = clock_ns();
	cache_trim_bound(s);
	while (now > CACHE_IDLE_NS && cache_release_old(s, now - CACHE_IDLE_NS))
		;
}

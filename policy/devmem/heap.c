/*
 * heap.c - the heap's life, and the two paths that matter: an allocation and a free that touch
 * nothing but their stream's bins.
 */
#include <stdlib.h>
#include <string.h>

#include "heap_impl.h"

#define MIB ((size_t)1 << 20)

static void defaults(struct heap *heap, const struct heap_tune *tune)
{
	struct heap_tune *t = &heap->tune;
	if (tune)
		*t = *tune;
	if (!t->chunk)
		t->chunk = 16 * MIB;
	if (t->chunk < heap->to.grain)
		t->chunk = heap->to.grain;
	if (!t->chunks)
		t->chunks = 768;
	if (!t->small)
		t->small = MIB;
	if (!t->bins)
		t->bins = 4096;
	if (!t->views)
		t->views = 1024;
	if (!t->block_ns)
		t->block_ns = 2000000000;
}

static bool open_all(struct heap *heap, size_t device_bytes)
{
	size_t grain = heap->to.grain, all = round_up(device_bytes, grain);
	/* Homes may have holes after a trim; views are worth their addresses. Small blocks that fill the device
	 * are served from half of it at most. */
	if (space_open(heap, SPACE_LARGE, 2 * all) || space_open(heap, SPACE_SMALL, all))
		return false;
	/* Without views the heap works, only worse. */
	(void)space_open(heap, SPACE_VIEWS, 4 * all);
	return true;
}

static void free_host(struct heap *heap)
{
	for (unsigned i = 0; i < SPACES; i++)
		space_close(heap, i);
	host_free_all(heap);
	pthread_mutex_destroy(&heap->lock);
	pthread_mutex_destroy(&heap->grow);
	free(heap);
}

struct heap *heap_create_tuned(const struct heap_backend *backend, size_t device_bytes,
							   const struct heap_tune *tune)
{
	size_t grain = backend->grain;
	if (grain < MIB || grain & (grain - 1) || !device_bytes || device_bytes >> 44)
		return NULL;
	struct heap *heap = aligned_alloc(64, round_up(sizeof(*heap), 64));
	if (!heap)
		return NULL;
	memset(heap, 0, sizeof(*heap));
	heap->to = *backend;
	heap->epoch = 1;
	atomic_init(&heap->reuse, HEAP_REUSE_DONE | HEAP_REUSE_WAIT);
	pthread_mutex_init(&heap->lock, NULL);
	pthread_mutex_init(&heap->grow, NULL);
	defaults(heap, tune);
	if (heap->tune.chunk % grain || heap->tune.small < MIB || heap->tune.small > grain ||
		!open_all(heap, device_bytes)) {
		free_host(heap);
		return NULL;
	}
	return heap;
}

struct heap *heap_create(const struct heap_backend *backend, size_t device_bytes)
{
	return heap_create_tuned(backend, device_bytes, NULL);
}

static void free_chunks(struct heap *heap, struct space *s)
{
	for (size_t i = 0; i < s->bytes / heap->to.grain; i++) {
		struct chunk *c = s->chunk[i];
		if (!c)
			continue;
		i += c->bytes / heap->to.grain - 1;
		if (!atomic_load_explicit(&heap->dead, memory_order_relaxed)) {
			(void)MAP_CALL(heap, unmap, c->home, c->bytes);
			(void)MAP_CALL(heap, chunk_release, c->handle);
		}
		free(c);
	}
}

void heap_destroy(struct heap *heap)
{
	view_destroy_all(heap);
	while (heap->streams) {
		struct heap_stream *s = heap->streams;
		heap->streams = s->next;
		for (unsigned i = 0; i < s->mark_count; i++)
			if (!atomic_load_explicit(&heap->dead, memory_order_relaxed))
				CALL(heap, mark_drop, s->marks[i].mark);
		pthread_mutex_destroy(&s->lock);
		free(s);
	}
	for (unsigned i = 0; i < SPACE_HOMES; i++)
		free_chunks(heap, &heap->space[i]);
	free_host(heap);
}

void heap_abandon(struct heap *heap)
{
	pthread_mutex_lock(&heap->grow);
	atomic_store_explicit(&heap->dead, true, memory_order_relaxed);
	pthread_mutex_unlock(&heap->grow);
}

void heap_reuse_set(struct heap *heap, unsigned reuse)
{
	atomic_store_explicit(&heap->reuse, reuse, memory_order_relaxed);
}

/* ---- streams ---- */

struct heap_stream *heap_stream_open(struct heap *heap, void *stream)
{
	struct heap_stream *s = aligned_alloc(64, round_up(sizeof(*s), 64));
	if (!s)
		return NULL;
	memset(s, 0, sizeof(*s));
	s->heap = heap;
	s->stream = stream;
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_lock(&heap->lock);
	s->next = heap->streams;
	if (s->next)
		s->next->prev = s;
	heap->streams = s;
	heap->stream_count++;
	use_tune(heap);
	pthread_mutex_unlock(&heap->lock);
	return s;
}

void heap_stream_close(struct heap_stream *s)
{
	struct heap *heap = s->heap;
	pthread_mutex_lock(&heap->grow);
	pthread_mutex_lock(&heap->lock);
	for (unsigned i = 0; i < SPACE_HOMES; i++)
		bin_drain(s, i);
	pthread_mutex_unlock(&heap->lock);
	bool dead = atomic_load_explicit(&heap->dead, memory_order_relaxed);
	if (!dead)
		mark_last(heap, s);
	pthread_mutex_lock(&heap->lock);
	s->closed = true;
	heap->stream_count--;
	heap->hits += s->hits;
	s->hits = 0;
	/* Credit is what heap.live counts too much. */
	atomic_fetch_sub_explicit(&heap->live, s->credit, memory_order_relaxed);
	s->credit = 0;
	use_tune(heap);
	pthread_mutex_unlock(&heap->lock);
	if (!dead)
		mark_refresh_closed(heap);
	pthread_mutex_unlock(&heap->grow);
}

/* ---- allocation and free ---- */

static inline void named(struct block *b, size_t asked)
{
	atomic_store_explicit(&b->asked, asked, memory_order_relaxed);
	atomic_store_explicit(&b->id, 0, memory_order_relaxed);
}

int heap_alloc(struct heap_stream *s, size_t bytes, uint64_t *va)
{
	struct heap *heap = s->heap;
	if (!bytes || bytes > heap->space[SPACE_LARGE].bytes ||
		atomic_load_explicit(&heap->dead, memory_order_relaxed))
		return bytes && bytes > heap->space[SPACE_LARGE].bytes ? HEAP_NO_MEMORY : HEAP_INVALID;
	size_t asked = bytes;
	bytes = (bytes + HEAP_UNIT - 1) & ~(HEAP_UNIT - 1);
	pthread_mutex_lock(&s->lock);
	struct block *b = bin_pop(s, bytes);
	if (b) {
		s->hits++;
		use_more(heap, s, bytes);
		*va = b->va;
		named(b, asked);
		/* Release: heap_look() on another thread finds the new name or no block. */
		atomic_store_explicit(&b->key, b->va | KEY_LIVE, memory_order_release);
		pthread_mutex_unlock(&s->lock);
		return HEAP_OK;
	}
	pthread_mutex_unlock(&s->lock);
	int r = miss_alloc(s, bytes, &b);
	if (r)
		return r;
	*va = b->va;
	named(b, asked);
	pthread_mutex_lock(&s->lock);
	use_more(heap, s, bytes);
	pthread_mutex_unlock(&s->lock);
	return HEAP_OK;
}

int heap_free(struct heap *heap, struct heap_stream *s, uint64_t va)
{
	struct space *space = space_of(heap, va);
	block_slot *slot = space ? space_slot(heap, space, va) : NULL;
	if (!slot || atomic_load_explicit(&heap->dead, memory_order_relaxed))
		return HEAP_UNKNOWN;
	/* Acquire: what the block says about itself was written before its entry. */
	struct block *b = atomic_load_explicit(slot, memory_order_acquire);
	uint64_t key = va | KEY_LIVE;
	/* Of several frees of one block one swaps the key. The low bits of `va` must be none. */
	if (!b || va % HEAP_UNIT ||
		!atomic_compare_exchange_strong_explicit(&b->key, &key, va | KEY_BIN, memory_order_acq_rel,
												 memory_order_relaxed))
		return HEAP_UNKNOWN;
	/* Not when it leaves the bin: what a wait of the program covers is decided now. A mark or token that
	 * took this epoch is recorded after it rose, hence after the program's use of the block. */
	b->epoch = atomic_load(&heap->epoch);
	pthread_mutex_lock(&s->lock);
	use_less(heap, s, b->bytes);
	struct block *chain = bin_push(s, b);
	pthread_mutex_unlock(&s->lock);
	if (chain) {
		pthread_mutex_lock(&heap->lock);
		bin_dissolve(heap, s, chain);
		pthread_mutex_unlock(&heap->lock);
	}
	return HEAP_OK;
}

uint64_t heap_sync_begin(struct heap *heap)
{
	pthread_mutex_lock(&heap->lock);
	uint64_t token = heap->epoch++;
	pthread_mutex_unlock(&heap->lock);
	return token;
}

void heap_synchronized(struct heap *heap, struct heap_stream *s, uint64_t token)
{
	pthread_mutex_lock(&heap->lock);
	uint64_t *done = s ? &s->done : &heap->sync_done;
	if (token > *done)
		*done = token;
	pthread_mutex_unlock(&heap->lock);
}

/* heap_space.c - three spans of addresses, and the way from an address to its block. */
#include <stdlib.h>

#include "heap_impl.h"

int space_open(struct heap *heap, unsigned number, size_t bytes)
{
	struct space *s = &heap->space[number];
	size_t grain = heap->to.grain, pages = bytes / grain;
	/* A used block of the large space is at least `small` (>= 1 MiB) long, views do not share a
	 * page, and small blocks start anywhere. */
	s->shift = number == SPACE_SMALL   ? INDEX_LOW
			   : number == SPACE_LARGE ? 20
									   : (unsigned)__builtin_ctzll(grain);
	s->leaf = calloc(number == SPACE_SMALL ? pages : 1, sizeof(*s->leaf));
	s->flat = calloc(number == SPACE_SMALL ? 1 : bytes >> s->shift, sizeof(*s->flat));
	s->chunk = calloc(number < SPACE_HOMES ? pages : 1, sizeof(*s->chunk));
	if (!s->leaf || !s->flat || !s->chunk || !record_reserve(heap, 1))
		return HEAP_NO_MEMORY;
	int r = CALL(heap, reserve, bytes, &s->base);
	if (r)
		return r;
	s->bytes = bytes;
	struct block *b = record_get(heap);
	b->va = s->base;
	b->bytes = bytes;
	b->space = (uint8_t)number;
	s->first = b;
	range_put(heap, b, BLOCK_NONE, NULL, 0);
	return HEAP_OK;
}

void space_close(struct heap *heap, unsigned number)
{
	struct space *s = &heap->space[number];
	if (s->bytes && !atomic_load_explicit(&heap->dead, memory_order_relaxed))
		CALL(heap, unreserve, s->base, s->bytes);
	free(s->leaf);
	free(s->flat);
	free(s->chunk);
}

bool space_leaves(struct heap *heap, unsigned number, uint64_t va, size_t bytes)
{
	struct space *s = &heap->space[number];
	if (number != SPACE_SMALL)
		return true;
	size_t grain = heap->to.grain;
	for (size_t i = (va - s->base) / grain; i < (va - s->base + bytes) / grain; i++) {
		if (atomic_load_explicit(&s->leaf[i], memory_order_relaxed))
			continue;
		block_slot *leaf = host_get(heap, grain / HEAP_UNIT * sizeof(*leaf));
		if (!leaf)
			return false;
		/* Whoever looks a block up without the lock must see cleared entries. */
		atomic_store_explicit(&s->leaf[i], leaf, memory_order_release);
	}
	return true;
}

struct space *space_of(const struct heap *heap, uint64_t va)
{
	for (unsigned i = 0; i < SPACES; i++)
		if (va - heap->space[i].base < heap->space[i].bytes)
			return (struct space *)&heap->space[i];
	return NULL;
}

block_slot *space_slot(const struct heap *heap, const struct space *s, uint64_t va)
{
	uint64_t offset = va - s->base;
	if (s->shift != INDEX_LOW)
		return &s->flat[offset >> s->shift];
	unsigned grain_shift = (unsigned)__builtin_ctzll(heap->to.grain);
	block_slot *leaf = atomic_load_explicit(&s->leaf[offset >> grain_shift], memory_order_acquire);
	return leaf ? &leaf[(offset & (heap->to.grain - 1)) >> INDEX_LOW] : NULL;
}

struct block *space_block(const struct heap *heap, unsigned number, uint64_t va)
{
	struct block *b = space_chunk(heap, number, va)->cover;
	while (b->va + b->bytes <= va)
		b = b->next;
	return b;
}

bool heap_owns(const struct heap *heap, uint64_t va)
{
	return space_of(heap, va);
}

/* The nearest used block that starts at or below `va`. [lock] */
static struct block *below(struct heap *heap, struct space *s, uint64_t va)
{
	for (uint64_t at = va >> s->shift << s->shift;; at -= (uint64_t)1 << s->shift) {
		block_slot *slot = space_slot(heap, s, at);
		struct block *b = slot ? atomic_load_explicit(slot, memory_order_relaxed) : NULL;
		/* One that starts in the same entry but above `va` leaves the block below to be found. */
		if (b && b->va <= va)
			return b;
		if (at < s->base + ((uint64_t)1 << s->shift))
			return NULL;
	}
}

/* The live block around `va`. [lock] */
static struct block *live_at(struct heap *heap, uint64_t va)
{
	struct space *s = space_of(heap, va);
	struct block *b =
		s && !atomic_load_explicit(&heap->dead, memory_order_relaxed) ? below(heap, s, va) : NULL;
	/* Acquire: what heap_alloc() said about the block, it said before. */
	return b && va - b->va < b->bytes &&
				   atomic_load_explicit(&b->key, memory_order_acquire) == (b->va | KEY_LIVE)
			   ? b
			   : NULL;
}

bool heap_find(struct heap *heap, uint64_t va, uint64_t *base, size_t *bytes)
{
	pthread_mutex_lock(&heap->lock);
	struct block *b = live_at(heap, va);
	if (b) {
		*base = b->va;
		*bytes = b->bytes;
	}
	pthread_mutex_unlock(&heap->lock);
	return b;
}

bool heap_look(struct heap *heap, uint64_t va, struct heap_view_of *out)
{
	/* Not the driver's own numbers, which are small, nor those of whole allocations (cache.c). */
	static _Atomic uint64_t next_id = (uint64_t)1 << 50;
	pthread_mutex_lock(&heap->lock);
	struct block *b = live_at(heap, va);
	if (b) {
		/* Given when somebody asks: hardly any block is asked for it. */
		if (!atomic_load_explicit(&b->id, memory_order_relaxed))
			atomic_store_explicit(&b->id, atomic_fetch_add_explicit(&next_id, 1, memory_order_relaxed),
								  memory_order_relaxed);
		out->base = b->va;
		out->asked = atomic_load_explicit(&b->asked, memory_order_relaxed);
		out->id = atomic_load_explicit(&b->id, memory_order_relaxed);
	}
	pthread_mutex_unlock(&heap->lock);
	return b && va - out->base < out->asked;
}

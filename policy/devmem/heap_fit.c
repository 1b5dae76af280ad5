/*
 * heap_fit.c - which free block serves a request, and where in it.
 */
#include "heap_impl.h"

struct block *fit_take(struct heap *heap, struct block *b, size_t bytes)
{
	b->kind = BLOCK_USED;
	b->chain = NULL;
	heap->out += bytes;
	atomic_store_explicit(&b->key, b->va | KEY_LIVE, memory_order_relaxed);
	/* heap_free() reads the size by this entry without the lock. */
	atomic_store_explicit(space_slot(heap, space_of(heap, b->va), b->va), b, memory_order_release);
	return b;
}

bool fit_stolen(const struct heap_stream *s, const struct block *b)
{
	return b->owner ? b->owner != s : b->epoch != 0;
}

/* A chunk begins at `va`, or there is none. */
static bool at_border(const struct heap *heap, uint64_t va)
{
	const struct chunk *c = space_chunk(heap, SPACE_LARGE, va);
	return !c || c->home == va;
}

/* Where in a free block that is too large the request is put: at its begin, but if a little further on chunks begin
 * and end with the request. All of it can then be mapped elsewhere when it is freed, whatever becomes of its
 * neighbours, and the next one of its size, put behind it, is as well off. [lock] */
static uint64_t place(const struct heap *heap, const struct block *b, size_t bytes)
{
	uint64_t at = b->va, last = b->va + b->bytes - bytes;
	size_t skip = bytes < heap->tune.chunk ? bytes : heap->tune.chunk;
	if (b->space != SPACE_LARGE || bytes % heap->to.grain)
		return at;
	if (last > at + skip)
		last = at + skip;
	for (const struct chunk *c; at <= last && (c = space_chunk(heap, SPACE_LARGE, at));
		 at = c->home + c->bytes)
		if (c->home == at && at_border(heap, at + bytes))
			return at;
	return b->va;
}

/* The better of the stream's own free blocks and everybody's. [lock] */
static struct block *best(const struct heap *heap, const struct heap_stream *s, unsigned space, size_t bytes)
{
	struct block *own = index_fit(&s->index[space], bytes);
	struct block *done = index_fit(&heap->done[space], bytes);
	return own && (!done || own->bytes <= done->bytes) ? own : done;
}

struct block *fit(struct heap *heap, struct heap_stream *s, unsigned space, size_t bytes)
{
	struct block *b = best(heap, s, space, bytes);
	if (!b || !record_reserve(heap, 2))
		return NULL;
	heap->steals += fit_stolen(s, b);
	return fit_take(heap, range_carve(heap, b, place(heap, b, bytes), bytes), bytes);
}

struct block *fit_middle(struct heap *heap, struct heap_stream *s, size_t bytes, bool any)
{
	size_t idle = s->index[SPACE_LARGE].bytes + heap->done[SPACE_LARGE].bytes;
	bool apart = heap->tight && idle <= heap->reserved / HEAP_LOOSE;
	struct block *b = best(heap, s, SPACE_LARGE, bytes);
	if (b && (any || !apart || b->bytes < 2 * heap->to.grain))
		return fit(heap, s, SPACE_LARGE, bytes);
	if (!any && !apart)
		return NULL;
	b = fit(heap, s, SPACE_SMALL, bytes);
	if (b)
		return b;
	bin_drain(s, SPACE_SMALL);
	return fit(heap, s, SPACE_SMALL, bytes);
}

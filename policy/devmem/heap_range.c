/*
 * heap_range.c - blocks in address order: cut, joined, put back.
 *
 * chunk.cover follows: it costs as many stores as chunks change hands, so it is always the
 * smaller part of a block that gets the other record.
 */
#include "heap_impl.h"

struct index *range_index(struct heap *heap, const struct block *b)
{
	if (b->kind == BLOCK_NONE)
		return &heap->none[b->space];
	return b->owner ? &b->owner->index[b->space] : &heap->done[b->space];
}

/* The chunks that begin within [va, va+bytes) begin in `b`. */
static void cover(const struct heap *heap, uint64_t va, size_t bytes, struct block *b)
{
	if (b->space >= SPACE_HOMES || b->kind == BLOCK_NONE)
		return;
	uint64_t end = va + bytes, base = heap->space[b->space].base;
	/* Chunks begin at grains: most small blocks hold no begin. */
	if (base + (va - base + heap->to.grain - 1) / heap->to.grain * heap->to.grain >= end)
		return;
	struct chunk *c = space_chunk(heap, b->space, va);
	if (c && c->home < va)
		c = space_chunk(heap, b->space, c->home + c->bytes);
	for (; c && c->home < end; c = space_chunk(heap, b->space, c->home + c->bytes))
		c->cover = b;
}

/* Cuts `b`, which is in no index, in two; one spare record. */
static void split(struct heap *heap, struct block *b, uint64_t at, struct block **left, struct block **right)
{
	struct block *n = record_get(heap);
	n->kind = b->kind;
	n->space = b->space;
	n->owner = b->owner;
	n->epoch = b->epoch;
	size_t low = at - b->va, high = b->bytes - low;
	if (low <= high) {
		n->va = b->va;
		n->bytes = low;
		b->va = at;
		b->bytes = high;
		n->prev = b->prev;
		n->next = b;
		if (b->prev)
			b->prev->next = n;
		else
			heap->space[b->space].first = n;
		b->prev = n;
		*left = n;
		*right = b;
	} else {
		n->va = at;
		n->bytes = high;
		b->bytes = low;
		n->prev = b;
		n->next = b->next;
		if (b->next)
			b->next->prev = n;
		b->next = n;
		*left = b;
		*right = n;
	}
	cover(heap, n->va, n->bytes, n);
}

struct block *range_join(struct heap *heap, struct block *a, struct block *b)
{
	struct block *keep = a->bytes >= b->bytes ? a : b, *drop = keep == a ? b : a;
	cover(heap, drop->va, drop->bytes, keep);
	if (keep == b) {
		keep->va = a->va;
		keep->prev = a->prev;
		if (a->prev)
			a->prev->next = keep;
		else
			heap->space[a->space].first = keep;
	} else {
		keep->next = b->next;
		if (b->next)
			b->next->prev = keep;
	}
	keep->bytes += drop->bytes;
	keep->epoch = a->epoch > b->epoch ? a->epoch : b->epoch;
	record_put(heap, drop);
	return keep;
}

struct block *range_carve(struct heap *heap, struct block *b, uint64_t va, size_t bytes)
{
	struct block *left, *right;
	index_remove(range_index(heap, b), b);
	if (va > b->va) {
		split(heap, b, va, &left, &right);
		index_add(range_index(heap, left), left);
		b = right;
	}
	if (bytes < b->bytes) {
		split(heap, b, va + bytes, &left, &right);
		index_add(range_index(heap, right), right);
		b = left;
	}
	b->kind = BLOCK_CLAIM;
	return b;
}

struct block *range_cut(struct heap *heap, struct block *b, size_t bytes, struct block **rest)
{
	struct block *left = b;
	*rest = NULL;
	if (bytes < b->bytes)
		split(heap, b, b->va + bytes, &left, rest);
	return left;
}

struct block *range_put(struct heap *heap, struct block *b, enum block_kind kind, struct heap_stream *owner,
						uint64_t epoch)
{
	b->kind = (uint8_t)kind;
	b->owner = owner;
	b->epoch = epoch;
	b->view = NULL;
	struct block *n = b->prev;
	if (n && n->kind == kind && n->owner == owner) {
		index_remove(range_index(heap, n), n);
		b = range_join(heap, n, b);
	}
	n = b->next;
	if (n && n->kind == kind && n->owner == owner) {
		index_remove(range_index(heap, n), n);
		b = range_join(heap, b, n);
	}
	if (owner && epoch > owner->freed)
		owner->freed = epoch;
	index_add(range_index(heap, b), b);
	return b;
}

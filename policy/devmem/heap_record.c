/*
 * heap_record.c - host memory of the heap: records of blocks, and tables of where they are.
 *
 * From regions that are never given back before the end: a stale pointer into them is harmless.
 * They are large, and huge pages if there are any: with a million blocks each operation touches
 * records all over them.
 */
#include <stdint.h>
#include <sys/mman.h>

#include "heap_impl.h"

#define REGION_FIRST ((size_t)256 << 10)
#define REGION ((size_t)2 << 20)
#define LINE ((size_t)128)
#define RECORDS 64 /* made at once */

struct region {
	struct region *next;
	size_t bytes, used;
};

/* `bytes` at a multiple of itself, a power of two. */
static void *map_aligned(size_t bytes)
{
	char *p = mmap(NULL, bytes * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	char *at = (char *)(((uintptr_t)p + bytes - 1) & ~(uintptr_t)(bytes - 1));
	if (at > p)
		munmap(p, (size_t)(at - p));
	if (at < p + bytes)
		munmap(at + bytes, (size_t)(p + bytes - at));
	if (bytes >= REGION)
		(void)madvise(at, bytes, MADV_HUGEPAGE);
	return at;
}

void *host_get(struct heap *heap, size_t bytes)
{
	struct region *r = heap->regions;
	bytes = round_up(bytes, LINE);
	if (!r || r->used + bytes > r->bytes) {
		size_t size = r || bytes > REGION_FIRST / 2 ? REGION : REGION_FIRST;
		if (bytes > size - LINE)
			return NULL;
		r = map_aligned(size);
		if (!r)
			return NULL;
		r->bytes = size;
		r->used = LINE;
		r->next = heap->regions;
		heap->regions = r;
	}
	void *p = (char *)r + r->used;
	r->used += bytes;
	return p;
}

void host_free_all(struct heap *heap)
{
	while (heap->regions) {
		struct region *r = heap->regions;
		heap->regions = r->next;
		munmap(r, r->bytes);
	}
}

bool record_reserve(struct heap *heap, size_t n)
{
	while (heap->spares < n) {
		_Static_assert(sizeof(struct block) == LINE, "two cache lines, the first for the paths that matter");
		struct block *b = host_get(heap, RECORDS * sizeof(*b));
		if (!b)
			return false;
		for (size_t i = RECORDS; i-- > 0;)
			record_put(heap, &b[i]);
	}
	return true;
}

struct block *record_get(struct heap *heap)
{
	struct block *b = heap->spare;
	heap->spare = b->chain;
	heap->spares--;
	b->prev = b->next = b->fprev = b->chain = NULL;
	b->owner = NULL;
	b->view = NULL;
	b->epoch = 0;
	return b;
}

void record_put(struct heap *heap, struct block *b)
{
	b->chain = heap->spare;
	heap->spare = b;
	heap->spares++;
}

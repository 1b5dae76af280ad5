/* heap_record.c - records of blocks: from slabs, used again, never given back before the end. */
#include <stdlib.h>

#include "heap_impl.h"

#define SLAB 255

struct slab {
	struct slab *next;
	struct block block[SLAB];
};

bool record_reserve(struct heap *heap, size_t n)
{
	while (heap->spares < n) {
		struct slab *slab = calloc(1, sizeof(*slab));
		if (!slab)
			return false;
		slab->next = heap->slabs;
		heap->slabs = slab;
		for (size_t i = SLAB; i-- > 0;)
			record_put(heap, &slab->block[i]);
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

void record_free_all(struct heap *heap)
{
	while (heap->slabs) {
		struct slab *slab = heap->slabs;
		heap->slabs = slab->next;
		free(slab);
	}
	heap->spare = NULL;
	heap->spares = 0;
}

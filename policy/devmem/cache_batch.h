/*
 * cache_batch.h - blocks that were freed one after the other, behind one fence.
 *
 * Batches come from a store that keeps its memory; lists of them are guarded by their owner.
 */
#ifndef TURBO_DEVMEM_CACHE_BATCH_H
#define TURBO_DEVMEM_CACHE_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "fence.h"

struct block;

#define BATCH_BLOCKS 64
#define BATCH_BYTES ((size_t)64 << 20)

struct batch {
	struct batch *next;
	unsigned n;
	size_t bytes;
	uint32_t bin[BATCH_BLOCKS]; /* the blocks' bins, close together for a quick look */
	struct block *block[BATCH_BLOCKS];
	struct fence fence;
};

struct batch_list {
	struct batch *first, *last;
};

/* Empty; NULL: no memory. Any thread. */
struct batch *batch_new(void);
void batch_clear(struct batch *batch);
void batch_drop(struct batch *batch);

void batch_append(struct batch_list *list, struct batch *batch);
struct batch *batch_remove_first(struct batch_list *list); /* of a list that has one */

void batch_fork_child(void);

#endif

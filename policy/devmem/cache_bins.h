/*
 * cache_bins.h - cached blocks by size: exact best fit without a search tree.
 *
 * Sizes come in steps of 512 bytes up to 1 MiB and of 2 MiB from there, as the driver hands memory
 * out. A bin holds the blocks of one step, newest first; a bitmap says which bins have any.
 */
#ifndef TURBO_DEVMEM_CACHE_BINS_H
#define TURBO_DEVMEM_CACHE_BINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct block;

struct bins {
	uint32_t count;
	uint64_t *used;      /* a bit a bin */
	struct block **head; /* a list a bin, linked by prev and next */
	size_t mapped;       /* bytes of the mapping that both live in */
};

/* What is asked of the driver for a request, and the largest block it may be served with. Up to
 * an eighth of a block is given away: as much as PyTorch's and the driver's own pools do. */
size_t bins_round(size_t bytes);
static inline size_t bins_most(size_t rounded)
{
	return rounded + rounded / 8;
}
/* The first bin whose blocks are all of at least that many bytes. */
uint32_t bins_of_request(size_t rounded);

/* Bins for a device of that many bytes; pages come with use. False: no memory. */
bool bins_open(struct bins *bins, size_t device_bytes);
void bins_close(struct bins *bins);
/* The last bin whose requests the block satisfies: where bins_put() puts it. */
uint32_t bins_of_block(const struct bins *bins, const struct block *block);
void bins_put(struct bins *bins, struct block *block);
void bins_take(struct bins *bins, struct block *block);
/* The smallest block of `rounded` to `most` bytes, still in its bin, or NULL. */
struct block *bins_find(const struct bins *bins, size_t rounded, size_t most);

#endif

/* cache_bins.c - see cache_bins.h. */
#define _GNU_SOURCE
#include "cache_bins.h"

#include <string.h>
#include <sys/mman.h>

#include "block.h"

#define SMALL_STEP ((size_t)512)
#define SMALL_MOST ((size_t)1 << 20)
#define LARGE_STEP ((size_t)2 << 20)
#define SMALL_BINS ((uint32_t)(SMALL_MOST / SMALL_STEP))
/* Blocks of one bin looked at: those that the driver gave in odd sizes, when it had no more, may
 * be too large for a request of their bin. */
#define LOOKS 4

size_t bins_round(size_t bytes)
{
	size_t step = bytes <= SMALL_MOST ? SMALL_STEP : LARGE_STEP;
	return (bytes + step - 1) / step * step;
}

uint32_t bins_of_request(size_t rounded)
{
	if (rounded <= SMALL_MOST)
		return (uint32_t)((rounded + SMALL_STEP - 1) / SMALL_STEP) - 1;
	return SMALL_BINS - 1 + (uint32_t)((rounded + LARGE_STEP - 1) / LARGE_STEP);
}

static uint32_t bin_of_block(size_t size)
{
	if (size < LARGE_STEP)
		return size < SMALL_STEP ? 0 : size < SMALL_MOST ? (uint32_t)(size / SMALL_STEP) - 1 : SMALL_BINS - 1;
	return SMALL_BINS - 1 + (uint32_t)(size / LARGE_STEP);
}

bool bins_open(struct bins *bins, size_t device_bytes)
{
	bins->count = bin_of_block(device_bytes < LARGE_STEP ? LARGE_STEP : device_bytes) + 1;
	size_t words = (bins->count + 63) / 64;
	bins->mapped = words * sizeof(uint64_t) + bins->count * sizeof(struct block *);
	void *mem = mmap(NULL, bins->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mem == MAP_FAILED) {
		bins->mapped = 0;
		return false;
	}
	bins->used = mem;
	bins->head = (struct block **)(bins->used + words);
	return true;
}

void bins_close(struct bins *bins)
{
	if (bins->mapped)
		munmap(bins->used, bins->mapped);
	memset(bins, 0, sizeof(*bins));
}

uint32_t bins_of_block(const struct bins *bins, const struct block *b)
{
	uint32_t bin = bin_of_block(b->size);
	return bin < bins->count ? bin : bins->count - 1;
}

void bins_put(struct bins *bins, struct block *b)
{
	b->bin = bins_of_block(bins, b);
	b->prev = NULL;
	b->next = bins->head[b->bin];
	if (b->next)
		b->next->prev = b;
	bins->head[b->bin] = b;
	bins->used[b->bin / 64] |= 1ull << b->bin % 64;
}

void bins_take(struct bins *bins, struct block *b)
{
	if (b->prev)
		b->prev->next = b->next;
	else
		bins->head[b->bin] = b->next;
	if (b->next)
		b->next->prev = b->prev;
	if (!bins->head[b->bin])
		bins->used[b->bin / 64] &= ~(1ull << b->bin % 64);
	b->prev = b->next = NULL;
}

/* The first bin in use in [from, to], or `to` + 1. */
static uint32_t next_used(const struct bins *bins, uint32_t from, uint32_t to)
{
	for (uint32_t word = from / 64; word <= to / 64; word++) {
		uint64_t bits = bins->used[word];
		if (word == from / 64)
			bits &= ~0ull << from % 64;
		if (!bits)
			continue;
		uint32_t bin = word * 64 + (uint32_t)__builtin_ctzll(bits);
		return bin <= to ? bin : to + 1;
	}
	return to + 1;
}

struct block *bins_find(const struct bins *bins, size_t rounded, size_t most)
{
	uint32_t bin = bins_of_request(rounded), last = bin_of_block(most);
	if (last >= bins->count)
		last = bins->count - 1;
	for (; bin <= last; bin++) {
		bin = next_used(bins, bin, last);
		if (bin > last)
			break;
		struct block *b = bins->head[bin];
		for (int i = 0; b && i < LOOKS; i++, b = b->next)
			if (b->size >= rounded && b->size <= most)
				return b;
	}
	return NULL;
}

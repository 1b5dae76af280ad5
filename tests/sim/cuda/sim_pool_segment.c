/*
 * sim_pool_segment.c - the memory that pools have of the driver, and lists of their free blocks.
 */
#include <stdlib.h>

#include "sim_pool.h"

#define SEGMENT (32u << 20)

/* ---- bins: four a power of two ---- */

int sim_bin_of(size_t size)
{
	int power = 63 - __builtin_clzll(size / SIM_POOL_UNIT);
	return power * 4 + (int)(size / SIM_POOL_UNIT * 4 >> power & 3);
}

void sim_bin_put(struct sim_pool *p, struct sim_block *b)
{
	struct sim_block **head = &p->bins[sim_bin_of(b->size)];
	b->in_bin = *head;
	b->bin = head;
	if (*head)
		(*head)->bin = &b->in_bin;
	*head = b;
}

void sim_bin_take(struct sim_block *b)
{
	*b->bin = b->in_bin;
	if (b->in_bin)
		b->in_bin->bin = b->bin;
}

/* ---- segments ---- */

static struct sim_block *segment_new(struct sim_pool *p, size_t size)
{
	if (p->max_size && (size > p->max_size || p->reserved > p->max_size - size))
		return NULL;
	struct sim_segment *g = calloc(1, sizeof *g);
	struct sim_block *b = calloc(1, sizeof *b);
	struct sim_phys *phys = g && b ? sim_phys_new(p->dev, size) : NULL;
	uintptr_t at = phys ? sim_va_take(p->dev, size, SIM_GRANULARITY) : 0;
	if (!at) {
		if (phys)
			sim_phys_put(phys);
		free(g);
		free(b);
		return NULL;
	}
	*g = (struct sim_segment){p, at, size, phys, 0, &p->segments, p->segments};
	if (g->next)
		g->next->link = &g->next;
	p->segments = g;
	sim_va_hold(at, size);
	*b = (struct sim_block){.base = at, .size = size, .segment = g, .observed = true};
	sim_bin_put(p, b);
	p->reserved += size;
	if (p->reserved > p->reserved_high)
		p->reserved_high = p->reserved;
	return b;
}

/* The segment is one free block. */
static void segment_end(struct sim_segment *g, struct sim_block *b)
{
	sim_bin_take(b);
	free(b);
	g->pool->reserved -= g->size;
	sim_va_release(g->base, g->size);
	sim_phys_put(g->phys);
	*g->link = g->next;
	if (g->next)
		g->next->link = g->link;
	free(g);
}

/* The only block of a segment that is not busy. */
static struct sim_block *only_block(const struct sim_segment *g)
{
	for (struct sim_block *b = g->pool->bins[sim_bin_of(g->size)]; b; b = b->in_bin)
		if (b->segment == g)
			return b;
	return NULL;
}

bool sim_pool_release(struct sim_pool *p, uint64_t keep, bool below)
{
	bool any = false;
	for (struct sim_segment *g = p->segments, *next; g && p->reserved > keep; g = next) {
		next = g->next;
		struct sim_block *b = g->busy ? NULL : only_block(g);
		if (!b || (!below && p->reserved - g->size < keep))
			continue;
		segment_end(g, b);
		any = true;
	}
	return any;
}

void sim_pool_end_if_unused(struct sim_pool *p)
{
	if (!p->destroyed)
		return;
	sim_pool_release(p, 0, true);
	if (p->segments)
		return;
	for (struct sim_range *r = sim_range_first(); r; r = r->next)
		if (r->pool == p)
			r->pool = NULL; /* memory of graphs */
	sim_pool_forget(p);
}

void sim_pool_host_waited(struct sim_device *dev)
{
	for (struct sim_pool *p = sim_pool_first(); p; p = p->next) {
		if (p->dev != dev)
			continue;
		if (p->reserved > p->threshold)
			sim_pool_release(p, p->threshold, true);
		for (int i = 0; !p->opportunistic && i < SIM_POOL_BINS; i++)
			for (struct sim_block *b = p->bins[i]; b; b = b->in_bin)
				b->observed = b->observed || b->state == BLOCK_FREE;
	}
}

struct sim_block *sim_pool_grow(struct sim_pool *p, size_t size)
{
	size_t large = (size + SEGMENT - 1) / SEGMENT * SEGMENT;
	size_t small = (size + SIM_GRANULARITY - 1) / SIM_GRANULARITY * SIM_GRANULARITY;
	struct sim_block *b = segment_new(p, large) ?: segment_new(p, small);
	bool released = false;
	for (struct sim_pool *other = sim_pool_first(); !b && other; other = other->next)
		if (other->dev == p->dev)
			released = sim_pool_release(other, 0, true) || released;
	return b ?: released ? segment_new(p, small) : NULL;
}

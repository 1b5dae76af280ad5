/*
 * sim_table.c - the table of all memory the driver knows.
 *
 * A balanced tree of ranges that do not overlap, and a list of them for walks. A lookup is
 * for "whatever overlaps this", which is one path down the tree.
 */
#include <search.h>
#include <stdlib.h>

#include "sim_internal.h"

#define FREED_KEPT 1024

static void *tree; /* of struct sim_range; guarded by sim.lock, as all here */
static struct sim_range *first;

static struct {
	uintptr_t base;
	size_t size;
} freed[FREED_KEPT];
static unsigned freed_next;

/* Ranges that overlap compare as equal. */
static int compare(const void *a, const void *b)
{
	const struct sim_range *x = a, *y = b;
	if (x->base + x->size <= y->base)
		return -1;
	return y->base + y->size <= x->base;
}

struct sim_range *sim_range_overlap(uintptr_t base, size_t size)
{
	const struct sim_range key = {.base = base, .size = size};
	struct sim_range **found = tfind(&key, &tree, compare);
	return found ? *found : NULL;
}

struct sim_range *sim_range_find(uintptr_t addr)
{
	return sim_range_overlap(addr, 1);
}

struct sim_range *sim_range_live(uintptr_t addr)
{
	struct sim_range *r = sim_range_find(addr);
	return r && !r->freeing ? r : NULL;
}

struct sim_range *sim_range_first(void)
{
	return first;
}

static uint64_t *counter_of(enum sim_kind kind)
{
	if (kind == MEM_REGISTERED)
		return &sim.registrations;
	return kind == MEM_PINNED ? &sim.host_allocs : &sim.allocs;
}

struct sim_range *sim_range_add(const struct sim_range *range)
{
	if (!range->size || sim_range_overlap(range->base, range->size))
		return NULL;
	struct sim_range *r = malloc(sizeof *r);
	if (!r)
		abort();
	*r = *range;
	r->id = sim.next_id++;
	if (!tsearch(r, &tree, compare))
		abort();
	r->next = first;
	r->link = &first;
	if (first)
		first->link = &r->next;
	first = r;
	*counter_of(r->kind) += !r->freeing;
	return r;
}

void sim_range_freeing(struct sim_range *r)
{
	r->freeing = true;
	--*counter_of(r->kind);
}

void sim_range_remove(struct sim_range *r)
{
	if (sim_in_device_space(r->base)) {
		freed[freed_next].base = r->base;
		freed[freed_next].size = r->size;
		freed_next = (freed_next + 1) % FREED_KEPT;
	}
	*counter_of(r->kind) -= !r->freeing;
	tdelete(r, &tree, compare);
	*r->link = r->next;
	if (r->next)
		r->next->link = r->link;
	free(r);
}

bool sim_range_was_freed(uintptr_t addr)
{
	for (unsigned i = 0; i < FREED_KEPT; i++)
		if (addr - freed[i].base < freed[i].size)
			return true;
	return false;
}

/* ---- addresses that are held: as ranges, in a tree of their own ---- */

static void *held;

void sim_va_hold(uintptr_t base, size_t size)
{
	struct sim_range *r = calloc(1, sizeof *r);
	if (!r)
		abort();
	r->base = base;
	r->size = size;
	if (!tsearch(r, &held, compare))
		abort();
}

void sim_va_release(uintptr_t base, size_t size)
{
	const struct sim_range key = {.base = base, .size = size};
	struct sim_range **found = tfind(&key, &held, compare);
	struct sim_range *r = found ? *found : NULL;
	if (r)
		tdelete(r, &held, compare);
	free(r);
}

uintptr_t sim_va_held(uintptr_t at, size_t size)
{
	const struct sim_range key = {.base = at, .size = size};
	struct sim_range **found = tfind(&key, &held, compare);
	return found ? (*found)->base + (*found)->size : 0;
}

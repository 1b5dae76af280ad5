/*
 * sim_pool_heap.c - the blocks of pools, and when one may be used again.
 *
 * A freed block is used again at once by the stream that freed it; by another stream once the
 * free has been executed (opportunistic), when the stream already waits for the free (event
 * dependencies), or, when no more memory is to be had, by making it wait (internal dependencies).
 * Work that was queued before the free may still use the old block: its range stays, as long as
 * the free is pending, in all parts that are not in use again.
 */
#include <stdlib.h>

#include "sim_pool.h"

#define BIN_LOOKS 64   /* blocks of one bin that an allocation looks at */
#define VISITS_MAX 512 /* operations that a search for a dependency looks at */
#define POISON 0xdb
#define POISON_MAX 4096

/* ---- freeing ---- */

static bool joins(const struct sim_block *a, const struct sim_block *b)
{
	return a && b && a->state == BLOCK_FREE && b->state == BLOCK_FREE;
}

/* b is free, and in no bin. */
static void settle(struct sim_block *b)
{
	struct sim_segment *g = b->segment;
	struct sim_block *other;
	b->state = BLOCK_FREE;
	while (joins(b->left, b) || joins(b, b->right)) {
		other = joins(b->left, b) ? b->left : b->right;
		sim_bin_take(other);
		if (other == b->left) {
			b->base = other->base;
			b->left = other->left;
			if (b->left)
				b->left->right = b;
		} else {
			b->right = other->right;
			if (b->right)
				b->right->left = b;
		}
		b->size += other->size;
		b->freer = b->freer == other->freer ? b->freer : 0;
		b->observed = b->observed && other->observed;
		free(other);
	}
	g->busy--;
	sim_bin_put(g->pool, b);
}

static void range_end(struct sim_block *b)
{
	struct sim_range *r = b->range;
	b->range = NULL;
	if (!r)
		return;
	size_t n = r->size < POISON_MAX ? r->size : POISON_MAX;
	sim_fill_bytes(r->phys->bytes + r->phys_off, POISON, n);
	sim_release_range(r);
}

void sim_pool_freed(struct sim_pool_free *f)
{
	struct sim_pool *p = f->blocks ? f->blocks->segment->pool : NULL;
	for (struct sim_block *b = f->blocks, *next; b; b = next) {
		next = b->same_free;
		sim_bin_take(b);
		range_end(b);
		b->freed = NULL;
		settle(b);
	}
	f->blocks = NULL;
	if (p)
		sim_pool_end_if_unused(p);
}

CUresult sim_pool_free_on(struct sim_range *r, struct sim_stream *s)
{
	struct sim_pool_free *f = calloc(1, sizeof *f);
	if (!f)
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct sim_cmd *cmd = sim_cmd_new(CMD_POOL_FREE);
	cmd->pool_free = f;
	CUresult result = sim_submit(s, cmd, &f->op);
	if (result != CUDA_SUCCESS)
		return result; /* f went with cmd */
	sim_op_put(f->op); /* it holds f, not the other way round */
	struct sim_block *b = r->block;
	r->pool->used -= b->size;
	sim_range_freeing(r);
	b->state = BLOCK_PENDING;
	b->freer = s->id;
	b->observed = false;
	b->freed = f;
	b->same_free = NULL;
	f->blocks = b;
	sim_bin_put(b->segment->pool, b);
	return CUDA_SUCCESS;
}

/* The block is free, and counts as used for good: so real drivers count. */
void sim_pool_free_now(struct sim_range *r)
{
	struct sim_block *b = r->block;
	struct sim_pool *p = r->pool;
	sim_range_freeing(r);
	b->freer = 0;
	b->observed = true;
	range_end(b);
	settle(b);
	sim_pool_end_if_unused(p);
}

/* ---- whether a stream is ordered after a free ---- */

struct search {
	const struct sim_op *goal;
	unsigned mark;
	int left;
};

/* op, and all that comes before it in its stream and is not done. */
static bool comes_after(struct search *q, struct sim_op *op)
{
	if (!op || op->done || !op->stream)
		return false;
	if (op->stream == q->goal->stream && op->seq >= q->goal->seq)
		return true;
	for (struct sim_op *o = op->stream->head; o && o->seq <= op->seq; o = o->next) {
		if (o->mark == q->mark)
			continue;
		if (q->left-- <= 0)
			return false;
		o->mark = q->mark;
		for (int i = 0; i < o->dep_count; i++)
			if (comes_after(q, o->deps[i]))
				return true;
	}
	return false;
}

static bool ordered_after(struct sim_stream *s, const struct sim_op *free_op)
{
	static unsigned marks;
	struct search q = {free_op, ++marks, VISITS_MAX};
	return comes_after(&q, s->last);
}

/* ---- allocating ---- */

static bool usable(const struct sim_pool *p, const struct sim_block *b, struct sim_stream *s, bool make_wait)
{
	if (b->freer == s->id)
		return true;
	if (b->state == BLOCK_FREE)
		return make_wait || p->opportunistic || b->observed;
	return make_wait || (p->follow_events && ordered_after(s, b->freed->op));
}

static struct sim_block *find(struct sim_pool *p, size_t size, struct sim_stream *s, bool make_wait)
{
	for (int bin = sim_bin_of(size); bin < SIM_POOL_BINS; bin++) {
		struct sim_block *best = NULL;
		int looks = BIN_LOOKS;
		for (struct sim_block *b = p->bins[bin]; b && looks--; b = b->in_bin)
			if (b->size >= size && (!best || b->size < best->size) && usable(p, b, s, make_wait))
				best = b;
		if (best)
			return best;
	}
	return NULL;
}

/* Cuts what is beyond `size` off; it stays as it was, its pending part of the old range too. */
static void cut(struct sim_block *b, size_t size)
{
	struct sim_block *rest = b->size > size ? calloc(1, sizeof *rest) : NULL;
	if (!rest)
		return;
	*rest = *b;
	rest->base += size;
	rest->size -= size;
	rest->left = b;
	rest->range = NULL;
	if (rest->right)
		rest->right->left = rest;
	b->right = rest;
	b->size = size;
	if (b->state == BLOCK_PENDING) {
		rest->same_free = b->same_free;
		b->same_free = rest;
		rest->segment->busy++;
	}
	sim_bin_put(rest->segment->pool, rest);
}

/* The block leaves its free. Its range goes; what of it lies beyond the block is the next's. */
static void unpend(struct sim_block *b)
{
	struct sim_range *r = b->range, old = r ? *r : (struct sim_range){0};
	struct sim_block **p = &b->freed->blocks;
	while (*p != b)
		p = &(*p)->same_free;
	*p = b->same_free;
	b->freed = NULL;
	b->range = NULL;
	if (!r)
		return;
	r->phys->refs++;
	sim_release_range(r);
	uintptr_t end = b->base + b->size;
	if (old.base + old.size > end) {
		old.phys_off += end - old.base;
		old.size -= end - old.base;
		old.base = end;
		old.block = b->right;
		b->right->range = sim_range_add(&old);
	} else {
		sim_phys_put(old.phys);
	}
}

CUresult sim_pool_alloc(struct sim_pool *p, size_t size, struct sim_stream *s, uintptr_t *out)
{
	if (!size)
		return CUDA_SUCCESS; /* no memory, and a null pointer for it */
	if (size > sim_conf.mem_bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	size_t whole = (size + SIM_POOL_UNIT - 1) / SIM_POOL_UNIT * SIM_POOL_UNIT;
	struct sim_block *b = find(p, whole, s, false) ?: sim_pool_grow(p, whole);
	if (!b && p->internal)
		b = find(p, whole, s, true);
	if (!b)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (b->state == BLOCK_PENDING && b->freer != s->id) {
		struct sim_op *after = b->freed->op;
		CUresult result = sim_submit_after(s, sim_cmd_new(CMD_NOP), &after, 1, NULL);
		if (result != CUDA_SUCCESS)
			return result;
	}
	sim_bin_take(b);
	cut(b, whole);
	if (b->state == BLOCK_PENDING)
		unpend(b);
	else
		b->segment->busy++;
	b->state = BLOCK_USED;
	struct sim_range range = {
		.base = b->base,
		.size = whole, /* work of the block's last owner may be queued, and end where this does not */
		.asked = size,
		.kind = MEM_DEVICE,
		.ctx = s->ctx,
		.dev = p->dev,
		.phys = b->segment->phys,
		.phys_off = b->base - b->segment->base,
		.pool = p,
		.async = true,
		.block = b,
	};
	range.phys->refs++;
	b->range = sim_range_add(&range);
	p->used += b->size;
	if (p->used > p->used_high)
		p->used_high = p->used;
	*out = b->base;
	return CUDA_SUCCESS;
}

/*
 * heap_plan.c - which free memory makes up a block that no single free block can hold.
 *
 * Free memory is seen as runs: neighbouring free blocks of the large space that the stream may
 * use, whoever freed them. A run is cut at chunk borders, since only whole chunks can be mapped
 * elsewhere: head (the end of a chunk whose begin is in use), inner chunks, tail. The
 * first piece of a view may begin with a head and the last one end with a tail.
 */
#include <stdlib.h>

#include "heap_impl.h"

/* More than what is needed is made at once, up to this part of what there is: fewer, larger chunks, and whole ones. */
#define AHEAD 128
/* When more than this part of all memory is free but of no use, because its chunks are partly in use, new
 * memory comes in chunks of one grain (of the request, if that is more: a small heap's shards are no reason). */
#define SHARDS 75

struct run {
	uint64_t lo, hi;
	size_t head, inner, tail;
	unsigned space;
	bool waits;
};

struct runs {
	struct run *run;
	size_t count, room;
	size_t inner, all;  /* sums */
	struct block *none; /* where growing next to a run takes least */
	size_t next_to;     /* the part of the request that lies in that run */
	bool failed;        /* no host memory */
};

bool plan_claim(struct plan *p, unsigned space, uint64_t va, size_t bytes)
{
	for (uint64_t end = va + bytes; va < end;) {
		if (!record_reserve(p->heap, 2))
			return false;
		struct block *b = space_block(p->heap, space, va);
		uint64_t to = b->va + b->bytes < end ? b->va + b->bytes : end;
		b = range_carve(p->heap, b, va, to - va);
		if (p->claims)
			p->last->chain = b;
		else
			p->claims = b;
		p->last = b;
		va = to;
	}
	return true;
}

void plan_undo(struct plan *p)
{
	while (p->claims) {
		struct block *b = p->claims;
		p->claims = b->chain;
		b->chain = NULL;
		range_put(p->heap, b, b == p->fresh ? BLOCK_NONE : BLOCK_FREE, b->owner, b->epoch);
	}
	p->last = p->fresh = NULL;
}

/* ---- runs ---- */

static void run_add(struct plan *p, struct runs *r, struct run run)
{
	const struct chunk *first = space_chunk(p->heap, run.space, run.lo);
	const struct chunk *last = space_chunk(p->heap, run.space, run.hi - 1);
	uint64_t lo = first->home < run.lo ? first->home + first->bytes : run.lo;
	uint64_t hi = last->home + last->bytes > run.hi ? last->home : run.hi;
	/* All within one chunk whose ends are both in use: good for a block that fits, no more. */
	if (lo <= hi) {
		run.inner = hi - lo;
		run.head = lo - run.lo;
		run.tail = run.hi - hi;
	}
	if (r->count == r->room) {
		size_t room = r->room ? r->room * 2 : 256;
		struct run *more = realloc(r->run, room * sizeof(*more));
		if (!more) {
			r->failed = true;
			return;
		}
		r->run = more;
		r->room = room;
	}
	r->run[r->count++] = run;
	r->inner += run.inner;
	r->all += run.hi - run.lo;
}

bool plan_may_use(const struct plan *p, const struct block *b, bool *waits)
{
	if (b->kind != BLOCK_FREE)
		return false;
	if (mark_usable(p->heap, p->stream, b->owner, b->epoch))
		return true;
	if (!p->wait || !mark_waitable(b->owner))
		return false;
	*waits = true;
	return true;
}

/* Could the request grow into `none`, behind a run that ends there? The longer the run, the better. */
static void see_none(const struct plan *p, struct runs *r, struct block *none)
{
	bool waits = false;
	size_t have = 0;
	for (const struct block *b = none->prev; b && plan_may_use(p, b, &waits); b = b->prev)
		have += b->bytes;
	if (have > p->bytes)
		have = p->bytes;
	bool better = !r->none || have > r->next_to || (have == r->next_to && none->va < r->none->va);
	if (better && none->bytes >= round_up(p->bytes - have, p->heap->to.grain)) {
		r->none = none;
		r->next_to = have;
	}
}

/* The runs that begin with a block of this index. */
static void runs_of(struct plan *p, struct runs *r, const struct index *x)
{
	for (struct block *b = index_next(x, NULL, HEAP_UNIT); b && !r->failed; b = index_next(x, b, HEAP_UNIT)) {
		struct run run = {.lo = b->va, .space = SPACE_LARGE};
		bool waits = false;
		if (!plan_may_use(p, b, &waits) || (b->prev && plan_may_use(p, b->prev, &waits)))
			continue;
		for (const struct block *n = b; n && plan_may_use(p, n, &run.waits); n = n->next)
			run.hi = n->va + n->bytes;
		run_add(p, r, run);
	}
}

/* The runs of the large space. By the free blocks, not by address: there may be many more that are used. */
static void runs_large(struct plan *p, struct runs *r)
{
	struct heap *heap = p->heap;
	runs_of(p, r, &heap->done[SPACE_LARGE]);
	for (struct heap_stream *s = heap->streams; s; s = s->next)
		runs_of(p, r, &s->index[SPACE_LARGE]);
}

/* Whole free chunks of the small space. */
static void runs_small(struct plan *p, struct runs *r, const struct index *x)
{
	size_t grain = p->heap->to.grain;
	for (struct block *b = index_next(x, NULL, grain); b && !r->failed; b = index_next(x, b, grain)) {
		bool waits = false;
		if (b->bytes < grain || !plan_may_use(p, b, &waits))
			continue;
		uint64_t base = p->heap->space[SPACE_SMALL].base;
		uint64_t lo = base + round_up(b->va - base, grain);
		uint64_t hi = base + (b->va + b->bytes - base) / grain * grain;
		if (hi > lo)
			run_add(p, r, (struct run){.lo = lo, .hi = hi, .space = SPACE_SMALL, .waits = waits});
	}
}

static bool closer(const struct run *a, const struct run *b)
{
	size_t x = a->hi - a->lo, y = b->hi - b->lo;
	return x != y ? x < y : a->lo < b->lo;
}

/* All free memory is the stream's, or all is everybody's: as neighbours of one owner are one block, no
 * run is longer than what index_fit() has seen. */
static bool one_owner(const struct heap *heap, const struct heap_stream *own)
{
	for (const struct heap_stream *s = heap->streams; s; s = s->next)
		if (s != own && s->index[SPACE_LARGE].bytes)
			return false;
	return !own->index[SPACE_LARGE].bytes || !heap->done[SPACE_LARGE].bytes;
}

bool plan_fit(struct plan *p)
{
	struct runs r = {0};
	const struct run *best = NULL;
	if (one_owner(p->heap, p->stream))
		return false;
	runs_large(p, &r);
	for (size_t i = 0; i < r.count; i++)
		if (r.run[i].hi - r.run[i].lo >= p->bytes && (!best || closer(&r.run[i], best)))
			best = &r.run[i];
	bool ok = best && plan_claim(p, SPACE_LARGE, best->lo, p->bytes);
	free(r.run);
	if (!ok)
		plan_undo(p);
	return ok;
}

/* ---- growing and stitching ---- */

/* What needs no waiting first, then the largest: few pieces, and small holes are left to small blocks. */
static int by_use(const void *a, const void *b)
{
	const struct run *x = a, *y = b;
	if (x->waits != y->waits)
		return x->waits ? 1 : -1;
	if (x->inner != y->inner)
		return x->inner > y->inner ? -1 : 1;
	return x->lo < y->lo ? -1 : 1;
}

/* Addresses that get memory: behind a run (`have` bytes of it count), or anywhere. */
static bool claim_fresh(struct plan *p, struct block *none, size_t bytes)
{
	if (!none || !record_reserve(p->heap, 2))
		return false;
	size_t ahead = p->heap->reserved / AHEAD, grain = p->heap->to.grain, chunk = p->heap->tune.chunk;
	if (p->bytes < 2 * grain) /* in chunks of one grain, which cost the most */
		ahead = 0;
	if (ahead > chunk)
		ahead = chunk;
	bytes = round_up(bytes, grain);
	size_t at = none->va - p->heap->space[SPACE_LARGE].base + bytes, rest = round_up(at, chunk) - at;
	if (!p->exact && bytes < ahead)
		bytes = ahead / grain * grain;
	else if (!p->exact && rest <= ahead)
		bytes += rest;
	if (bytes > none->bytes)
		bytes = none->bytes;
	struct block *b = range_carve(p->heap, none, none->va, bytes);
	p->fresh = b;
	if (p->claims)
		p->last->chain = b;
	else
		p->claims = b;
	p->last = b;
	return true;
}

/* What is chosen: the first `count` runs in order, with the best head of them as the begin and
 * the best tail of the others as the end. SIZE_MAX: none. */
struct choice {
	size_t count, head, tail;
	size_t bytes;
};

static size_t better(size_t a, size_t of_a, size_t b, size_t of_b)
{
	return b == SIZE_MAX || (a != SIZE_MAX && of_a >= of_b) ? a : b;
}

static struct choice choose(const struct runs *r, size_t bytes)
{
	struct choice c = {0, SIZE_MAX, SIZE_MAX, 0};
	size_t inner = 0, best = SIZE_MAX, second = SIZE_MAX; /* tails */
	const struct run *run = r->run;
#define PART(i, part) ((i) == SIZE_MAX ? 0 : run[i].part)
	for (size_t n = 0; n < r->count && c.bytes < bytes; n++) {
		inner += run[n].inner;
		if (run[n].head)
			c.head = better(c.head, PART(c.head, head), n, run[n].head);
		if (run[n].tail && run[n].tail > PART(best, tail)) {
			second = best;
			best = n;
		} else if (run[n].tail && run[n].tail > PART(second, tail)) {
			second = n;
		}
		c.tail = best != c.head ? best : second;
		c.bytes = inner + PART(c.head, head) + PART(c.tail, tail);
		c.count = n + 1;
	}
#undef PART
	return c;
}

/* One piece, no longer than what is still needed. */
static bool add(struct plan *p, const struct run *run, uint64_t lo, uint64_t hi, size_t *left)
{
	size_t n = hi - lo < *left ? hi - lo : *left;
	if (n && !plan_claim(p, run->space, lo, n))
		return false;
	*left -= n;
	return true;
}

static bool claim_stitch(struct plan *p, const struct runs *r, const struct choice *c, size_t fresh)
{
	size_t left = p->bytes;
	const struct run *run = r->run;
	p->stitched = p->exact = true;
	if (c->head != SIZE_MAX &&
		!add(p, &run[c->head], run[c->head].lo, run[c->head].hi - run[c->head].tail, &left))
		return false;
	for (size_t i = 0; i < c->count; i++) {
		uint64_t lo = run[i].lo + run[i].head;
		if (i != c->head && i != c->tail && run[i].inner && !add(p, &run[i], lo, lo + run[i].inner, &left))
			return false;
	}
	if (fresh && !claim_fresh(p, index_fit(&p->heap->none[SPACE_LARGE], fresh), fresh))
		return false;
	left -= fresh < left ? fresh : left;
	return c->tail == SIZE_MAX ||
		   add(p, &run[c->tail], run[c->tail].lo + run[c->tail].head, run[c->tail].hi, &left);
}

/* Where memory is little a block of whole grains begins with a chunk, not in the end of one that others hold: all
 * of it can be mapped elsewhere once it is freed, and the next one behind it is as well off. What is left out
 * is free memory; it may not become much. */
static void from_border(const struct plan *p, struct runs *r)
{
	size_t grain = p->heap->to.grain;
	if (!p->heap->tight || p->exact || !r->next_to || p->bytes % grain || r->all > p->heap->reserved / AHEAD)
		return;
	uint64_t at = r->none->va - r->next_to;
	const struct chunk *first = space_chunk(p->heap, SPACE_LARGE, at);
	size_t next_to = r->none->va - (first->home + first->bytes);
	if (first->home < at && r->none->bytes >= round_up(p->bytes - next_to, grain))
		r->next_to = next_to;
}

bool plan_grow(struct plan *p)
{
	struct heap *heap = p->heap;
	struct runs r = {0};
	size_t grain = heap->to.grain;
	runs_large(p, &r);
	struct index *none = &heap->none[SPACE_LARGE];
	for (struct block *b = index_next(none, NULL, grain); b; b = index_next(none, b, grain))
		see_none(p, &r, b);
	for (struct heap_stream *s = heap->streams; s; s = s->next)
		if (s->index[SPACE_SMALL].bytes >= grain)
			runs_small(p, &r, &s->index[SPACE_SMALL]);
	runs_small(p, &r, &heap->done[SPACE_SMALL]);
	if (r.count)
		qsort(r.run, r.count, sizeof(*r.run), by_use);
	struct choice c = choose(&r, p->bytes);
	size_t whole = heap->reserved > p->bytes ? heap->reserved : p->bytes;
	p->chunk = r.all - r.inner > whole / SHARDS ? grain : heap->tune.chunk;
	size_t deficit = c.bytes < p->bytes ? round_up(p->bytes - c.bytes, grain) : 0;
	if (r.none)
		from_border(p, &r);
	size_t growth = r.none ? round_up(p->bytes - r.next_to, grain) : SIZE_MAX;
	/* A block in one run needs no second mapping and can be cut later: worth a little memory. */
	bool loose = r.none && !p->exact &&
				 heap->reserved + growth <= (heap->out + p->bytes) / HEAP_LOOSE * (HEAP_LOOSE + 1);
	bool ok;
	if (r.none && (loose || growth <= deficit))
		ok = (!r.next_to || plan_claim(p, SPACE_LARGE, r.none->va - r.next_to, r.next_to)) &&
			 claim_fresh(p, r.none, p->bytes - r.next_to);
	else
		ok = c.count && claim_stitch(p, &r, &c, deficit);
	ok = ok && !r.failed;
	free(r.run);
	if (!ok)
		plan_undo(p);
	return ok;
}

/*
 * heap_miss.c - an allocation that the stream's bins cannot serve, from the cheapest way to the last.
 */
#include "clock.h"
#include "heap_impl.h"

#define WAITS 32 /* waits for the device of one allocation, at most */

static struct block *take_view(struct heap *heap, struct view *v, size_t bytes)
{
	struct block *record = record_get(heap);
	view_block(v, record, bytes);
	return fit_take(heap, record, bytes);
}

/* Without a backend call. `any`: memory is out, a block goes wherever it fits. [lock] */
static struct block *now(struct heap *heap, struct heap_stream *s, unsigned space, size_t bytes, bool any)
{
	/* Small blocks are many and cheap: their bins are emptied only when nothing else fits. For large ones
	 * what is in the bins may be part of a better fit. */
	struct block *b = space == SPACE_SMALL ? fit(heap, s, space, bytes) : NULL;
	if (b)
		return b;
	bin_drain(s, space);
	b = fit_is_middle(heap, bytes) ? fit_middle(heap, s, bytes, any) : fit(heap, s, space, bytes);
	if (b || space == SPACE_SMALL || !record_reserve(heap, 1))
		return b;
	struct view *v = view_again(heap, s, bytes, false);
	/* view_again() may have used the record up. */
	if (v && !record_reserve(heap, 1)) {
		view_undo(heap, v);
		v = NULL;
	}
	if (!v)
		return NULL;
	heap->view_hits++;
	return take_view(heap, v, bytes);
}

/* The stream waits for all whose memory it takes. [grow] */
static int order(struct heap *heap, struct heap_stream *s, struct block *claims)
{
	for (struct block *b = claims; b; b = b->chain)
		if (!mark_order(heap, s, b->owner, b->epoch))
			return HEAP_AGAIN;
	return HEAP_OK;
}

/* The stream is in order with its claims: they are its own from here on, whatever becomes of the
 * streams that had them. True: there were such. [lock] */
static bool adopt(struct heap *heap, struct heap_stream *s, struct block *claims)
{
	bool any = false;
	for (struct block *b = claims; b; b = b->chain) {
		any |= fit_stolen(s, b);
		if (b->owner && b->owner != s) {
			b->owner = s;
			b->epoch = heap->epoch;
		}
	}
	return any;
}

/* The order of the claims, then memory for the fresh one. [grow] */
static int prepare(struct plan *p)
{
	struct heap *heap = p->heap;
	struct block *fresh = p->fresh, **at = &p->claims;
	int r = order(heap, p->stream, p->claims);
	if (r)
		return r;
	pthread_mutex_lock(&heap->lock);
	p->stolen = adopt(heap, p->stream, p->claims);
	pthread_mutex_unlock(&heap->lock);
	if (!fresh)
		return HEAP_OK;
	/* Without memory it is no claim any more, and its record may be somebody else's. */
	while (*at != fresh)
		at = &(*at)->chain;
	uint64_t begin = p->stitched ? fresh->va : p->claims->va;
	*at = fresh->chain;
	p->fresh = NULL;
	r = chunk_grow(heap, fresh, begin, p->bytes, p->chunk ? p->chunk : heap->to.grain);
	if (!r) {
		fresh->chain = *at;
		*at = fresh;
	}
	return r;
}

/* What growing by whole grains made too much goes to everybody. [lock] */
static bool cut_excess(struct plan *p)
{
	size_t sum = 0;
	struct block **at = &p->claims, *rest;
	for (struct block *b = p->claims; b; b = b->chain) {
		sum += b->bytes;
		if (b->chain)
			at = &b->chain;
	}
	if (sum == p->bytes)
		return true;
	if (!record_reserve(p->heap, 1))
		return false;
	*at = range_cut(p->heap, *at, (*at)->bytes - (sum - p->bytes), &rest);
	(*at)->chain = NULL;
	rest->chain = NULL;
	range_put(p->heap, rest, BLOCK_FREE, NULL, 0);
	return true;
}

/* Neighbouring claims as one. [lock] */
static struct block *join(struct heap *heap, struct block *b)
{
	struct block *next = b->chain;
	while (next) {
		struct block *after = next->chain;
		b = range_join(heap, b, next);
		next = after;
	}
	return b;
}

/* A plan becomes a block or is undone. [grow] */
static int carry_out(struct plan *p, struct block **out)
{
	struct heap *heap = p->heap;
	struct view *v = NULL;
	int r = prepare(p);
	pthread_mutex_lock(&heap->lock);
	if (!r && !cut_excess(p))
		r = HEAP_NO_MEMORY;
	if (!r && p->stitched) {
		pthread_mutex_unlock(&heap->lock);
		r = view_make(heap, p->claims, &v);
		pthread_mutex_lock(&heap->lock);
		if (!r && !record_reserve(heap, 1)) {
			view_undo(heap, v);
			p->claims = NULL;
			r = HEAP_NO_MEMORY;
		}
	}
	heap->steals += !r && p->stolen;
	if (r)
		plan_undo(p);
	else
		*out = v ? take_view(heap, v, p->bytes) : fit_take(heap, join(heap, p->claims), p->bytes);
	pthread_mutex_unlock(&heap->lock);
	return r;
}

/* A view that is free but for streams that are not so far yet. [grow] */
static int take_waiting_view(struct heap_stream *s, size_t bytes, struct block **out)
{
	struct heap *heap = s->heap;
	pthread_mutex_lock(&heap->lock);
	struct view *v = view_again(heap, s, bytes, true);
	pthread_mutex_unlock(&heap->lock);
	if (!v)
		return HEAP_NO_MEMORY;
	int r = order(heap, s, v->claims);
	pthread_mutex_lock(&heap->lock);
	if (!r && !record_reserve(heap, 1))
		r = HEAP_NO_MEMORY;
	if (r) {
		view_undo(heap, v);
	} else {
		heap->view_hits++;
		heap->steals++;
		*out = take_view(heap, v, bytes);
	}
	pthread_mutex_unlock(&heap->lock);
	return r;
}

/* Memory that other streams still use, if this one waits for them. [lock] */
static bool plan_small_wait(struct plan *p)
{
	for (struct heap_stream *t = p->heap->streams; t; t = t->next) {
		bool may = t != p->stream && mark_waitable(t);
		struct block *b = may ? index_fit(&t->index[SPACE_SMALL], p->bytes) : NULL;
		if (b)
			return plan_claim(p, SPACE_SMALL, b->va, p->bytes);
	}
	return false;
}

/* A chunk of one grain for a small block; one of a middle size begins in what is free before it, as half a
 * chunk may be left otherwise. [lock] */
static bool plan_small_grow(struct plan *p)
{
	struct heap *heap = p->heap;
	size_t grain = heap->to.grain;
	struct block *none = index_fit(&heap->none[SPACE_SMALL], grain);
	size_t have = 0;
	bool waits;
	if (none && p->bytes >= heap->tune.small)
		for (const struct block *b = none->prev; b && have < p->bytes && plan_may_use(p, b, &waits);
			 b = b->prev)
			have += b->bytes;
	have = have < p->bytes ? have : p->bytes - HEAP_UNIT;
	if (!none || (have && !plan_claim(p, SPACE_SMALL, none->va - have, have)) || !record_reserve(heap, 2)) {
		plan_undo(p);
		return false;
	}
	p->fresh = range_carve(heap, none, none->va, grain);
	if (p->claims)
		p->last->chain = p->fresh;
	else
		p->claims = p->fresh;
	p->last = p->fresh;
	return true;
}

/* ---- the order of ways ---- */

struct miss {
	struct heap_stream *s;
	size_t bytes;
	unsigned space;
	bool wait; /* streams may be made to wait for each other */
	bool hard; /* memory is out: take what can be had, in any way */
};

typedef bool plan_way(struct plan *p);

static int by(const struct miss *m, plan_way *way, bool wait, struct block **out)
{
	struct heap *heap = m->s->heap;
	struct plan p = {.heap = heap, .stream = m->s, .bytes = m->bytes, .wait = wait, .exact = m->hard};
	pthread_mutex_lock(&heap->lock);
	bool found = way(&p);
	pthread_mutex_unlock(&heap->lock);
	return found ? carry_out(&p, out) : HEAP_NO_MEMORY;
}

static int large_ways(const struct miss *m, struct block **out)
{
	struct heap *heap = m->s->heap;
	bool middle = fit_is_middle(heap, m->bytes);
	int r;
	do {
		r = by(m, plan_fit, false, out);
		if (r && m->wait)
			r = by(m, plan_fit, true, out);
		if (r == HEAP_NO_MEMORY && m->wait)
			r = take_waiting_view(m->s, m->bytes, out);
		if (r == HEAP_NO_MEMORY && middle && heap->tight)
			r = by(m, plan_small_grow, false, out);
		if (r == HEAP_NO_MEMORY && middle && m->hard && m->wait)
			r = by(m, plan_small_wait, true, out);
		if (r == HEAP_NO_MEMORY)
			r = by(m, plan_grow, m->wait, out);
	} while (r == HEAP_AGAIN);
	return r;
}

static int small_ways(const struct miss *m, struct block **out)
{
	/* Small memory is no reason to slow a stream down while there is other. */
	int r = by(m, plan_small_grow, false, out);
	if (r == HEAP_NO_MEMORY && m->wait && m->hard)
		do
			r = by(m, plan_small_wait, true, out);
		while (r == HEAP_AGAIN);
	return r;
}

/* All ways but waiting for the device. [grow] */
static int attempt(const struct miss *m, struct block **out)
{
	struct heap *heap = m->s->heap;
	bool middle = fit_is_middle(heap, m->bytes) && heap->tight;
	bool look = m->hard || atomic_load_explicit(&heap->reuse, memory_order_relaxed) & HEAP_REUSE_DONE;
	pthread_mutex_lock(&heap->lock);
	for (unsigned i = 0; i < SPACE_HOMES; i++)
		if (m->hard || ((i == m->space || middle) && (look || m->wait)))
			bin_drain_all(heap, i);
	pthread_mutex_unlock(&heap->lock);
	/* What is the stream's own must be over, too, before it can be unmapped. */
	if (look)
		mark_refresh(heap, m->hard ? NULL : m->s);
	if (m->hard)
		(void)view_evict(heap, UINT32_MAX);
	pthread_mutex_lock(&heap->lock);
	*out = now(heap, m->s, m->space, m->bytes, m->hard);
	pthread_mutex_unlock(&heap->lock);
	if (*out)
		return HEAP_OK;
	mark_forgive(heap);
	return m->space == SPACE_LARGE ? large_ways(m, out) : small_ways(m, out);
}

static int miss_grow(struct miss *m, struct block **out)
{
	struct heap *heap = m->s->heap;
	uint64_t end = 0;
	bool asked = !heap->to.pressure;
	heap->cramped = false;
	for (unsigned waits = 0;;) {
		int r = attempt(m, out);
		if (r != HEAP_NO_MEMORY)
			return r;
		if (!m->hard) {
			m->hard = true;
			end = clock_ns() + heap->tune.block_ns;
			continue;
		}
		/* Chunks of another shape than what is needed. */
		if (m->space == SPACE_SMALL && chunk_release(heap, heap->to.grain))
			continue;
		if (!asked) {
			asked = true;
			if (CALL(heap, pressure, m->bytes))
				continue;
		}
		/* What its own last use holds up: a chunk of another shape, and a view's addresses. */
		bool own = m->space == SPACE_SMALL || heap->cramped;
		/* Others may use up at once what each wait brings. */
		uint64_t at = clock_ns();
		if (at >= end || waits++ == WAITS || !mark_wait_most(heap, own ? NULL : m->s, end - at))
			return r;
	}
}

int miss_alloc(struct heap_stream *s, size_t bytes, struct block **out)
{
	struct heap *heap = s->heap;
	struct miss m = {.s = s, .bytes = bytes, .space = bytes < heap->tune.small ? SPACE_SMALL : SPACE_LARGE};
	m.wait = atomic_load_explicit(&heap->reuse, memory_order_relaxed) & HEAP_REUSE_WAIT;
	pthread_mutex_lock(&heap->lock);
	heap->misses++;
	*out = now(heap, s, m.space, bytes, false);
	pthread_mutex_unlock(&heap->lock);
	if (*out)
		return HEAP_OK;
	pthread_mutex_lock(&heap->grow);
	int r = atomic_load_explicit(&heap->dead, memory_order_relaxed) ? HEAP_INVALID : miss_grow(&m, out);
	pthread_mutex_unlock(&heap->grow);
	return r;
}

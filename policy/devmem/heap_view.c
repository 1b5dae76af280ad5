/*
 * heap_view.c - chunks mapped a second time, side by side.
 *
 * A view owns no memory: its block's bytes are claims in the home spaces. The mapping outlives
 * the block, so a program that comes back for the same size finds it and makes no call.
 */
#include <stdlib.h>

#include "heap_impl.h"

static void unlink_view(struct heap *heap, struct view *v)
{
	if (v->prev)
		v->prev->next = v->next;
	else if (heap->idle == v)
		heap->idle = v->next;
	else
		heap->busy = v->next;
	if (v->next)
		v->next->prev = v->prev;
	else if (heap->idle_last == v)
		heap->idle_last = v->prev;
	v->prev = v->next = NULL;
}

static void make_busy(struct heap *heap, struct view *v)
{
	v->prev = NULL;
	v->next = heap->busy;
	if (v->next)
		v->next->prev = v;
	heap->busy = v;
}

static void make_idle(struct heap *heap, struct view *v)
{
	v->next = NULL;
	v->prev = heap->idle_last;
	if (v->prev)
		v->prev->next = v;
	else
		heap->idle = v;
	heap->idle_last = v;
}

/* ---- used again ---- */

/* [va, va+bytes) is free for the stream; `wait`: or would be if it waited. */
static bool is_free(struct heap *heap, struct heap_stream *s, unsigned space, uint64_t va, size_t bytes,
					bool wait)
{
	uint64_t end = va + bytes;
	for (const struct block *b = space_block(heap, space, va); b && b->va < end; b = b->next)
		if (b->kind != BLOCK_FREE ||
			!(mark_usable(heap, s, b->owner, b->epoch) || (wait && mark_waitable(b->owner))))
			return false;
	return true;
}

/* The part of a piece that the view's first `bytes` take, `done` of them in pieces before it. */
static size_t part(const struct view *v, unsigned i, size_t done, size_t bytes, uint64_t *va)
{
	size_t skip = i ? 0 : v->skip, n = v->piece[i].bytes - skip;
	*va = v->piece[i].home + skip;
	return n < bytes - done ? n : bytes - done;
}

static bool can_claim(struct heap *heap, struct heap_stream *s, const struct view *v, size_t bytes, bool wait)
{
	uint64_t va;
	for (size_t done = 0, i = 0, n; done < bytes; done += n, i++) {
		n = part(v, (unsigned)i, done, bytes, &va);
		if (!is_free(heap, s, v->piece[i].space, va, n, wait))
			return false;
	}
	return true;
}

struct view *view_again(struct heap *heap, struct heap_stream *s, size_t bytes, bool wait)
{
	struct view *best = NULL;
	for (struct view *v = heap->idle_last; v; v = v->prev)
		if (v->bytes >= bytes && v->bytes / 2 <= bytes && (!best || v->bytes < best->bytes) &&
			can_claim(heap, s, v, bytes, wait))
			best = v;
	if (!best)
		return NULL;
	struct plan p = {.heap = heap};
	uint64_t va;
	for (size_t done = 0, i = 0, n; done < bytes; done += n, i++) {
		n = part(best, (unsigned)i, done, bytes, &va);
		if (!plan_claim(&p, best->piece[i].space, va, n)) {
			plan_undo(&p);
			return NULL;
		}
	}
	best->claims = p.claims;
	unlink_view(heap, best);
	make_busy(heap, best);
	return best;
}

void view_undo(struct heap *heap, struct view *v)
{
	struct plan p = {.heap = heap, .claims = v->claims};
	plan_undo(&p);
	v->claims = NULL;
	unlink_view(heap, v);
	make_idle(heap, v);
}

void view_rest(struct heap *heap, struct view *v, struct heap_stream *owner, uint64_t epoch)
{
	while (v->claims) {
		struct block *b = v->claims;
		v->claims = b->chain;
		b->chain = NULL;
		range_put(heap, b, BLOCK_FREE, owner, epoch);
	}
	v->owner = owner;
	v->epoch = epoch;
	unlink_view(heap, v);
	make_idle(heap, v);
}

void view_block(const struct view *v, struct block *record, size_t bytes)
{
	record->va = v->range->va + v->skip;
	record->bytes = bytes;
	record->kind = BLOCK_USED;
	record->space = SPACE_VIEWS;
	record->view = (struct view *)v;
}

/* ---- made ---- */

/* The chunks that the claim `b` lies in, as a piece of their own or as part of the last one. */
static void piece_add(struct heap *heap, struct view *v, const struct block *b, bool neighbour)
{
	const struct chunk *first = space_chunk(heap, b->space, b->va);
	const struct chunk *last = space_chunk(heap, b->space, b->va + b->bytes - 1);
	uint64_t end = last->home + last->bytes;
	if (!v->pieces)
		v->skip = b->va - first->home;
	if (neighbour)
		v->piece[v->pieces - 1].bytes = end - v->piece[v->pieces - 1].home;
	else
		v->piece[v->pieces++] = (struct piece){first->home, end - first->home, b->space};
}

/* The pieces that a chain of claims lies in; no addresses yet. */
static struct view *lay_out(struct heap *heap, struct block *chain, size_t *mapped)
{
	size_t n = 0;
	for (const struct block *b = chain; b; b = b->chain)
		n++;
	struct view *v = calloc(1, sizeof(*v) + n * sizeof(v->piece[0]));
	*mapped = 0;
	if (!v)
		return NULL;
	uint64_t end = 0;
	for (const struct block *b = chain; b; b = b->chain) {
		piece_add(heap, v, b, b->va == end);
		end = b->va + b->bytes;
	}
	for (unsigned i = 0; i < v->pieces; i++)
		*mapped += v->piece[i].bytes;
	v->bytes = *mapped - v->skip;
	/* A chunk whose end is the begin of the view may be its last one too, for its own begin. */
	const struct piece *last = &v->piece[v->pieces - 1];
	const struct chunk *c = space_chunk(heap, last->space, last->home + last->bytes - 1);
	if (v->pieces > 1 && c->home == v->piece[0].home)
		v->bytes -= c->bytes - v->skip;
	v->claims = chain;
	return v;
}

/* Addresses for a view, from views that nobody uses if need be. */
static struct block *addresses(struct heap *heap, size_t bytes)
{
	while (heap->views >= heap->tune.views && view_evict(heap, 1))
		;
	for (;;) {
		struct block *b = NULL;
		pthread_mutex_lock(&heap->lock);
		if (record_reserve(heap, 2))
			b = index_fit(&heap->none[SPACE_VIEWS], bytes);
		if (b)
			b = range_carve(heap, b, b->va, bytes);
		pthread_mutex_unlock(&heap->lock);
		if (b)
			return b;
		if (!view_evict(heap, 8)) {
			mark_refresh(heap, NULL);
			if (!view_evict(heap, 8)) {
				heap->cramped = true;
				return NULL;
			}
		}
	}
}

/* Unmaps the first `count` chunks; false: not all. */
static bool unmap(struct heap *heap, const struct view *v, size_t count)
{
	uint64_t va = v->range->va;
	bool ok = true;
	for (unsigned i = 0; i < v->pieces; i++) {
		const struct piece *p = &v->piece[i];
		for (size_t at = 0; at < p->bytes && count; count--) {
			size_t bytes = space_chunk(heap, p->space, p->home + at)->bytes;
			if (MAP_CALL(heap, unmap, va, bytes))
				ok = false;
			at += bytes;
			va += bytes;
		}
	}
	return ok;
}

static int map(struct heap *heap, const struct view *v, size_t *count)
{
	uint64_t va = v->range->va;
	for (unsigned i = 0; i < v->pieces; i++) {
		const struct piece *p = &v->piece[i];
		for (size_t at = 0; at < p->bytes; ++*count) {
			const struct chunk *c = space_chunk(heap, p->space, p->home + at);
			int r = MAP_CALL(heap, map, va, c->bytes, c->handle);
			if (r)
				return r;
			at += c->bytes;
			va += c->bytes;
		}
	}
	return MAP_CALL(heap, access, v->range->va, va - v->range->va);
}

/* The addresses of a view that is unmapped are none again. */
static void drop(struct heap *heap, struct view *v, bool unmapped)
{
	pthread_mutex_lock(&heap->lock);
	if (unmapped)
		range_put(heap, v->range, BLOCK_NONE, NULL, 0);
	else
		heap->lost += v->range->bytes;
	pthread_mutex_unlock(&heap->lock);
	free(v);
}

int view_make(struct heap *heap, struct block *chain, struct view **out)
{
	size_t bytes, count = 0;
	struct view *v = lay_out(heap, chain, &bytes);
	if (!v)
		return HEAP_NO_MEMORY;
	v->range = addresses(heap, bytes);
	if (!v->range) {
		free(v);
		return HEAP_NO_MEMORY;
	}
	int r = map(heap, v, &count);
	if (r) {
		drop(heap, v, unmap(heap, v, count));
		return r;
	}
	pthread_mutex_lock(&heap->lock);
	heap->views++;
	v->older = heap->newest;
	if (v->older)
		v->older->newer = v;
	heap->newest = v;
	heap->stitches++;
	make_busy(heap, v);
	pthread_mutex_unlock(&heap->lock);
	*out = v;
	return HEAP_OK;
}

/* ---- given up ---- */

/* Nobody can use it again. [grow+lock] */
static void take_out(struct heap *heap, struct view *v)
{
	unlink_view(heap, v);
	if (v->newer)
		v->newer->older = v->older;
	else
		heap->newest = v->older;
	if (v->older)
		v->older->newer = v->newer;
	heap->views--;
}

unsigned view_evict(struct heap *heap, unsigned n)
{
	unsigned gone = 0;
	for (; gone < n; gone++) {
		pthread_mutex_lock(&heap->lock);
		struct view *v = heap->idle;
		while (v && !mark_over(heap, v->owner, v->epoch))
			v = v->next;
		if (v)
			take_out(heap, v);
		pthread_mutex_unlock(&heap->lock);
		if (!v)
			break;
		drop(heap, v, unmap(heap, v, SIZE_MAX));
	}
	return gone;
}

/* Is one of its chunks doomed? `spare`: then it is no more. */
static bool on_doomed(struct heap *heap, const struct view *v, bool spare)
{
	bool found = false;
	for (unsigned i = 0; i < v->pieces; i++) {
		const struct piece *p = &v->piece[i];
		for (size_t at = 0; at < p->bytes;) {
			struct chunk *c = space_chunk(heap, p->space, p->home + at);
			found |= c->doomed;
			if (spare)
				c->doomed = false;
			at += c->bytes;
		}
	}
	return found;
}

void view_evict_doomed(struct heap *heap)
{
	struct view *out = NULL, *next;
	pthread_mutex_lock(&heap->lock);
	for (struct view *v = heap->busy; v; v = v->next)
		on_doomed(heap, v, true);
	for (struct view *v = heap->idle; v; v = next) {
		next = v->next;
		if (!on_doomed(heap, v, false))
			continue;
		if (mark_over(heap, v->owner, v->epoch)) {
			take_out(heap, v);
			v->next = out;
			out = v;
		} else {
			on_doomed(heap, v, true);
		}
	}
	pthread_mutex_unlock(&heap->lock);
	for (; out; out = next) {
		next = out->next;
		bool ok = unmap(heap, out, SIZE_MAX);
		if (!ok)
			on_doomed(heap, out, true);
		drop(heap, out, ok);
	}
}

int view_access_again(struct heap *heap)
{
	int r = HEAP_OK;
	for (struct view *v = heap->newest; v && !r; v = v->older)
		r = MAP_CALL(heap, access, v->range->va, v->range->bytes);
	return r;
}

void view_destroy_all(struct heap *heap)
{
	while (heap->idle || heap->busy) {
		struct view *v = heap->idle ? heap->idle : heap->busy;
		take_out(heap, v);
		if (!atomic_load_explicit(&heap->dead, memory_order_relaxed))
			(void)unmap(heap, v, SIZE_MAX);
		free(v);
	}
}

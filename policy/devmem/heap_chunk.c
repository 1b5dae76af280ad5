/*
 * heap_chunk.c - physical memory: made, mapped at its home, given back.
 *
 * All or nothing: when a call fails, what the calls before it did is undone. What cannot be
 * undone (the driver refuses to unmap or release) is never used again.
 */
#include <stdlib.h>

#include "clock.h"
#include "heap_impl.h"

#define SLICE_NS 10000000ull

/* The addresses of a claim are none again; `lost`: they are in no state to be used. */
static void put_none(struct heap *heap, struct block *b, bool lost)
{
	pthread_mutex_lock(&heap->lock);
	if (lost)
		heap->lost += b->bytes;
	else
		range_put(heap, b, BLOCK_NONE, NULL, 0);
	pthread_mutex_unlock(&heap->lock);
}

/* Unmapped and released; false: the addresses are lost, and with them the memory. */
static bool discard(struct heap *heap, struct chunk *c)
{
	bool ok = !MAP_CALL(heap, unmap, c->home, c->bytes);
	(void)MAP_CALL(heap, chunk_release, c->handle);
	return ok;
}

static size_t power_of_two(size_t n)
{
	return n ? (size_t)1 << (63 - __builtin_clzll(n)) : 0;
}

/* How large the chunks are that are made for a request. A block pins the chunks that it begins and ends in, so they
 * are not larger than the block once half of the memory is in use, and small where there is little memory. The
 * smallest blocks, which pin most, never have large ones. `tight`: from a quarter on, and where there is little,
 * other things are done for the sake of whole chunks. [grow] */
static size_t chunk_size(struct heap *heap, const struct block *none, size_t request, size_t largest,
						 bool *tight)
{
	size_t grain = heap->to.grain, device = heap->space[SPACE_LARGE].bytes / 2;
	if (largest <= grain || request < 2 * grain || none->bytes <= grain)
		return grain;
	size_t left = heap->to.available ? CALL(heap, available) : SIZE_MAX;
	if (left > device)
		left = device > heap->reserved ? device - heap->reserved : 0;
	size_t all = heap->reserved + left, most = power_of_two(all / heap->tune.chunks);
	size_t size = left > all / 2 ? largest : power_of_two(request);
	*tight = left <= all / 4 * 3 || most < largest;
	size = size < most ? size : most;
	size = size < largest ? size : largest;
	return size > grain ? size : grain;
}

/* Chunks of at most `largest` for the addresses of `b`, which meet at its multiples from `base` on. */
static struct chunk **lay_out(const struct block *b, uint64_t base, size_t largest, size_t *count)
{
	uint64_t end = b->va + b->bytes;
	struct chunk **c = calloc(b->bytes / largest + 2, sizeof(*c));
	size_t n = 0;
	for (uint64_t at = b->va; c && at < end; n++) {
		uint64_t to = end - at <= largest ? end : base + ((at - base) / largest + 1) * largest;
		c[n] = calloc(1, sizeof(**c));
		if (!c[n]) {
			while (n-- > 0)
				free(c[n]);
			free(c);
			return NULL;
		}
		c[n]->home = at;
		c[n]->bytes = to - at;
		c[n]->space = b->space;
		at = to;
	}
	*count = n;
	return c;
}

/* Memory behind all the addresses of `b`, or behind none. */
static int make(struct heap *heap, const struct block *b, struct chunk **c, size_t n, bool *lost)
{
	size_t i = 0;
	int r = HEAP_OK;
	for (; i < n; i++) {
		r = MAP_CALL(heap, chunk_create, c[i]->bytes, &c[i]->handle);
		if (r)
			break;
		r = MAP_CALL(heap, map, c[i]->home, c[i]->bytes, c[i]->handle);
		if (r) {
			(void)MAP_CALL(heap, chunk_release, c[i]->handle);
			break;
		}
	}
	if (!r)
		r = MAP_CALL(heap, access, b->va, b->bytes);
	if (r)
		while (i-- > 0)
			if (!discard(heap, c[i]))
				*lost = true;
	return r;
}

int chunk_grow(struct heap *heap, struct block *none, uint64_t begin, size_t request, size_t largest)
{
	size_t n = 0;
	uint64_t base = heap->space[none->space].base;
	bool lost = false, tight = heap->tight;
	largest = chunk_size(heap, none, request, largest, &tight);
	/* Blocks of whole chunks that come one behind the other begin and end with a chunk each. */
	if (tight && (begin - base) % heap->to.grain == 0 && request % largest == 0)
		base = begin - (begin - base) / largest * largest;
	struct chunk **c = lay_out(none, base, largest, &n);
	int r = HEAP_NO_MEMORY;
	pthread_mutex_lock(&heap->lock);
	heap->tight = tight;
	bool leaves = c && space_leaves(heap, none->space, none->va, none->bytes);
	pthread_mutex_unlock(&heap->lock);
	if (leaves)
		r = make(heap, none, c, n, &lost);
	if (r) {
		for (size_t i = 0; c && i < n; i++)
			free(c[i]);
		free(c);
		put_none(heap, none, lost);
		return r;
	}
	pthread_mutex_lock(&heap->lock);
	struct space *s = &heap->space[none->space];
	for (size_t i = 0; i < n; i++) {
		c[i]->cover = none;
		for (size_t at = 0; at < c[i]->bytes; at += heap->to.grain)
			s->chunk[(c[i]->home + at - s->base) / heap->to.grain] = c[i];
	}
	heap->chunks += n;
	heap->reserved += none->bytes;
	if (heap->reserved > heap->reserved_high)
		heap->reserved_high = heap->reserved;
	use_tune(heap);
	if (none->va + none->bytes > s->top)
		s->top = none->va + none->bytes;
	none->owner = NULL;
	none->epoch = 0;
	pthread_mutex_unlock(&heap->lock);
	free(c);
	return HEAP_OK;
}

/* All of it is free and over. [lock] */
static bool idle(struct heap *heap, const struct chunk *c)
{
	uint64_t end = c->home + c->bytes;
	for (const struct block *b = c->cover; b && b->va < end; b = b->next)
		if (b->kind != BLOCK_FREE || !mark_over(heap, b->owner, b->epoch))
			return false;
	return true;
}

/* Takes the addresses of a chunk that is idle out of the free blocks. [lock] */
static struct block *take(struct heap *heap, struct chunk *c)
{
	struct block *whole = NULL;
	uint64_t at = c->home, end = c->home + c->bytes;
	if (!record_reserve(heap, 4))
		return NULL;
	while (at < end) {
		struct block *b = space_block(heap, c->space, at);
		uint64_t to = b->va + b->bytes < end ? b->va + b->bytes : end;
		b = range_carve(heap, b, at, to - at);
		b->owner = NULL;
		b->epoch = 0;
		whole = whole ? range_join(heap, whole, b) : b;
		at = to;
	}
	return whole;
}

/* The chunk with the highest address below `below` that is idle, so that the heap shrinks from its end;
 * the large space first. [lock] */
static struct chunk *last_idle(struct heap *heap, unsigned *space, uint64_t *below)
{
	for (; *space < SPACE_HOMES; ++*space, *below = UINT64_MAX) {
		struct space *s = &heap->space[*space];
		for (uint64_t at = *below < s->top ? *below : s->top; at > s->base;) {
			struct chunk *c = space_chunk(heap, *space, at - heap->to.grain);
			at = c ? c->home : at - heap->to.grain;
			*below = at;
			if (c && idle(heap, c))
				return c;
		}
	}
	return NULL;
}

static bool give_back(struct heap *heap, struct chunk *c)
{
	pthread_mutex_lock(&heap->lock);
	/* Somebody may have taken it since it was chosen. */
	struct block *b = idle(heap, c) ? take(heap, c) : NULL;
	pthread_mutex_unlock(&heap->lock);
	if (!b)
		return false;
	if (MAP_CALL(heap, unmap, c->home, c->bytes)) {
		pthread_mutex_lock(&heap->lock);
		range_put(heap, b, BLOCK_FREE, NULL, 0);
		pthread_mutex_unlock(&heap->lock);
		return false;
	}
	/* Unmapped: whether the release is refused or not, it is no memory of ours any more. */
	(void)MAP_CALL(heap, chunk_release, c->handle);
	pthread_mutex_lock(&heap->lock);
	struct space *s = &heap->space[c->space];
	for (size_t at = 0; at < c->bytes; at += heap->to.grain)
		s->chunk[(c->home + at - s->base) / heap->to.grain] = NULL;
	heap->reserved -= c->bytes;
	heap->chunks--;
	heap->trims++;
	range_put(heap, b, BLOCK_NONE, NULL, 0);
	use_tune(heap);
	pthread_mutex_unlock(&heap->lock);
	return true;
}

size_t chunk_release(struct heap *heap, size_t want)
{
	size_t chosen = 0, given = 0, n = 0, room;
	pthread_mutex_lock(&heap->lock);
	room = heap->chunks;
	struct chunk **list = room ? malloc(room * sizeof(*list)) : NULL;
	unsigned space = SPACE_LARGE;
	uint64_t below = UINT64_MAX;
	while (list && chosen < want && n < room) {
		struct chunk *c = last_idle(heap, &space, &below);
		if (!c)
			break;
		c->doomed = true;
		chosen += c->bytes;
		list[n++] = c;
	}
	pthread_mutex_unlock(&heap->lock);
	if (n)
		view_evict_doomed(heap);
	for (size_t i = 0; i < n; i++) {
		struct chunk *c = list[i];
		size_t bytes = c->bytes;
		/* A view that is still there could not be unmapped. */
		if (c->doomed && given < want && give_back(heap, c)) {
			given += bytes;
			free(c);
		} else {
			c->doomed = false;
		}
	}
	free(list);
	return given;
}

/* Gives back what is over, until at most `keep` bytes are reserved. [grow] */
static size_t trim_now(struct heap *heap, size_t keep)
{
	if (atomic_load_explicit(&heap->dead, memory_order_relaxed))
		return 0;
	pthread_mutex_lock(&heap->lock);
	bool more = heap->reserved > keep;
	for (unsigned i = 0; more && i < SPACE_HOMES; i++)
		bin_drain_all(heap, i);
	pthread_mutex_unlock(&heap->lock);
	if (!more)
		return 0;
	mark_refresh(heap, NULL);
	pthread_mutex_lock(&heap->lock);
	size_t want = heap->reserved > keep ? heap->reserved - keep : 0;
	pthread_mutex_unlock(&heap->lock);
	return chunk_release(heap, want);
}

/* The same, and waits at most `ns` for streams until `enough` is given back or no more reserved than `keep`. The
 * mark that trim_now() records on an idle stream passes a little later. [grow] */
static size_t trim(struct heap *heap, size_t keep, size_t enough, uint64_t ns)
{
	uint64_t end = clock_ns() + ns, now;
	size_t given = trim_now(heap, keep);
	/* Under grow nobody else makes memory: `reserved` is read without the lock. */
	while (given < enough && heap->reserved > keep && (now = clock_ns()) < end) {
		/* Not to the end for one stream, when another may have finished. */
		if (!mark_wait_most(heap, NULL, end - now < SLICE_NS ? end - now : SLICE_NS))
			break;
		given += trim_now(heap, keep);
	}
	return given;
}

size_t heap_trim(struct heap *heap, size_t keep, uint64_t ns)
{
	pthread_mutex_lock(&heap->grow);
	size_t given = trim(heap, keep, SIZE_MAX, ns);
	pthread_mutex_unlock(&heap->grow);
	return given;
}

size_t heap_make_room(struct heap *heap)
{
	pthread_mutex_lock(&heap->grow);
	size_t given = trim(heap, 0, SIZE_MAX, HEAP_TRIM_NS);
	if (!given)
		given = trim(heap, 0, 1, heap->tune.block_ns);
	pthread_mutex_unlock(&heap->grow);
	return given;
}

int heap_access_again(struct heap *heap)
{
	int r = HEAP_OK;
	pthread_mutex_lock(&heap->grow);
	bool dead = atomic_load_explicit(&heap->dead, memory_order_relaxed);
	for (unsigned i = 0; i < SPACE_HOMES && !r && !dead; i++) {
		struct space *s = &heap->space[i];
		for (uint64_t at = s->base; at < s->top && !r;) {
			uint64_t begin = at;
			for (struct chunk *c; at < s->top && (c = space_chunk(heap, i, at));)
				at = c->home + c->bytes;
			if (at > begin)
				r = MAP_CALL(heap, access, begin, at - begin);
			else
				at += heap->to.grain;
		}
	}
	if (!r && !dead)
		r = view_access_again(heap);
	pthread_mutex_unlock(&heap->grow);
	return r;
}

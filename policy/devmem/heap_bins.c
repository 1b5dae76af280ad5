/*
 * heap_bins.c - free blocks of one stream, by exact size, in front of the heap.
 *
 * They are not one with their neighbours: a request that they cannot serve sends them back
 * first, so they never make the heap grow.
 */
#include "heap_impl.h"

static unsigned group_of(size_t bytes)
{
	return (unsigned)((bytes / HEAP_UNIT * 0x9E3779B97F4A7C15ull) >> 57) % BIN_GROUPS;
}

static unsigned home_of(const struct heap_stream *s, const struct block *b)
{
	(void)s;
	return b->space == SPACE_SMALL ? SPACE_SMALL : SPACE_LARGE;
}

struct block *bin_pop(struct heap_stream *s, size_t bytes)
{
	struct bin *bin = s->bin[group_of(bytes)];
	for (unsigned i = 0; i < BIN_WAYS; i++)
		if (bin[i].bytes == bytes && bin[i].head) {
			struct block *b = bin[i].head;
			bin[i].head = b->chain;
			s->binned[home_of(s, b)]--;
			s->binned_bytes -= bytes;
			return b;
		}
	return NULL;
}

/* Takes a bin's blocks out, in front of `chain`. */
static struct block *empty(struct heap_stream *s, struct bin *bin, struct block *chain)
{
	while (bin->head) {
		struct block *b = bin->head;
		bin->head = b->chain;
		b->chain = chain;
		chain = b;
		s->binned[home_of(s, b)]--;
		s->binned_bytes -= b->bytes;
	}
	return chain;
}

/* A quarter of the groups, another one each time. */
static struct block *make_room(struct heap_stream *s)
{
	struct block *chain = NULL;
	for (unsigned n = 0; n < BIN_GROUPS / 4; n++, s->victim++)
		for (unsigned i = 0; i < BIN_WAYS; i++)
			chain = empty(s, &s->bin[s->victim % BIN_GROUPS][i], chain);
	return chain;
}

struct block *bin_push(struct heap_stream *s, struct block *b)
{
	unsigned group = group_of(b->bytes);
	struct bin *bin = s->bin[group], *to = NULL;
	struct block *chain = NULL;
	for (unsigned i = 0; i < BIN_WAYS; i++)
		if (bin[i].bytes == b->bytes) {
			to = &bin[i];
			break;
		} else if (!bin[i].head && !to) {
			to = &bin[i];
		}
	if (!to) {
		to = &bin[s->victim++ % BIN_WAYS];
		chain = empty(s, to, NULL);
	}
	to->bytes = b->bytes;
	b->chain = to->head;
	to->head = b;
	s->groups[group / 64] |= 1ull << group % 64;
	s->binned[home_of(s, b)]++;
	s->binned_bytes += b->bytes;
	if (s->binned[SPACE_LARGE] + s->binned[SPACE_SMALL] > s->heap->tune.bins && !chain)
		chain = make_room(s);
	return chain;
}

/* Takes out what belongs to a space. [stream.lock] */
static struct block *take_all(struct heap_stream *s, unsigned space)
{
	struct block *chain = NULL;
	for (unsigned w = 0; w < BIN_GROUPS / 64; w++)
		for (uint64_t bits = s->groups[w]; bits; bits &= bits - 1) {
			unsigned group = w * 64 + (unsigned)__builtin_ctzll(bits);
			bool left = false;
			for (unsigned i = 0; i < BIN_WAYS; i++) {
				struct bin *bin = &s->bin[group][i];
				if (bin->head && home_of(s, bin->head) == space)
					chain = empty(s, bin, chain);
				left |= bin->head != NULL;
			}
			if (!left)
				s->groups[w] &= ~(1ull << group % 64);
		}
	return chain;
}

void bin_dissolve(struct heap *heap, struct heap_stream *s, struct block *chain)
{
	while (chain) {
		struct block *b = chain;
		chain = b->chain;
		b->chain = NULL;
		/* Nobody else can have it: it was in a bin. A late free of it finds no LIVE key. */
		atomic_store_explicit(&b->key, 0, memory_order_relaxed);
		struct space *space = space_of(heap, b->va);
		atomic_store_explicit(space_slot(heap, space, b->va), NULL, memory_order_relaxed);
		heap->out -= b->bytes;
		/* Over since: what lies in a stream's index is not, which absorb() relies on. */
		struct heap_stream *owner = mark_over(heap, s, b->epoch) ? NULL : s;
		if (b->view) {
			view_rest(heap, b->view, owner, b->epoch);
			record_put(heap, b);
		} else {
			range_put(heap, b, BLOCK_FREE, owner, b->epoch);
		}
	}
}

void bin_drain(struct heap_stream *s, unsigned space)
{
	pthread_mutex_lock(&s->lock);
	struct block *chain = s->binned[space] ? take_all(s, space) : NULL;
	pthread_mutex_unlock(&s->lock);
	bin_dissolve(s->heap, s, chain);
}

void bin_drain_all(struct heap *heap, unsigned space)
{
	for (struct heap_stream *s = heap->streams; s; s = s->next)
		bin_drain(s, space);
}

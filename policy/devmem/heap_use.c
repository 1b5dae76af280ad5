/*
 * heap_use.c - how much the program holds, without a counter that all threads write.
 *
 * heap.live counts what the program holds and each stream's credit: bytes that a free gave
 * back and the next allocation takes again without touching the shared counter. The high
 * mark is that of heap.live, so it is exact while no credit is left standing, which is so
 * with up to EXACT streams. Beyond, a stream that frees and allocates one block in turn keeps that block's
 * bytes, if they are not too many, and all streams together twice `slack`.
 */
#include "heap_impl.h"

#define EXACT 6
#define ONE_BLOCK ((size_t)64 << 20)
#define SLACK_MIN ((size_t)2 << 20)

void use_tune(struct heap *heap)
{
	size_t slack = 0;
	if (heap->stream_count > EXACT) {
		slack = heap->reserved / 256 > SLACK_MIN ? heap->reserved / 256 : SLACK_MIN;
		slack /= heap->stream_count;
	}
	atomic_store_explicit(&heap->slack, slack, memory_order_relaxed);
}

static void raise_high(struct heap *heap, size_t now)
{
	size_t high = atomic_load_explicit(&heap->live_high, memory_order_relaxed);
	while (now > high && !atomic_compare_exchange_weak_explicit(&heap->live_high, &high, now,
																memory_order_relaxed, memory_order_relaxed))
		;
}

void use_more(struct heap *heap, struct heap_stream *s, size_t bytes)
{
	if (s->credit < bytes) {
		size_t more = bytes - s->credit + atomic_load_explicit(&heap->slack, memory_order_relaxed);
		size_t now = atomic_fetch_add_explicit(&heap->live, more, memory_order_relaxed) + more;
		s->credit += more;
		raise_high(heap, now);
	}
	s->credit -= bytes;
}

void use_less(struct heap *heap, struct heap_stream *s, size_t bytes)
{
	size_t slack = atomic_load_explicit(&heap->slack, memory_order_relaxed);
	s->credit += bytes;
	size_t limit = slack ? 2 * slack + (bytes < ONE_BLOCK ? bytes : ONE_BLOCK) : 0;
	if (s->credit > limit) {
		atomic_fetch_sub_explicit(&heap->live, s->credit - slack, memory_order_relaxed);
		s->credit = slack;
	}
}

void heap_usage(struct heap *heap, struct heap_usage *out)
{
	size_t credit = 0;
	pthread_mutex_lock(&heap->lock);
	*out = (struct heap_usage){
		.reserved = heap->reserved,
		.reserved_high = heap->reserved_high,
		.views = heap->views,
		.chunks = heap->chunks,
		.misses = heap->misses,
		.steals = heap->steals,
		.waits = heap->waits,
		.stitches = heap->stitches,
		.view_hits = heap->view_hits,
		.trims = heap->trims,
		.blocks = heap->blocks,
		.driver_calls = atomic_load_explicit(&heap->calls, memory_order_relaxed),
		.map_calls = atomic_load_explicit(&heap->map_calls, memory_order_relaxed),
		.hits = heap->hits,
	};
	for (struct heap_stream *s = heap->streams; s; s = s->next) {
		pthread_mutex_lock(&s->lock);
		credit += s->credit;
		out->binned += s->binned_bytes;
		out->hits += s->hits;
		pthread_mutex_unlock(&s->lock);
	}
	pthread_mutex_unlock(&heap->lock);
	/* Other threads go on meanwhile: never a difference below nothing. */
	size_t live = atomic_load_explicit(&heap->live, memory_order_relaxed);
	size_t high = atomic_load_explicit(&heap->live_high, memory_order_relaxed);
	out->live = live > credit ? live - credit : 0;
	out->live_high = high > out->live ? high : out->live;
}

void heap_usage_reset_high(struct heap *heap, bool live, bool reserved)
{
	pthread_mutex_lock(&heap->lock);
	/* Credit that is spent later would be a rise that nobody sees. */
	for (struct heap_stream *s = heap->streams; live && s; s = s->next) {
		pthread_mutex_lock(&s->lock);
		atomic_fetch_sub_explicit(&heap->live, s->credit, memory_order_relaxed);
		s->credit = 0;
		pthread_mutex_unlock(&s->lock);
	}
	if (live)
		atomic_store_explicit(&heap->live_high, atomic_load_explicit(&heap->live, memory_order_relaxed),
							  memory_order_relaxed);
	if (reserved)
		heap->reserved_high = heap->reserved;
	pthread_mutex_unlock(&heap->lock);
}

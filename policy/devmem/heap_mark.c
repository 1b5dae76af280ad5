/*
 * heap_mark.c - when memory that another stream freed is free for this one.
 *
 * Time is heap.epoch, which rises with each mark. A free block carries the epoch of its free; a
 * mark recorded after the epoch rose past that covers it, since the program had queued
 * its last use before it freed the block. So a mark is recorded only when somebody is short of memory,
 * and a stream that nobody steals from never has one.
 */
#include <stdlib.h>

#include "heap_impl.h"

bool mark_over(const struct heap *heap, const struct heap_stream *owner, uint64_t epoch)
{
	return !owner || epoch <= owner->done || epoch <= heap->sync_done;
}

bool mark_usable(const struct heap *heap, const struct heap_stream *s, const struct heap_stream *owner,
				 uint64_t epoch)
{
	if (owner == s || mark_over(heap, owner, epoch))
		return true;
	/* A stream that is opened later at the address of one that is gone frees at later epochs. */
	for (unsigned i = 0; s && i < SEEN; i++)
		if (s->seen[i].stream == owner && epoch <= s->seen[i].epoch)
			return true;
	return false;
}

bool mark_waitable(const struct heap_stream *owner)
{
	return !owner->refuses && (!owner->closed || owner->mark_count);
}

void mark_forgive(struct heap *heap)
{
	pthread_mutex_lock(&heap->lock);
	for (struct heap_stream *s = heap->streams; s; s = s->next)
		s->refuses = false;
	pthread_mutex_unlock(&heap->lock);
}

/* What is over becomes everybody's. [lock] */
static void absorb(struct heap *heap, struct heap_stream *s)
{
	uint64_t done = s->done > heap->sync_done ? s->done : heap->sync_done;
	if (s->absorbed >= done && !s->closed)
		return;
	s->absorbed = done;
	for (unsigned space = 0; space < SPACE_HOMES; space++) {
		struct block *b = index_next(&s->index[space], NULL, HEAP_UNIT), *next;
		for (; b; b = next) {
			next = index_next(&s->index[space], b, HEAP_UNIT);
			if (b->epoch <= done) {
				index_remove(&s->index[space], b);
				range_put(heap, b, BLOCK_FREE, NULL, 0);
			}
		}
	}
}

/* Forgets mark `i` and those before it, which had to pass first. [grow] */
static void forget(struct heap *heap, struct heap_stream *s, unsigned i)
{
	unsigned left = 0;
	for (unsigned k = 0; k < s->mark_count; k++)
		if (k > i || s->marks[k].pins)
			s->marks[left++] = s->marks[k];
		else
			CALL(heap, mark_drop, s->marks[k].mark);
	s->mark_count = left;
}

/* Is anything past? Newest first: it stands for all before it. [grow] */
static void poll(struct heap *heap, struct heap_stream *s)
{
	pthread_mutex_lock(&heap->lock);
	uint64_t sync_done = heap->sync_done > s->done ? heap->sync_done : s->done;
	pthread_mutex_unlock(&heap->lock);
	for (unsigned i = s->mark_count; i-- > 0;) {
		bool done = s->marks[i].epoch <= sync_done;
		if (!done && CALL(heap, mark_done, s->marks[i].mark, &done))
			done = false;
		if (!done)
			continue;
		uint64_t epoch = s->marks[i].epoch;
		forget(heap, s, i);
		pthread_mutex_lock(&heap->lock);
		if (epoch > s->done)
			s->done = epoch;
		pthread_mutex_unlock(&heap->lock);
		return;
	}
}

/* A mark that covers all that was freed so far. [grow] */
static int record(struct heap *heap, struct heap_stream *s)
{
	struct mark m = {0};
	pthread_mutex_lock(&heap->lock);
	m.epoch = heap->epoch++;
	pthread_mutex_unlock(&heap->lock);
	int r = CALL(heap, mark, s->stream, &m.mark);
	if (r)
		return r;
	if (s->mark_count == MARKS) {
		/* Too many to keep: the new one stands for the one before it as well. */
		unsigned i = MARKS;
		while (i-- > 0 && s->marks[i].pins)
			;
		if (i < MARKS) {
			CALL(heap, mark_drop, s->marks[i].mark);
			for (; i + 1 < MARKS; i++)
				s->marks[i] = s->marks[i + 1];
			s->mark_count--;
		} else {
			CALL(heap, mark_drop, m.mark);
			return HEAP_INVALID;
		}
	}
	s->marks[s->mark_count++] = m;
	return HEAP_OK;
}

void mark_last(struct heap *heap, struct heap_stream *s)
{
	if (s->freed && !mark_over(heap, s, s->freed))
		(void)record(heap, s);
}

/* A closed stream whose work is over is gone. [grow+lock] */
static void bury(struct heap *heap, struct heap_stream *s)
{
	for (struct view *v = heap->idle; v; v = v->next)
		if (v->owner == s)
			v->owner = NULL;
	if (s->prev)
		s->prev->next = s->next;
	else
		heap->streams = s->next;
	if (s->next)
		s->next->prev = s->prev;
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* One stream; returns the next. `wants`: a mark may be recorded. [grow] */
static struct heap_stream *look(struct heap *heap, struct heap_stream *t, bool wants)
{
	pthread_mutex_lock(&heap->lock);
	uint64_t last = t->mark_count ? t->marks[t->mark_count - 1].epoch : t->done;
	wants &= !t->closed && t->freed > last && !mark_over(heap, t, t->freed);
	pthread_mutex_unlock(&heap->lock);
	/* It stays in the list: only holders of grow take streams out. */
	if (wants)
		(void)record(heap, t);
	poll(heap, t);
	pthread_mutex_lock(&heap->lock);
	struct heap_stream *next = t->next;
	absorb(heap, t);
	if (t->closed && !t->mark_count && mark_over(heap, t, t->freed))
		bury(heap, t);
	pthread_mutex_unlock(&heap->lock);
	return next;
}

void mark_refresh(struct heap *heap, struct heap_stream *s)
{
	pthread_mutex_lock(&heap->lock);
	struct heap_stream *t = heap->streams;
	while (t) {
		bool holds = !s || t->closed || t->index[SPACE_LARGE].bytes || t->index[SPACE_SMALL].bytes;
		if (t == s || !holds) {
			t = t->next;
			continue;
		}
		pthread_mutex_unlock(&heap->lock);
		t = look(heap, t, true);
		pthread_mutex_lock(&heap->lock);
	}
	pthread_mutex_unlock(&heap->lock);
}

void mark_refresh_closed(struct heap *heap)
{
	pthread_mutex_lock(&heap->lock);
	struct heap_stream *t = heap->streams;
	pthread_mutex_unlock(&heap->lock);
	while (t)
		t = t->closed ? look(heap, t, false) : t->next;
}

static int wait_for(struct heap *heap, struct heap_stream *s, struct heap_stream *owner, struct mark *m)
{
	int r = CALL(heap, mark_wait, s->stream, m->mark);
	if (r)
		return r;
	pthread_mutex_lock(&heap->lock);
	heap->waits++;
	unsigned i = 0;
	while (i < SEEN && s->seen[i].stream != owner)
		i++;
	if (i == SEEN)
		i = s->seen_next++ % SEEN;
	if (s->seen[i].stream != owner || s->seen[i].epoch < m->epoch)
		s->seen[i].epoch = m->epoch;
	s->seen[i].stream = owner;
	pthread_mutex_unlock(&heap->lock);
	return HEAP_OK;
}

/* The oldest mark that covers `epoch`, recorded now if need be; NULL: there is none. [grow] */
static struct mark *covering(struct heap *heap, struct heap_stream *owner, uint64_t epoch)
{
	for (unsigned i = 0; i < owner->mark_count; i++)
		if (owner->marks[i].epoch >= epoch)
			return &owner->marks[i];
	if (owner->closed || record(heap, owner))
		return NULL;
	return &owner->marks[owner->mark_count - 1];
}

bool mark_order(struct heap *heap, struct heap_stream *s, struct heap_stream *owner, uint64_t epoch)
{
	pthread_mutex_lock(&heap->lock);
	bool ok = mark_usable(heap, s, owner, epoch);
	pthread_mutex_unlock(&heap->lock);
	if (ok)
		return true;
	struct mark *m = covering(heap, owner, epoch);
	ok = m && !wait_for(heap, s, owner, m);
	pthread_mutex_lock(&heap->lock);
	owner->refuses = !ok;
	pthread_mutex_unlock(&heap->lock);
	return ok;
}

/* The stream with most free bytes that are not over yet; with `s` NULL one without any, but views, is one, too.
 * [lock] */
static struct heap_stream *most(struct heap *heap, const struct heap_stream *s)
{
	struct heap_stream *best = NULL;
	size_t bytes = 0;
	for (struct heap_stream *t = heap->streams; t; t = t->next) {
		size_t n = t->index[SPACE_LARGE].bytes + t->index[SPACE_SMALL].bytes + !s;
		if (t != s && t->mark_count && n > bytes) {
			best = t;
			bytes = n;
		}
	}
	return best;
}

bool mark_wait_most(struct heap *heap, struct heap_stream *s, uint64_t ns)
{
	pthread_mutex_lock(&heap->lock);
	struct heap_stream *t = most(heap, s);
	heap->blocks += t != NULL;
	pthread_mutex_unlock(&heap->lock);
	if (!t)
		return false;
	struct mark *m = &t->marks[t->mark_count - 1];
	void *mark = m->mark;
	m->pins++;
	pthread_mutex_unlock(&heap->grow);
	int r = CALL(heap, mark_block, mark, ns);
	pthread_mutex_lock(&heap->grow);
	/* Other marks may have come and gone; this one was pinned, and so was its stream. */
	for (unsigned i = 0; i < t->mark_count; i++)
		if (t->marks[i].mark == mark)
			t->marks[i].pins--;
	return r == HEAP_OK;
}

/* heap_fake_streams.c - streams of the fake device: marks, and what the program does on them. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "heap_fake_impl.h"

void fake_run_to(struct fake *f, struct fake_stream *s, uint32_t at)
{
	if (at <= s->over)
		return;
	while (s->waits && s->waits->at < at) {
		struct fake_wait *w = s->waits;
		s->waits = w->next;
		fake_run_to(f, &f->stream[w->stream], w->until);
		free(w);
	}
	s->over = at;
}

void fake_after(struct fake_stream *s, const uint32_t *after, unsigned stream, uint32_t until)
{
	struct fake_wait *w = calloc(1, sizeof(*w)), **at = &s->waits;
	/* A wait is work too: a mark behind it does not pass before it. */
	*w = (struct fake_wait){NULL, s->queued++, stream, until};
	while (*at)
		at = &(*at)->next;
	*at = w;
	for (unsigned i = 0; i < FAKE_STREAMS; i++)
		if (after[i] > s->after[i])
			s->after[i] = after[i];
	if (until > s->after[stream])
		s->after[stream] = until;
}

static int do_mark(void *arg, void *stream, void **mark)
{
	ENTER;
	struct fake_stream *s = stream;
	fake_must(s->open, "mark: on a stream that is gone");
	if (s->capturing)
		r = HEAP_INVALID;
	if (!r) {
		struct fake_mark *m = calloc(1, sizeof(*m));
		m->stream = s->number;
		m->at = s->queued;
		memcpy(m->after, s->after, sizeof(m->after));
		*mark = m;
		f->marks++;
		f->marks_open++;
		f->us += 0.4;
	}
	LEAVE;
}

static int do_mark_done(void *arg, void *mark, bool *done)
{
	ENTER;
	struct fake_mark *m = mark;
	if (!r)
		*done = f->stream[m->stream].over >= m->at;
	f->us += 0.2;
	LEAVE;
}

static int do_mark_wait(void *arg, void *stream, void *mark)
{
	ENTER;
	struct fake_mark *m = mark;
	struct fake_stream *s = stream;
	fake_must(s->open, "wait: by a stream that is gone");
	if (!r) {
		fake_after(s, m->after, m->stream, m->at);
		f->waits++;
		f->us += 0.15;
	}
	LEAVE;
}

static int do_mark_block(void *arg, void *mark, uint64_t ns)
{
	ENTER;
	struct fake_mark *m = mark;
	bool busy = f->busy && !r;
	if (f->frozen && !r)
		r = HEAP_INVALID;
	if (!r && !busy)
		fake_run_to(f, &f->stream[m->stream], m->at);
	f->blocks++;
	if (busy) {
		f->waited_ns += ns;
		pthread_mutex_unlock(&f->lock);
		nanosleep(&(struct timespec){0, (long)ns}, NULL);
		return r;
	}
	LEAVE;
}

static void do_mark_drop(void *arg, void *mark)
{
	struct fake *f = arg;
	fake_look(f);
	pthread_mutex_lock(&f->lock);
	f->marks_open--;
	free(mark);
	pthread_mutex_unlock(&f->lock);
}

void fake_marks(struct heap_backend *backend)
{
	backend->mark = do_mark;
	backend->mark_done = do_mark_done;
	backend->mark_wait = do_mark_wait;
	backend->mark_block = do_mark_block;
	backend->mark_drop = do_mark_drop;
}

/* ---- the program's side ---- */

struct fake_stream *fake_stream_open(struct fake *f)
{
	pthread_mutex_lock(&f->lock);
	unsigned i = 0;
	while (i < FAKE_STREAMS && f->stream[i].open)
		i++;
	fake_must(i < FAKE_STREAMS, "too many streams for the test");
	f->stream[i].open = true;
	f->stream[i].number = i;
	pthread_mutex_unlock(&f->lock);
	return &f->stream[i];
}

void fake_stream_close(struct fake *f, struct fake_stream *s)
{
	pthread_mutex_lock(&f->lock);
	s->open = false;
	pthread_mutex_unlock(&f->lock);
}

static void each_unit(struct fake *f, struct fake_stream *s, uint64_t va, size_t bytes, bool take)
{
	for (uint64_t at = va; at < va + bytes;) {
		struct fake_map *m = *fake_page(f, at);
		fake_must(m && m->access, "a block where nothing is mapped");
		uint64_t end = m->va + m->chunk->bytes;
		if (end > va + bytes)
			end = va + bytes;
		for (; at < end; at += UNIT) {
			struct unit *u = &m->chunk->unit[(at - m->va) / UNIT];
			fake_must(u->used != take, take ? "memory that somebody has is handed out" : "not in use");
			fake_must(!take || u->stream == s->number || u->at <= f->stream[u->stream].over ||
						  u->at <= s->after[u->stream],
					  "memory is handed out before its last use is ordered before the new one");
			u->used = take;
			u->stream = (uint16_t)s->number;
			u->at = s->queued;
			m->used += take ? 1 : (size_t)-1;
		}
		m->last[s->number] = s->queued;
	}
}

void fake_take(struct fake *f, struct fake_stream *s, uint64_t va, size_t bytes)
{
	pthread_mutex_lock(&f->lock);
	s->queued++;
	if (!f->loose)
		each_unit(f, s, va, bytes, true);
	pthread_mutex_unlock(&f->lock);
}

void fake_give(struct fake *f, struct fake_stream *s, uint64_t va, size_t bytes)
{
	pthread_mutex_lock(&f->lock);
	s->queued++;
	if (!f->loose)
		each_unit(f, s, va, bytes, false);
	pthread_mutex_unlock(&f->lock);
}

void fake_order(struct fake *f, struct fake_stream *s, struct fake_stream *t)
{
	pthread_mutex_lock(&f->lock);
	if (s != t)
		fake_after(s, t->after, t->number, t->queued);
	pthread_mutex_unlock(&f->lock);
}

void fake_run(struct fake *f, struct fake_stream *s, uint32_t work)
{
	pthread_mutex_lock(&f->lock);
	fake_run_to(f, s, work < s->queued - s->over ? s->over + work : s->queued);
	pthread_mutex_unlock(&f->lock);
}

void fake_capture(struct fake *f, struct fake_stream *s, bool capturing)
{
	pthread_mutex_lock(&f->lock);
	s->capturing = capturing;
	pthread_mutex_unlock(&f->lock);
}

void fake_sync(struct fake *f)
{
	pthread_mutex_lock(&f->lock);
	for (unsigned i = 0; i < FAKE_STREAMS; i++)
		fake_run_to(f, &f->stream[i], f->stream[i].queued);
	pthread_mutex_unlock(&f->lock);
}

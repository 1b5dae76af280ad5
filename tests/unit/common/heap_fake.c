/* heap_fake.c - see heap_fake.h */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heap_fake.h"

#define UNIT ((size_t)512)
#define PAGES_MAX ((size_t)1 << 22)

struct unit {
	uint32_t at; /* of the last use */
	uint16_t stream;
	bool used;
};

struct fake_chunk {
	struct fake_chunk *prev, *next;
	size_t bytes;
	unsigned maps;
	bool released;
	struct unit *unit;
};

struct fake_map {
	struct fake_chunk *chunk;
	uint64_t va;
	bool access;
	size_t used; /* units in use through it */
	uint32_t last[FAKE_STREAMS];
};

struct fake_wait {
	struct fake_wait *next;
	uint32_t at;
	unsigned stream;
	uint32_t until;
};

struct fake_mark {
	unsigned stream;
	uint32_t at;
	uint32_t after[FAKE_STREAMS];
};

void fake_fails(const char *what)
{
	fprintf(stderr, "heap_fake: %s\n", what);
	abort();
}

static void must(bool ok, const char *what)
{
	if (!ok)
		fake_fails(what);
}

void fake_check(struct heap *heap)
{
	const char *wrong = heap_check(heap);
	if (wrong)
		fake_fails(wrong);
}

/* True: this call shall fail. */
static bool fails(struct fake *f)
{
	f->calls++;
	if (f->calls == f->fail_at)
		return true;
	if (!f->fail_every)
		return false;
	f->random = f->random * 6364136223846793005u + 1442695040888963407u;
	return (f->random >> 33) % f->fail_every == 0;
}

#define ENTER                     \
	struct fake *f = arg;         \
	pthread_mutex_lock(&f->lock); \
	int r = fails(f) ? f->fail_with : 0
#define LEAVE                       \
	pthread_mutex_unlock(&f->lock); \
	return r

static struct fake_map **page_of(struct fake *f, uint64_t va)
{
	must(va >= f->first_va && va < f->next_va, "an address that was never reserved");
	return &f->page[(va - f->first_va) / FAKE_GRAIN];
}

static int do_reserve(void *arg, size_t bytes, uint64_t *va)
{
	ENTER;
	must(bytes % FAKE_GRAIN == 0, "reserve: size");
	if (!r) {
		*va = f->next_va;
		f->next_va += bytes + FAKE_GRAIN;
		must((f->next_va - f->first_va) / FAKE_GRAIN < PAGES_MAX, "reserve: too much for the test");
	}
	LEAVE;
}

static int do_unreserve(void *arg, uint64_t va, size_t bytes)
{
	ENTER;
	for (uint64_t at = va; at < va + bytes && !f->fail_every; at += FAKE_GRAIN)
		must(!*page_of(f, at), "unreserve: still mapped");
	r = 0;
	LEAVE;
}

static int do_create(void *arg, size_t bytes, uint64_t *handle)
{
	ENTER;
	must(bytes && bytes % FAKE_GRAIN == 0, "create: size");
	if (!r && f->used + bytes > f->device)
		r = HEAP_NO_MEMORY;
	if (!r) {
		struct fake_chunk *c = calloc(1, sizeof(*c));
		c->bytes = bytes;
		c->unit = f->loose ? NULL : calloc(bytes / UNIT, sizeof(*c->unit));
		c->next = f->chunks;
		if (c->next)
			c->next->prev = c;
		f->chunks = c;
		*handle = (uint64_t)(uintptr_t)c;
		f->used += bytes;
		f->creates++;
		/* 67 us for one grain, 15 us for 32 MiB, a straight line between. */
		f->us += bytes >= ((size_t)32 << 20) ? 15 : 67 - 52.0 * (double)(bytes - FAKE_GRAIN) / (30 << 20);
	}
	LEAVE;
}

static void maybe_free(struct fake *f, struct fake_chunk *c)
{
	if (!c->released || c->maps)
		return;
	f->used -= c->bytes;
	if (c->prev)
		c->prev->next = c->next;
	else
		f->chunks = c->next;
	if (c->next)
		c->next->prev = c->prev;
	free(c->unit);
	free(c);
}

static int do_release(void *arg, uint64_t handle)
{
	ENTER;
	struct fake_chunk *c = (struct fake_chunk *)(uintptr_t)handle;
	if (!r) {
		must(!c->released, "release: twice");
		c->released = true;
		maybe_free(f, c);
	}
	LEAVE;
}

static int do_map(void *arg, uint64_t va, size_t bytes, uint64_t handle)
{
	ENTER;
	struct fake_chunk *c = (struct fake_chunk *)(uintptr_t)handle;
	must(va % FAKE_GRAIN == 0 && bytes == c->bytes, "map: not the whole chunk");
	for (size_t at = 0; at < bytes; at += FAKE_GRAIN)
		must(!*page_of(f, va + at), "map: something is there");
	if (!r) {
		struct fake_map *m = calloc(1, sizeof(*m));
		m->chunk = c;
		m->va = va;
		for (size_t at = 0; at < bytes; at += FAKE_GRAIN)
			*page_of(f, va + at) = m;
		c->maps++;
		f->maps++;
		f->us += 1.5;
	}
	LEAVE;
}

static int do_unmap(void *arg, uint64_t va, size_t bytes)
{
	ENTER;
	struct fake_map *m = *page_of(f, va);
	must(m && m->va == va && m->chunk->bytes == bytes, "unmap: not what was mapped");
	must(!m->used, "unmap: the program has a block there");
	for (unsigned i = 0; i < FAKE_STREAMS; i++)
		must(m->last[i] <= f->stream[i].over, "unmap: the device may still use it");
	if (!r) {
		for (size_t at = 0; at < bytes; at += FAKE_GRAIN)
			*page_of(f, va + at) = NULL;
		m->chunk->maps--;
		maybe_free(f, m->chunk);
		free(m);
		f->unmaps++;
		f->us += 2;
	}
	LEAVE;
}

static int do_access(void *arg, uint64_t va, size_t bytes)
{
	ENTER;
	for (uint64_t at = va; at < va + bytes;) {
		struct fake_map *m = *page_of(f, at);
		must(m && m->va == at && at + m->chunk->bytes <= va + bytes, "access: not whole mappings");
		if (!r) {
			m->access = true;
			f->us += 37;
		}
		at += m->chunk->bytes;
	}
	f->accesses += !r;
	LEAVE;
}

/* ---- marks ---- */

static void run_to(struct fake *f, struct fake_stream *s, uint32_t at)
{
	if (at <= s->over)
		return;
	while (s->waits && s->waits->at < at) {
		struct fake_wait *w = s->waits;
		s->waits = w->next;
		run_to(f, &f->stream[w->stream], w->until);
		free(w);
	}
	s->over = at;
}

static void wait_add(struct fake_stream *s, unsigned stream, uint32_t until)
{
	struct fake_wait *w = calloc(1, sizeof(*w)), **at = &s->waits;
	w->at = s->queued;
	w->stream = stream;
	w->until = until;
	while (*at)
		at = &(*at)->next;
	*at = w;
}

static void join_after(struct fake_stream *s, const uint32_t *after, unsigned stream, uint32_t at)
{
	for (unsigned i = 0; i < FAKE_STREAMS; i++)
		if (after[i] > s->after[i])
			s->after[i] = after[i];
	if (at > s->after[stream])
		s->after[stream] = at;
}

static int do_mark(void *arg, void *stream, void **mark)
{
	ENTER;
	struct fake_stream *s = stream;
	must(s->open, "mark: on a stream that is gone");
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
	must(s->open, "wait: by a stream that is gone");
	if (!r) {
		wait_add(s, m->stream, m->at);
		join_after(s, m->after, m->stream, m->at);
		f->waits++;
		f->us += 0.15;
	}
	LEAVE;
}

static int do_mark_block(void *arg, void *mark, uint64_t ns)
{
	ENTER;
	struct fake_mark *m = mark;
	(void)ns;
	if (f->frozen && !r)
		r = HEAP_INVALID;
	if (!r)
		run_to(f, &f->stream[m->stream], m->at);
	f->blocks++;
	LEAVE;
}

static void do_mark_drop(void *arg, void *mark)
{
	struct fake *f = arg;
	pthread_mutex_lock(&f->lock);
	f->marks_open--;
	free(mark);
	pthread_mutex_unlock(&f->lock);
}

/* ---- the program's side ---- */

struct fake_stream *fake_stream_open(struct fake *f)
{
	pthread_mutex_lock(&f->lock);
	unsigned i = 0;
	while (i < FAKE_STREAMS && f->stream[i].open)
		i++;
	must(i < FAKE_STREAMS, "too many streams for the test");
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
		struct fake_map *m = *page_of(f, at);
		must(m && m->access, "a block where nothing is mapped");
		uint64_t end = m->va + m->chunk->bytes;
		if (end > va + bytes)
			end = va + bytes;
		for (; at < end; at += UNIT) {
			struct unit *u = &m->chunk->unit[(at - m->va) / UNIT];
			must(u->used != take, take ? "memory that somebody has is handed out" : "not in use");
			must(!take || u->stream == s->number || u->at <= f->stream[u->stream].over ||
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
	if (s != t) {
		wait_add(s, t->number, t->queued);
		join_after(s, t->after, t->number, t->queued);
	}
	pthread_mutex_unlock(&f->lock);
}

void fake_run(struct fake *f, struct fake_stream *s, uint32_t work)
{
	pthread_mutex_lock(&f->lock);
	run_to(f, s, work < s->queued - s->over ? s->over + work : s->queued);
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
		run_to(f, &f->stream[i], f->stream[i].queued);
	pthread_mutex_unlock(&f->lock);
}

void fake_open(struct fake *f, size_t device, struct heap_backend *backend)
{
	memset(f, 0, sizeof(*f));
	pthread_mutex_init(&f->lock, NULL);
	f->device = device;
	f->first_va = f->next_va = (uint64_t)0x7f00 << 32;
	f->page = calloc(PAGES_MAX, sizeof(*f->page));
	f->fail_with = 700;
	*backend = (struct heap_backend){
		f,         FAKE_GRAIN, do_reserve,   do_unreserve, do_create,     do_release,   do_map, do_unmap,
		do_access, do_mark,    do_mark_done, do_mark_wait, do_mark_block, do_mark_drop, NULL};
}

void fake_close(struct fake *f)
{
	must(f->marks_open == 0, "a mark was left behind");
	must(f->fail_every || !f->chunks, "a chunk was left behind");
	for (uint64_t i = 0; i < (f->next_va - f->first_va) / FAKE_GRAIN;) {
		struct fake_map *m = f->page[i];
		i += m ? m->chunk->bytes / FAKE_GRAIN : 1;
		free(m);
	}
	while (f->chunks) {
		struct fake_chunk *c = f->chunks;
		f->chunks = c->next;
		free(c->unit);
		free(c);
	}
	for (unsigned i = 0; i < FAKE_STREAMS; i++)
		while (f->stream[i].waits) {
			struct fake_wait *w = f->stream[i].waits;
			f->stream[i].waits = w->next;
			free(w);
		}
	free(f->page);
	pthread_mutex_destroy(&f->lock);
}

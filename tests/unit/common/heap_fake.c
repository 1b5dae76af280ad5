/* heap_fake.c - see heap_fake.h */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heap_fake_impl.h"

void fake_fails(const char *what)
{
	fprintf(stderr, "heap_fake: %s\n", what);
	abort();
}

void fake_must(bool ok, const char *what)
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

void fake_look(struct fake *f)
{
	struct heap_usage u;
	if (!f->look)
		return;
	heap_usage(f->look, &u);
	fake_must(u.live <= u.live_high && u.reserved <= u.reserved_high, "usage: less at its high than now");
}

bool fake_call_fails(struct fake *f)
{
	f->calls++;
	if (f->calls == f->fail_at)
		return true;
	if (!f->fail_every)
		return false;
	f->random = f->random * 6364136223846793005u + 1442695040888963407u;
	return (f->random >> 33) % f->fail_every == 0;
}

struct fake_map **fake_page(struct fake *f, uint64_t va)
{
	fake_must(va >= f->first_va && va < f->next_va, "an address that was never reserved");
	return &f->page[(va - f->first_va) / FAKE_GRAIN];
}

static int do_reserve(void *arg, size_t bytes, uint64_t *va)
{
	ENTER;
	fake_must(bytes % FAKE_GRAIN == 0, "reserve: size");
	if (!r) {
		*va = f->next_va;
		f->next_va += bytes + FAKE_GRAIN;
		fake_must((f->next_va - f->first_va) / FAKE_GRAIN < PAGES_MAX, "reserve: too much for the test");
	}
	LEAVE;
}

static int do_unreserve(void *arg, uint64_t va, size_t bytes)
{
	ENTER;
	for (uint64_t at = va; at < va + bytes && !f->fail_every; at += FAKE_GRAIN)
		fake_must(!*fake_page(f, at), "unreserve: still mapped");
	r = 0;
	LEAVE;
}

static int do_create(void *arg, size_t bytes, uint64_t *handle)
{
	ENTER;
	fake_must(bytes && bytes % FAKE_GRAIN == 0, "create: size");
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

static size_t do_available(void *arg)
{
	struct fake *f = arg;
	fake_look(f);
	pthread_mutex_lock(&f->lock);
	size_t left = f->device - f->used;
	f->us += 3.6;
	pthread_mutex_unlock(&f->lock);
	return left;
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
		fake_must(!c->released, "release: twice");
		c->released = true;
		maybe_free(f, c);
	}
	LEAVE;
}

static int do_map(void *arg, uint64_t va, size_t bytes, uint64_t handle)
{
	ENTER;
	struct fake_chunk *c = (struct fake_chunk *)(uintptr_t)handle;
	fake_must(va % FAKE_GRAIN == 0 && bytes == c->bytes, "map: not the whole chunk");
	for (size_t at = 0; at < bytes; at += FAKE_GRAIN)
		fake_must(!*fake_page(f, va + at), "map: something is there");
	if (!r) {
		struct fake_map *m = calloc(1, sizeof(*m));
		m->chunk = c;
		m->va = va;
		for (size_t at = 0; at < bytes; at += FAKE_GRAIN)
			*fake_page(f, va + at) = m;
		c->maps++;
		f->maps++;
		f->us += 1.5;
	}
	LEAVE;
}

static int do_unmap(void *arg, uint64_t va, size_t bytes)
{
	ENTER;
	struct fake_map *m = *fake_page(f, va);
	fake_must(m && m->va == va && m->chunk->bytes == bytes, "unmap: not what was mapped");
	fake_must(!m->used, "unmap: the program has a block there");
	for (unsigned i = 0; i < FAKE_STREAMS; i++)
		fake_must(m->last[i] <= f->stream[i].over, "unmap: the device may still use it");
	if (!r) {
		for (size_t at = 0; at < bytes; at += FAKE_GRAIN)
			*fake_page(f, va + at) = NULL;
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
		struct fake_map *m = *fake_page(f, at);
		fake_must(m && m->va == at && at + m->chunk->bytes <= va + bytes, "access: not whole mappings");
		if (!r) {
			m->access = true;
			f->us += 37;
		}
		at += m->chunk->bytes;
	}
	f->accesses += !r;
	LEAVE;
}

void fake_open(struct fake *f, size_t device, struct heap_backend *backend)
{
	memset(f, 0, sizeof(*f));
	pthread_mutex_init(&f->lock, NULL);
	f->device = device;
	f->first_va = f->next_va = (uint64_t)0x7f00 << 32;
	f->page = calloc(PAGES_MAX, sizeof(*f->page));
	f->fail_with = 700;
	*backend = (struct heap_backend){.arg = f,
									 .grain = FAKE_GRAIN,
									 .reserve = do_reserve,
									 .unreserve = do_unreserve,
									 .chunk_create = do_create,
									 .chunk_release = do_release,
									 .available = do_available,
									 .map = do_map,
									 .unmap = do_unmap,
									 .access = do_access};
	fake_marks(backend);
}

void fake_close(struct fake *f)
{
	fake_must(f->marks_open == 0, "a mark was left behind");
	fake_must(f->fail_every || !f->chunks, "a chunk was left behind");
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

/* heap_fake_impl.h - what the files of the fake device share. Everything is under fake.lock. */
#ifndef TEST_HEAP_FAKE_IMPL_H
#define TEST_HEAP_FAKE_IMPL_H

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

void fake_must(bool ok, const char *what);
struct fake_map **fake_page(struct fake *f, uint64_t va);
/* The stream does its work up to `at`, and others what that waits for. */
void fake_run_to(struct fake *f, struct fake_stream *s, uint32_t at);
/* What the stream does next comes after `until` of the other, and after what that came after. */
void fake_after(struct fake_stream *s, const uint32_t *after, unsigned stream, uint32_t until);
void fake_marks(struct heap_backend *backend); /* fills in the calls on marks */
void fake_look(struct fake *f);
/* True: this call shall fail. */
bool fake_call_fails(struct fake *f);

#define ENTER                     \
	struct fake *f = arg;         \
	fake_look(f);                 \
	pthread_mutex_lock(&f->lock); \
	int r = fake_call_fails(f) ? f->fail_with : 0
#define LEAVE                       \
	pthread_mutex_unlock(&f->lock); \
	return r

#endif

/*
 * heap_fake.h - a device without memory, for tests of policy/devmem/heap.
 *
 * It knows what is mapped where, who uses each 512 bytes of each chunk, and how far each stream has
 * come. It aborts with a message when memory is handed out that somebody has, or whose last use is
 * not ordered before the new one, and when something is unmapped that the device may still use.
 */
#ifndef TEST_HEAP_FAKE_H
#define TEST_HEAP_FAKE_H

#include <pthread.h>

#include "policy/devmem/heap.h"

#define FAKE_STREAMS 256
#define FAKE_GRAIN ((size_t)2 << 20)

struct fake_stream {
	uint32_t queued, over;        /* work given to it, work done */
	uint32_t after[FAKE_STREAMS]; /* what it does next comes after this much of the others' work */
	struct fake_wait *waits;      /* of work that is queued */
	unsigned number;
	bool open, capturing;
};

struct fake {
	pthread_mutex_t lock;
	size_t device, used; /* bytes */
	bool loose;          /* no book-keeping of use: for many large blocks */
	struct heap *look;   /* heap_usage() of it is asked for in every call */
	bool frozen;         /* mark_block() does not make streams go on: it fails, */
	bool busy;           /* or waits in vain */
	uint64_t waited_ns;  /* in vain */
	uint64_t next_va, first_va;
	struct fake_map **page; /* by grain of address */
	struct fake_chunk *chunks;
	size_t pages;
	struct fake_stream stream[FAKE_STREAMS];
	uint64_t calls, fail_at; /* the call with that number fails (0: none) */
	uint64_t fail_every;     /* one in so many fails */
	int fail_with;
	uint64_t random;
	uint64_t creates, maps, accesses, unmaps, marks, waits, blocks, marks_open;
	double us; /* what the calls would have cost */
};

void fake_open(struct fake *f, size_t device, struct heap_backend *backend);
void fake_close(struct fake *f); /* aborts if something was left behind */
void fake_fails(const char *what);
void fake_check(struct heap *heap); /* heap_check() or the end */

struct fake_stream *fake_stream_open(struct fake *f);
void fake_stream_close(struct fake *f, struct fake_stream *s);
/* The program uses a block that it got on `s`. */
void fake_take(struct fake *f, struct fake_stream *s, uint64_t va, size_t bytes);
/* The program frees it on `s` (after its last use, in that order). Before heap_free(). */
void fake_give(struct fake *f, struct fake_stream *s, uint64_t va, size_t bytes);
/* The program makes `s` wait for what `t` has been given. */
void fake_order(struct fake *f, struct fake_stream *s, struct fake_stream *t);
/* The device does some of the stream's work, or all of it. */
void fake_run(struct fake *f, struct fake_stream *s, uint32_t work);
void fake_capture(struct fake *f, struct fake_stream *s, bool capturing); /* meanwhile marks on it fail */
void fake_sync(struct fake *f);                                           /* all of all streams */

#endif

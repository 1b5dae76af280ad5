/*
 * test_heap_random.c - random programs on random heaps; the fake device aborts when memory is handed out
 * that somebody has or may still use, and every invariant is looked at after every operation.
 *
 * HEAP_RANDOM_SEED   seed of the first round (default: from the clock; it is printed)
 * HEAP_RANDOM_OPS    operations a case (default 20000)
 * SOAK_S             instead: rounds of new seeds for that many seconds
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "unit/common/heap_fake.h"

#define MIB ((size_t)1 << 20)
#define STREAMS 6
#define SLOTS 160

struct slot {
	_Atomic uint64_t va; /* 0: nothing; 1: somebody is at it */
	size_t bytes;
	unsigned stream;
};

struct rig {
	struct fake fake;
	struct heap_backend backend;
	struct heap *heap;
	size_t device;
	unsigned threads;
	bool failures;
	bool bare;          /* the fake device is told nothing: its lock would order the threads */
	size_t palette[12]; /* sizes that come again */
	struct fake_stream *fs[STREAMS];
	struct heap_stream *hs[STREAMS];
	struct slot slot[SLOTS];
	_Atomic uint64_t failed, no_memory;
};

struct actor {
	struct rig *rig;
	pthread_t thread;
	uint64_t random;
	unsigned ops, number;
};

static uint64_t seed;
static unsigned ops_each;
static unsigned soak;
static uint64_t total_ops;

static uint64_t next(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x * 2685821657736338717ull;
}

static uint64_t below(struct actor *a, uint64_t n)
{
	return (next(&a->random) >> 20) % n;
}

static size_t a_size(struct actor *a)
{
	unsigned kind = (unsigned)below(a, 20);
	if (below(a, 3) == 0)
		return a->rig->palette[kind % 12];
	if (kind < 9)
		return 1 + below(a, (size_t)512 << below(a, 12));
	if (kind < 13)
		return (1 + below(a, 8)) * 2 * MIB;
	if (kind < 19)
		return MIB + below(a, MIB << below(a, 6));
	return MIB + below(a, a->rig->device / 2);
}

static void get(struct actor *a)
{
	struct rig *rig = a->rig;
	struct slot *s = &rig->slot[below(a, SLOTS)];
	uint64_t none = 0, va;
	if (!atomic_compare_exchange_strong(&s->va, &none, 1))
		return;
	size_t bytes = a_size(a);
	unsigned stream = (unsigned)below(a, STREAMS);
	int r = heap_alloc(rig->hs[stream], bytes, &va);
	if (r) {
		if (r != HEAP_NO_MEMORY && !rig->failures)
			fake_fails("an error out of nowhere");
		if (r == HEAP_NO_MEMORY)
			rig->no_memory++;
		rig->failed++;
		atomic_store(&s->va, 0);
		return;
	}
	s->bytes = (bytes + 511) / 512 * 512;
	s->stream = stream;
	if (va % 512)
		fake_fails("a crooked address");
	if (!rig->bare)
		fake_take(&rig->fake, rig->fs[stream], va, s->bytes);
	atomic_store(&s->va, va);
}

static void put_slot(struct rig *rig, struct slot *s, unsigned stream)
{
	uint64_t va = atomic_exchange(&s->va, 1), base = 0;
	size_t bytes = 0;
	if (va <= 1) {
		/* Another thread is at it: what it stores must not be lost. */
		if (va == 0)
			atomic_store(&s->va, 0);
		return;
	}
	if (!heap_find(rig->heap, va + s->bytes - 1, &base, &bytes) || base != va || bytes != s->bytes)
		fake_fails("a live block is not found");
	if (!rig->bare) {
		fake_order(&rig->fake, rig->fs[stream], rig->fs[s->stream]);
		fake_give(&rig->fake, rig->fs[stream], va, s->bytes);
	}
	if (heap_free(rig->heap, rig->hs[stream], va) != HEAP_OK)
		fake_fails("a live block is not freed");
	if (rig->threads == 1 && heap_free(rig->heap, rig->hs[stream], va) != HEAP_UNKNOWN)
		fake_fails("a block is freed twice");
	atomic_store(&s->va, 0);
}

static void put(struct actor *a)
{
	struct slot *s = &a->rig->slot[below(a, SLOTS)];
	/* Only who finds a block there takes it; a slot under way is left alone. */
	if (atomic_load(&s->va) > 1)
		put_slot(a->rig, s, below(a, 4) ? s->stream : (unsigned)below(a, STREAMS));
}

static void synchronise(struct actor *a)
{
	struct rig *rig = a->rig;
	unsigned stream = (unsigned)below(a, STREAMS);
	bool all = below(a, 2);
	uint64_t token = heap_sync_begin(rig->heap);
	if (all)
		fake_sync(&rig->fake);
	else
		fake_run(&rig->fake, rig->fs[stream], UINT32_MAX);
	heap_synchronized(rig->heap, all ? NULL : rig->hs[stream], token);
}

/* A stream of its own, used once and closed. */
static void one_shot(struct actor *a)
{
	struct rig *rig = a->rig;
	struct fake_stream *f = fake_stream_open(&rig->fake);
	struct heap_stream *s = heap_stream_open(rig->heap, f);
	uint64_t va;
	size_t bytes = a_size(a), rounded = (bytes + 511) / 512 * 512;
	if (heap_alloc(s, bytes, &va) == HEAP_OK) {
		if (!rig->bare) {
			fake_take(&rig->fake, f, va, rounded);
			fake_give(&rig->fake, f, va, rounded);
		}
		if (heap_free(rig->heap, s, va))
			fake_fails("a one-shot block is not freed");
	}
	heap_stream_close(s);
	fake_stream_close(&rig->fake, f);
}

static void rarely(struct actor *a)
{
	struct rig *rig = a->rig;
	struct heap_usage u;
	switch (below(a, 10)) {
	case 0: heap_trim(rig->heap, below(a, 2) ? 0 : below(a, rig->device), 0); break;
	case 1: heap_reuse_set(rig->heap, (unsigned)below(a, 4)); break;
	case 2: fake_capture(&rig->fake, rig->fs[below(a, STREAMS)], below(a, 4) == 0); break;
	case 3:
		heap_usage(rig->heap, &u);
		heap_usage_reset_high(rig->heap, below(a, 2), below(a, 2));
		break;
	case 4: (void)heap_access_again(rig->heap); break;
	case 5:
		if (heap_free(rig->heap, rig->hs[0], rig->fake.first_va + below(a, rig->device) / 512 * 512 + 8) !=
			HEAP_UNKNOWN)
			fake_fails("nothing was freed");
		break;
	case 6:
	case 7: one_shot(a); break;
	default: synchronise(a);
	}
}

static void *act(void *arg)
{
	struct actor *a = arg;
	struct rig *rig = a->rig;
	for (unsigned i = 0; i < a->ops; i++) {
		unsigned what = (unsigned)below(a, 100);
		/* Phases of growing and of shrinking. */
		unsigned grow = i / 500 % 2 ? 38 : 55;
		if (what < grow)
			get(a);
		else if (what < 93)
			put(a);
		else if (what < 97 && !rig->bare)
			fake_run(&rig->fake, rig->fs[below(a, STREAMS)], (uint32_t)below(a, 40));
		else
			rarely(a);
		if (rig->threads == 1 || i % 256 == 0)
			fake_check(rig->heap);
	}
	return NULL;
}

static void open_rig(struct rig *rig, uint64_t *random, unsigned threads, bool failures)
{
	struct actor dice = {.random = *random};
	memset(rig, 0, sizeof(*rig));
	rig->device = (64 + below(&dice, 200)) * MIB;
	for (int i = 0; i < 12; i++)
		rig->palette[i] = 1 + below(&dice, (size_t)4096 << below(&dice, 13));
	struct heap_tune tune = {.chunk = (2 * MIB) << below(&dice, 5),
							 .chunks = 1u << below(&dice, 10),
							 .bins = 4 + (unsigned)below(&dice, 300),
							 .views = 1 + (unsigned)below(&dice, 30),
							 .block_ns =
								 60000000000} /* never by the clock: a seed tells the same story each time */;
	fake_open(&rig->fake, rig->device, &rig->backend);
	rig->fake.look = rig->heap = heap_create_tuned(&rig->backend, rig->device, &tune);
	assert_non_null(rig->heap);
	rig->threads = threads;
	rig->failures = failures;
	for (int i = 0; i < STREAMS; i++) {
		rig->fs[i] = fake_stream_open(&rig->fake);
		rig->hs[i] = heap_stream_open(rig->heap, rig->fs[i]);
		assert_non_null(rig->hs[i]);
	}
	rig->fake.random = *random;
	rig->fake.fail_every = failures ? 20 + below(&dice, 200) : 0;
	if (below(&dice, 2))
		rig->fake.fail_with = HEAP_NO_MEMORY;
	*random = dice.random;
}

static void close_rig(struct rig *rig)
{
	struct heap_usage u;
	bool failures = rig->fake.fail_every;
	rig->fake.fail_every = 0;
	for (int i = 0; i < SLOTS; i++)
		put_slot(rig, &rig->slot[i], rig->slot[i].stream);
	heap_usage(rig->heap, &u);
	assert_int_equal(u.live, 0);
	fake_check(rig->heap);
	fake_sync(&rig->fake);
	heap_reuse_set(rig->heap, HEAP_REUSE_DONE);
	heap_trim(rig->heap, 0, 0);
	for (int i = 0; i < STREAMS; i++)
		fake_capture(&rig->fake, rig->fs[i], false);
	heap_trim(rig->heap, 0, 0);
	fake_check(rig->heap);
	heap_usage(rig->heap, &u);
	/* All that was ever made is gone, but for what a failing call left in no state to be used. */
	if (!failures)
		assert_int_equal(u.reserved, 0);
	rig->fake.fail_every = failures ? UINT64_MAX : 0;
	heap_destroy(rig->heap);
	fake_close(&rig->fake);
}

static void one_round(unsigned threads, bool failures, bool bare)
{
	static struct rig rig;
	struct actor actor[8];
	uint64_t random = seed * 1000003 + threads * 17 + failures + 1;
	print_message("seed %llu, %u threads%s%s: ", (unsigned long long)seed, threads,
				  failures ? ", failures" : "", bare ? ", unordered" : "");
	fflush(stdout);
	open_rig(&rig, &random, threads, failures);
	rig.bare = rig.fake.loose = bare;
	for (unsigned i = 0; i < threads; i++) {
		actor[i] = (struct actor){&rig, 0, random + i * 7919 + 1, ops_each / threads, i};
		assert_int_equal(pthread_create(&actor[i].thread, NULL, act, &actor[i]), 0);
	}
	for (unsigned i = 0; i < threads; i++)
		pthread_join(actor[i].thread, NULL);
	struct heap_usage u;
	heap_usage(rig.heap, &u);
	print_message(
		"%llu hits, %llu misses, %llu steals, %llu waits, %llu stitches, %llu view hits, %llu trims, "
		"%llu calls, %llu failed\n",
		(unsigned long long)u.hits, (unsigned long long)u.misses, (unsigned long long)u.steals,
		(unsigned long long)u.waits, (unsigned long long)u.stitches, (unsigned long long)u.view_hits,
		(unsigned long long)u.trims, (unsigned long long)u.driver_calls, (unsigned long long)rig.failed);
	close_rig(&rig);
	total_ops += ops_each;
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A fourth of the time each, with new seeds. */
static void rounds(unsigned threads, bool failures, bool bare)
{
	double until = now() + soak / 4.0;
	do {
		one_round(threads, failures, bare);
		seed++;
	} while (now() < until);
}

static void one_thread(void **state)
{
	(void)state;
	rounds(1, false, false);
}

static void one_thread_and_failing_calls(void **state)
{
	(void)state;
	rounds(1, true, false);
}

static void many_threads(void **state)
{
	(void)state;
	rounds(4, false, false);
}

static void many_threads_unordered(void **state)
{
	(void)state;
	rounds(4, false, true);
	print_message("%llu operations\n", (unsigned long long)total_ops);
}

static unsigned number(const char *name, unsigned otherwise)
{
	const char *value = getenv(name);
	return value && *value ? (unsigned)strtoul(value, NULL, 10) : otherwise;
}

int main(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	soak = number("SOAK_S", 0);
	ops_each = number("HEAP_RANDOM_OPS", 20000);
	seed = number("HEAP_RANDOM_SEED", (unsigned)(t.tv_nsec / 1000 + t.tv_sec % 1000 * 1000000));
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_thread),
		cmocka_unit_test(one_thread_and_failing_calls),
		cmocka_unit_test(many_threads),
		cmocka_unit_test(many_threads_unordered),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_heap.c - what the stream-ordered heap hands out, when, and with which calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "unit/common/heap_fake.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

static struct fake fake;
static struct heap_backend backend;
static struct heap *heap;
static struct fake_stream *fs[4];
static struct heap_stream *hs[4];

/* What the program holds. */
static struct {
	uint64_t va;
	size_t bytes;
} held[512];
static unsigned holds;

static int open_with(size_t device, const struct heap_tune *tune)
{
	holds = 0;
	fake_open(&fake, device, &backend);
	heap = heap_create_tuned(&backend, device, tune);
	for (int i = 0; heap && i < 4; i++) {
		fs[i] = fake_stream_open(&fake);
		hs[i] = heap_stream_open(heap, fs[i]);
		if (!hs[i])
			return -1;
	}
	return heap ? 0 : -1;
}

static int setup(void **state)
{
	(void)state;
	return open_with(GIB, NULL);
}

static int teardown(void **state)
{
	(void)state;
	fake_check(heap);
	while (holds) {
		holds--;
		fake_give(&fake, fs[0], held[holds].va, held[holds].bytes);
	}
	fake_sync(&fake);
	heap_destroy(heap);
	fake_close(&fake);
	return 0;
}

static int try_get(int i, size_t bytes, uint64_t *va)
{
	int r = heap_alloc(hs[i], bytes, va);
	fake_check(heap);
	if (!r) {
		assert_int_equal(*va % 512, 0);
		held[holds].va = *va;
		held[holds].bytes = (bytes + 511) / 512 * 512;
		fake_take(&fake, fs[i], *va, held[holds++].bytes);
	}
	return r;
}

static uint64_t get(int i, size_t bytes)
{
	uint64_t va = 0;
	assert_int_equal(try_get(i, bytes, &va), HEAP_OK);
	return va;
}

static void put(int i, uint64_t va)
{
	uint64_t base;
	size_t bytes;
	assert_true(heap_find(heap, va, &base, &bytes));
	assert_int_equal(base, va);
	for (unsigned k = 0; k < holds; k++)
		if (held[k].va == va)
			held[k] = held[--holds];
	fake_give(&fake, fs[i], va, bytes);
	assert_int_equal(heap_free(heap, hs[i], va), HEAP_OK);
	fake_check(heap);
}

static struct heap_usage usage(void)
{
	struct heap_usage u;
	heap_usage(heap, &u);
	return u;
}

static void warm_pairs_make_no_call(void **state)
{
	(void)state;
	size_t size[] = {1, 512, 4 * KIB, MIB - 512, MIB, 3 * MIB + 7, 100 * MIB};
	for (int round = 0; round < 3; round++) {
		uint64_t calls = fake.calls;
		for (unsigned i = 0; i < sizeof(size) / sizeof(*size); i++)
			put(0, get(0, size[i]));
		assert_true(round == 0 || calls == fake.calls);
	}
	uint64_t hits = usage().hits;
	for (int i = 0; i < 100; i++)
		put(0, get(0, 3 * MIB + 7));
	assert_true(usage().hits >= hits + 99);
}

static void last_in_first_out(void **state)
{
	(void)state;
	uint64_t a = get(0, 4 * KIB), b = get(0, 4 * KIB);
	put(0, a);
	put(0, b);
	assert_int_equal(get(0, 4 * KIB), b);
	assert_int_equal(get(0, 4 * KIB), a);
}

static void bad_arguments(void **state)
{
	(void)state;
	uint64_t va, a = get(0, 64 * KIB), big = get(0, 8 * MIB);
	struct heap_usage before = usage();
	assert_int_equal(heap_alloc(hs[0], 0, &va), HEAP_INVALID);
	assert_int_equal(heap_alloc(hs[0], SIZE_MAX, &va), HEAP_NO_MEMORY);
	assert_int_equal(heap_alloc(hs[0], SIZE_MAX / 2, &va), HEAP_NO_MEMORY);
	uint64_t bad[] = {0,           1,         512,       a + 1,         a + 512, a - 512,
					  a + 2 * KIB, big + 512, big + MIB, big + 8 * MIB, ~0ull,   ~511ull};
	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(heap_free(heap, hs[0], bad[i]), HEAP_UNKNOWN);
	put(0, a);
	assert_int_equal(heap_free(heap, hs[0], a), HEAP_UNKNOWN);
	assert_int_equal(heap_free(heap, hs[1], a), HEAP_UNKNOWN);
	put(1, big);
	assert_int_equal(heap_free(heap, hs[0], big), HEAP_UNKNOWN);
	/* Still unknown when the block has gone back into the heap. */
	assert_int_equal(heap_trim(heap, 0), 0);
	assert_int_equal(heap_free(heap, hs[0], big), HEAP_UNKNOWN);
	assert_int_equal(usage().live, before.live - 64 * KIB - 8 * MIB);
}

static void find_knows_the_inside(void **state)
{
	(void)state;
	uint64_t base, a = get(0, 5 * KIB), b = get(0, 5 * MIB), c = get(0, 700 * MIB);
	size_t bytes;
	uint64_t at[] = {a, b, c};
	size_t size[] = {5 * KIB, 5 * MIB, 700 * MIB};
	for (int i = 0; i < 3; i++)
		for (size_t k = 0; k < 3; k++) {
			assert_true(heap_find(heap, at[i] + k * (size[i] - 1) / 2, &base, &bytes));
			assert_true(heap_owns(heap, at[i] + k * (size[i] - 1) / 2));
			assert_int_equal(base, at[i]);
			assert_int_equal(bytes, size[i]);
		}
	put(0, b);
	assert_false(heap_find(heap, b, &base, &bytes));
	assert_false(heap_find(heap, b + MIB, &base, &bytes));
	assert_true(heap_owns(heap, b));
	assert_false(heap_find(heap, 4096, &base, &bytes));
	assert_false(heap_owns(heap, 4096));
}

static void look_tells_what_was_asked_for(void **state)
{
	(void)state;
	struct heap_view_of one, two, again;
	uint64_t a = get(0, 1000), b = get(0, 3 * MIB + 100);
	assert_true(heap_look(heap, a + 999, &one));
	assert_true(heap_look(heap, b, &two));
	assert_true(heap_look(heap, a, &again));
	assert_int_equal(one.base, a);
	assert_int_equal(one.asked, 1000);
	assert_int_equal(two.asked, 3 * MIB + 100);
	assert_int_equal(one.id, again.id);
	assert_int_not_equal(one.id, two.id);
	assert_false(heap_look(heap, a + 1000, &again));
	put(0, a);
	assert_false(heap_look(heap, a, &again));
	/* The same memory is another block now. */
	assert_int_equal(get(0, 1024), a);
	assert_true(heap_look(heap, a, &again));
	assert_int_not_equal(again.id, one.id);
	assert_int_equal(again.asked, 1024);
}

static void another_stream_waits_or_grows(void **state)
{
	(void)state;
	uint64_t a = get(0, 64 * MIB);
	put(0, a);
	/* Not done, may wait: the same memory behind a wait. */
	assert_int_equal(get(1, 64 * MIB), a);
	assert_int_equal(fake.waits, 1);
	put(1, a);
	/* Done: no wait. */
	fake_sync(&fake);
	assert_int_equal(get(2, 64 * MIB), a);
	assert_int_equal(fake.waits, 1);
	put(2, a);
	/* Not done and may not wait: other memory. */
	heap_reuse_set(heap, HEAP_REUSE_DONE);
	uint64_t b = get(3, 64 * MIB);
	assert_int_not_equal(b, a);
	put(3, b);
	/* May not even look. */
	heap_reuse_set(heap, 0);
	fake_sync(&fake);
	uint64_t marks = fake.marks;
	uint64_t c = get(0, 128 * MIB);
	assert_int_equal(fake.marks, marks);
	put(0, c);
	assert_int_equal(usage().reserved, 256 * MIB);
}

static void the_freeing_stream_counts(void **state)
{
	(void)state;
	heap_reuse_set(heap, HEAP_REUSE_DONE);
	uint64_t a = get(0, 64 * MIB);
	fake_order(&fake, fs[1], fs[0]);
	put(1, a);
	assert_int_equal(get(1, 64 * MIB), a);
	put(1, a);
	assert_int_not_equal(get(0, 64 * MIB), a);
}

static void a_synchronisation_frees_for_all(void **state)
{
	(void)state;
	heap_reuse_set(heap, 0);
	uint64_t a = get(0, 64 * MIB), b = get(0, 64 * MIB);
	put(0, a);
	/* In the bins it was not given to the heap yet; a miss sends it there. */
	uint64_t c = get(0, 200 * MIB);
	uint64_t token = heap_sync_begin(heap);
	put(0, c);
	uint64_t d = get(0, 300 * MIB);
	fake_run(&fake, fs[0], UINT32_MAX);
	heap_synchronized(heap, NULL, token);
	assert_int_not_equal(get(1, 200 * MIB), c);
	token = heap_sync_begin(heap);
	fake_sync(&fake);
	heap_synchronized(heap, hs[0], token);
	heap_reuse_set(heap, HEAP_REUSE_DONE);
	(void)get(2, 100 * MIB);
	assert_int_equal(usage().waits, 0);
	put(0, b);
	put(0, d);
}

static void closed_streams_leave_their_blocks(void **state)
{
	(void)state;
	for (int i = 0; i < 200; i++) {
		struct fake_stream *f = fake_stream_open(&fake);
		struct heap_stream *s = heap_stream_open(heap, f);
		uint64_t va;
		assert_int_equal(heap_alloc(s, 100 * MIB, &va), HEAP_OK);
		fake_take(&fake, f, va, 100 * MIB);
		fake_give(&fake, f, va, 100 * MIB);
		assert_int_equal(heap_free(heap, s, va), HEAP_OK);
		heap_stream_close(s);
		fake_stream_close(&fake, f);
		if (i % 3 == 0)
			fake_run(&fake, f, 1);
		fake_check(heap);
	}
	assert_int_equal(usage().reserved, 100 * MIB);
}

/* Half of what is free lies between blocks that stay. */
static void scattered_memory_is_stitched(void **state)
{
	(void)state;
	uint64_t va[60];
	for (int i = 0; i < 60; i++)
		va[i] = get(0, 16 * MIB);
	for (int i = 0; i < 60; i += 2)
		put(0, va[i]);
	assert_int_equal(usage().reserved, 960 * MIB);
	uint64_t a = get(0, 480 * MIB);
	assert_int_equal(usage().reserved, 960 * MIB);
	assert_int_equal(usage().stitches, 1);
	uint64_t base;
	size_t bytes;
	assert_true(heap_find(heap, a + 479 * MIB, &base, &bytes));
	assert_int_equal(bytes, 480 * MIB);
	put(0, a);
	/* The holes are usable as they were, and the view again afterwards. */
	uint64_t b = get(0, 16 * MIB);
	put(0, b);
	uint64_t calls = fake.calls;
	a = get(0, 470 * MIB);
	assert_int_equal(fake.calls, calls);
	assert_int_equal(usage().view_hits, 1);
	put(0, a);
	a = get(0, 479 * MIB);
	assert_int_equal(fake.calls, calls);
	put(0, a);
}

static void a_closed_streams_view_is_usable(void **state)
{
	(void)state;
	uint64_t va[30];
	for (int i = 0; i < 30; i++)
		va[i] = get(0, 32 * MIB);
	for (int i = 0; i < 30; i += 2)
		put(0, va[i]);
	struct heap_stream *s = hs[3];
	uint64_t a = get(3, 400 * MIB);
	put(3, a);
	heap_stream_close(s);
	fake_stream_close(&fake, fs[3]);
	fake_sync(&fake);
	fake_check(heap);
	get(0, 400 * MIB);
	assert_int_equal(usage().reserved, 960 * MIB);
	fs[3] = fake_stream_open(&fake);
	hs[3] = heap_stream_open(heap, fs[3]);
}

static void trim_gives_back_what_is_over(void **state)
{
	(void)state;
	uint64_t a = get(0, 200 * MIB), b = get(0, 10 * MIB), c = get(1, 100 * KIB);
	put(0, a);
	assert_int_equal(heap_trim(heap, 0), 0);
	fake_check(heap);
	fake_sync(&fake);
	size_t reserved = usage().reserved;
	size_t given = heap_trim(heap, reserved - 50 * MIB);
	fake_check(heap);
	assert_in_range(given, 50 * MIB, 66 * MIB);
	given += heap_trim(heap, 0);
	fake_check(heap);
	assert_true(given >= 184 * MIB);
	assert_int_equal(usage().reserved, reserved - given);
	assert_int_equal(fake.used, reserved - given);
	put(0, b);
	put(1, c);
	fake_sync(&fake);
	heap_trim(heap, 0);
	assert_int_equal(usage().reserved, 0);
	assert_int_equal(fake.used, 0);
	put(0, get(0, 300 * MIB));
}

static void usage_follows(void **state)
{
	(void)state;
	uint64_t a = get(0, 3 * MIB + 1), b = get(1, 1000);
	assert_int_equal(usage().live, 3 * MIB + 512 + 1024);
	put(0, a);
	assert_int_equal(usage().live, 1024);
	assert_int_equal(usage().binned, 3 * MIB + 512);
	assert_int_equal(usage().live_high, 3 * MIB + 512 + 1024);
	heap_usage_reset_high(heap, true, false);
	assert_int_equal(usage().live_high, 1024);
	a = get(0, 3 * MIB + 1);
	assert_int_equal(usage().live_high, 3 * MIB + 512 + 1024);
	put(1, a);
	put(0, b);
	assert_int_equal(usage().live, 0);
	size_t high = usage().reserved_high;
	fake_sync(&fake);
	heap_trim(heap, 0);
	assert_int_equal(usage().reserved_high, high);
	heap_usage_reset_high(heap, false, true);
	assert_int_equal(usage().reserved_high, usage().reserved);
}

static void out_of_memory_waits_then_fails(void **state)
{
	(void)state;
	heap_reuse_set(heap, 0);
	uint64_t va, a = get(0, 600 * MIB), b = get(1, 400 * MIB);
	assert_int_equal(try_get(1, 100 * MIB, &va), HEAP_NO_MEMORY);
	put(0, a);
	/* Nothing but the device's progress is needed. */
	a = get(1, 600 * MIB);
	assert_true(fake.blocks > 0);
	put(1, a);
	fake.frozen = true;
	assert_int_equal(try_get(0, 600 * MIB, &va), HEAP_NO_MEMORY);
	fake.frozen = false;
	/* Small ones when all chunks are large. */
	a = get(1, 600 * MIB);
	uint64_t c = get(1, 24 * MIB);
	put(1, c);
	fake_sync(&fake);
	(void)get(0, 100 * KIB);
	put(1, a);
	put(1, b);
}

static void a_captured_stream_is_left_alone(void **state)
{
	(void)state;
	uint64_t a = get(0, 64 * MIB);
	put(0, a);
	fake_capture(&fake, fs[0], true);
	assert_int_not_equal(get(1, 64 * MIB), a);
	assert_int_equal(get(0, 64 * MIB), a);
	fake_capture(&fake, fs[0], false);
}

static bool pressed;
static bool pressure(void *arg, size_t bytes)
{
	struct fake *f = arg;
	(void)bytes;
	f->device = 2 * GIB;
	pressed = true;
	return true;
}

static void pressure_comes_before_failure(void **state)
{
	(void)state;
	struct fake f;
	struct heap_backend b;
	uint64_t va;
	fake_open(&f, GIB, &b);
	b.pressure = pressure;
	struct heap *h = heap_create(&b, GIB);
	struct heap_stream *s = heap_stream_open(h, fake_stream_open(&f));
	assert_int_equal(heap_alloc(s, GIB + MIB, &va), HEAP_OK);
	assert_true(pressed);
	assert_int_equal(heap_alloc(s, 5 * GIB, &va), HEAP_NO_MEMORY);
	fake_check(h);
	heap_destroy(h);
	fake_close(&f);
}

static void after_abandon_nothing_is_called(void **state)
{
	(void)state;
	struct fake f;
	struct heap_backend b;
	fake_open(&f, GIB, &b);
	struct heap *h = heap_create(&b, GIB);
	struct heap_stream *s = heap_stream_open(h, fake_stream_open(&f));
	uint64_t va, base;
	size_t bytes;
	assert_int_equal(heap_alloc(s, 10 * MIB, &va), HEAP_OK);
	uint64_t calls = f.calls;
	heap_abandon(h);
	assert_int_equal(heap_free(h, s, va), HEAP_UNKNOWN);
	assert_int_equal(heap_alloc(s, 10 * MIB, &va), HEAP_INVALID);
	assert_false(heap_find(h, va, &base, &bytes));
	assert_int_equal(heap_trim(h, 0), 0);
	heap_stream_close(s);
	heap_destroy(h);
	assert_int_equal(f.calls, calls);
	f.fail_every = 1; /* the chunks went with the context */
	fake_close(&f);
}

static void peers_get_access(void **state)
{
	(void)state;
	uint64_t a = get(0, 10 * MIB);
	uint64_t n = fake.accesses;
	assert_int_equal(heap_access_again(heap), HEAP_OK);
	assert_true(fake.accesses > n);
	fake.fail_at = fake.calls + 1;
	assert_int_equal(heap_access_again(heap), 700);
	put(0, a);
}

/* A program of every kind of step; returns how many allocations failed. */
static int steps(void)
{
	uint64_t va[40] = {0}, big = 0, last = 0, small[8] = {0};
	int failed = 0;
	for (int i = 0; i < 40; i++)
		failed += try_get(i % 2, 8 * MIB + (size_t)(i % 3) * MIB, &va[i]) != 0;
	for (int i = 0; i < 8; i++)
		failed += try_get(2, 300 * KIB, &small[i]) != 0;
	for (int i = 0; i < 40; i += 2)
		if (va[i])
			put(i % 4 / 2, va[i]);
	failed += try_get(1, 150 * MIB, &big) != 0;
	if (big)
		put(1, big);
	fake_run(&fake, fs[0], 30);
	heap_trim(heap, 300 * MIB);
	fake_check(heap);
	failed += try_get(3, 200 * MIB, &last) != 0;
	for (int i = 0; i < 8; i++)
		if (small[i])
			put(3, small[i]);
	for (int i = 1; i < 40; i += 2)
		if (va[i])
			put(0, va[i]);
	if (last)
		put(3, last);
	fake_sync(&fake);
	heap_trim(heap, 0);
	fake_check(heap);
	return failed;
}

/* Each call in turn fails; the heap stays whole and works when the calls do. */
static void any_call_may_fail(void **state)
{
	(void)state;
	static const int codes[] = {700, HEAP_NO_MEMORY};
	for (int c = 0; c < 2; c++)
		for (uint64_t n = 1;; n++) {
			assert_int_equal(open_with(GIB, &(struct heap_tune){.block_ns = 1000}), 0);
			uint64_t before = fake.calls;
			fake.fail_with = codes[c];
			fake.fail_at = before + n;
			(void)steps();
			bool reached = fake.calls >= fake.fail_at;
			fake.fail_at = 0;
			uint64_t va;
			assert_int_equal(heap_alloc(hs[0], 300 * MIB, &va), HEAP_OK);
			assert_int_equal(holds, 0);
			fake_check(heap);
			fake_sync(&fake);
			fake.fail_every = UINT64_MAX; /* what could not be undone may be left */
			heap_destroy(heap);
			fake_close(&fake);
			if (!reached) {
				print_message("%llu calls failed in turn with %d\n", (unsigned long long)n - 1, codes[c]);
				break;
			}
		}
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(warm_pairs_make_no_call),
		CASE(last_in_first_out),
		CASE(bad_arguments),
		CASE(find_knows_the_inside),
		CASE(look_tells_what_was_asked_for),
		CASE(another_stream_waits_or_grows),
		CASE(the_freeing_stream_counts),
		CASE(a_synchronisation_frees_for_all),
		CASE(closed_streams_leave_their_blocks),
		CASE(scattered_memory_is_stitched),
		CASE(a_closed_streams_view_is_usable),
		CASE(trim_gives_back_what_is_over),
		CASE(usage_follows),
		CASE(out_of_memory_waits_then_fails),
		CASE(a_captured_stream_is_left_alone),
		cmocka_unit_test(pressure_comes_before_failure),
		cmocka_unit_test(after_abandon_nothing_is_called),
		CASE(peers_get_access),
		cmocka_unit_test(any_call_may_fail),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

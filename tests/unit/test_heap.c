/* test_heap.c - what the stream-ordered heap hands out, when, and with which calls. */
#include "unit/heap_fixture.h"

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
	assert_int_equal(heap_trim(heap, 0, 0), 0);
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
	assert_int_equal(heap_trim(heap, 0, 0), 0);
	fake_check(heap);
	fake_sync(&fake);
	size_t reserved = usage().reserved;
	size_t given = heap_trim(heap, reserved - 50 * MIB, 0);
	fake_check(heap);
	assert_in_range(given, 50 * MIB, 66 * MIB);
	given += heap_trim(heap, 0, 0);
	fake_check(heap);
	assert_true(given >= 184 * MIB);
	assert_int_equal(usage().reserved, reserved - given);
	assert_int_equal(fake.used, reserved - given);
	put(0, b);
	put(1, c);
	fake_sync(&fake);
	heap_trim(heap, 0, 0);
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
	heap_trim(heap, 0, 0);
	assert_int_equal(usage().reserved_high, high);
	heap_usage_reset_high(heap, false, true);
	assert_int_equal(usage().reserved_high, usage().reserved);
}

/* With many streams the most that was held is not exact, but never too low, and right within its bounds. */
static void many_streams_high(void **state)
{
	(void)state;
	struct heap_stream *s[12];
	uint64_t va[12];
	for (int i = 0; i < 12; i++)
		s[i] = heap_stream_open(heap, fake_stream_open(&fake));
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 12; i++)
			assert_int_equal(heap_alloc(s[i], 3 * MIB, &va[i]), HEAP_OK);
		assert_int_equal(usage().live, 36 * MIB);
		for (int i = 0; i < 12; i++)
			assert_int_equal(heap_free(heap, s[i], va[i]), HEAP_OK);
		assert_int_equal(usage().live, 0);
		assert_in_range(usage().live_high, 36 * MIB, 40 * MIB);
	}
	heap_usage_reset_high(heap, true, false);
	assert_int_equal(usage().live_high, 0);
	for (int i = 0; i < 12; i++)
		heap_stream_close(s[i]);
	assert_int_equal(usage().live, 0);
}

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
		CASE(many_streams_high),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

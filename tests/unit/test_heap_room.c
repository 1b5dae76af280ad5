/*
 * test_heap_room.c - memory that is given back, or found, when it is short: what is waited for, and how long; how
 * large chunks are.
 */
#include "unit/heap_fixture.h"

#define LONG_NS 1000000000ull /* streams of the fake go on when they are waited for */

static void trim_waits_for_what_is_nearly_over(void **state)
{
	(void)state;
	put(0, get(0, 300 * MIB));
	put(1, get(1, 100 * KIB));
	assert_int_equal(heap_trim(heap, 0, 0), 0);
	assert_true(heap_trim(heap, 100 * MIB, LONG_NS) > 0);
	assert_in_range(usage().reserved, 84 * MIB, 100 * MIB);
	heap_trim(heap, 0, LONG_NS);
	assert_int_equal(usage().reserved, 0);
	/* Nothing is free: nothing is waited for. */
	get(0, 10 * MIB);
	uint64_t blocks = usage().blocks;
	assert_int_equal(heap_trim(heap, 0, LONG_NS), 0);
	assert_int_equal(usage().blocks, blocks);
}

static void two_streams_free(void)
{
	uint64_t a = get(0, 300 * MIB), b = get(1, 200 * MIB);
	put(0, a);
	put(1, b);
}

static void trim_does_not_wait_for_long(void **state)
{
	(void)state;
	two_streams_free();
	fake.busy = true;
	assert_int_equal(heap_trim(heap, 0, HEAP_TRIM_NS), 0);
	assert_true(fake.waited_ns <= 2 * HEAP_TRIM_NS);
	/* One stream is busy, the other is not. */
	fake_run(&fake, fs[1], 100);
	assert_true(heap_trim(heap, 0, HEAP_TRIM_NS) >= 184 * MIB);
	assert_in_range(usage().reserved, 284 * MIB, 320 * MIB);
	fake.busy = false;
}

static void trim_stops_at_a_stream_that_refuses(void **state)
{
	(void)state;
	put(0, get(0, 300 * MIB));
	fake_capture(&fake, fs[0], true);
	assert_int_equal(heap_trim(heap, 0, LONG_NS), 0);
	fake_capture(&fake, fs[0], false);
	assert_true(heap_trim(heap, 0, LONG_NS) >= 300 * MIB);
}

static void room_is_waited_for_a_little(void **state)
{
	(void)state;
	two_streams_free();
	fake_run(&fake, fs[1], 100);
	fake.busy = true;
	assert_true(heap_make_room(heap) >= 184 * MIB);
	assert_true(fake.waited_ns <= 2 * HEAP_TRIM_NS);
	fake.busy = false;
	assert_true(heap_make_room(heap) >= 284 * MIB);
}

static int setup_short(void **state)
{
	(void)state;
	return open_with(GIB, &(struct heap_tune){.chunks = 64, .block_ns = 30000000});
}

static void room_is_not_waited_for_without_end(void **state)
{
	(void)state;
	put(0, get(0, 300 * MIB));
	fake.busy = true;
	assert_int_equal(heap_make_room(heap), 0);
	assert_in_range(fake.waited_ns, 10000000, 60000000);
	fake.busy = false;
}

/* All memory is in large chunks that the stream itself has freed: a small block needs one of them given back. */
static void small_after_large_on_one_stream(void **state)
{
	(void)state;
	uint64_t va[64];
	for (int i = 0; i < 64; i++)
		va[i] = get(0, 16 * MIB);
	for (int i = 0; i < 64; i++)
		put(0, va[i]);
	get(0, 4 * KIB);
}

/* A block of each size that was stitched once: the addresses for views run out. */
static void view_addresses_come_back(void **state)
{
	(void)state;
	uint64_t small[64];
	for (int i = 0; i < 64; i++)
		small[i] = get(0, 16 * MIB);
	for (int i = 0; i < 64; i += 2)
		put(0, small[i]);
	for (size_t i = 0; i < 17; i++)
		put(0, get(0, (256 + 16 * i) * MIB));
	assert_true(usage().stitches > 15);
}

/* ---- how large chunks are ---- */

static size_t chunks_for(size_t bytes)
{
	size_t before = usage().chunks;
	get(0, bytes);
	return usage().chunks - before;
}

static void chunks_fit_the_request(void **state)
{
	(void)state;
	assert_int_equal(chunks_for(64 * MIB), 4);
	assert_int_equal(chunks_for(16 * MIB), 1);
	assert_int_equal(chunks_for(8 * MIB), 1);
	assert_int_equal(chunks_for(8 * MIB), 1);
	assert_int_equal(chunks_for(4 * MIB), 1);
	/* Survivors of a mixture: they hold what they are in. */
	assert_int_equal(chunks_for(2 * MIB), 1);
	assert_int_equal(chunks_for(3 * MIB), 2);
	/* Less than half is left: not larger than the request. */
	get(0, 500 * MIB);
	assert_in_range(chunks_for(12 * MIB), 2, 3);
	assert_in_range(chunks_for(64 * MIB), 4, 5);
}

static int setup_little(void **state)
{
	(void)state;
	return open_with(8 * GIB, NULL);
}

static void chunks_fit_the_device(void **state)
{
	(void)state;
	fake.loose = true;
	fake.used = 6 * GIB + 512 * MIB; /* somebody else's */
	assert_int_equal(chunks_for(64 * MIB), 32);
	fake.used -= 6 * GIB + 512 * MIB;
	assert_int_equal(chunks_for(64 * MIB), 8);
}

/* Blocks of the size of chunks do not lie across them. */
static void chunks_meet_at_their_multiples(void **state)
{
	(void)state;
	uint64_t va[16];
	uint64_t big = get(0, 256 * MIB - 512);
	put(0, big);
	for (int i = 0; i < 16; i++)
		va[i] = get(0, 16 * MIB - (i == 15 ? 512 : 0));
	for (int i = 0; i < 16; i += 2)
		put(0, va[i]);
	fake_sync(&fake);
	assert_int_equal(heap_trim(heap, 0, 0), 128 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(trim_waits_for_what_is_nearly_over),
		CASE(trim_does_not_wait_for_long),
		CASE(trim_stops_at_a_stream_that_refuses),
		CASE(room_is_waited_for_a_little),
		cmocka_unit_test_setup_teardown(room_is_not_waited_for_without_end, setup_short, teardown),
		CASE(small_after_large_on_one_stream),
		CASE(view_addresses_come_back),
		CASE(chunks_fit_the_request),
		cmocka_unit_test_setup_teardown(chunks_fit_the_device, setup_little, teardown),
		CASE(chunks_meet_at_their_multiples),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

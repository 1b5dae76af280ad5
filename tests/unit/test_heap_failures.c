/* test_heap_failures.c - the heap when memory is out, streams are captured, contexts die, and calls fail. */
#include "unit/heap_fixture.h"

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
	assert_int_equal(heap_trim(h, 0, 0), 0);
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

#define BLOCKS 14

/* A program of every kind of step. */
static void steps(void)
{
	uint64_t va[BLOCKS] = {0}, big = 0, last = 0, small[3] = {0};
	for (int i = 0; i < BLOCKS; i++)
		(void)try_get(i % 2, 8 * MIB + (size_t)(i % 3) * MIB, &va[i]);
	for (int i = 0; i < 3; i++)
		(void)try_get(2, 300 * KIB, &small[i]);
	for (int i = 0; i < BLOCKS; i += 2)
		if (va[i])
			put(i % 4 / 2, va[i]);
	if (!try_get(1, 50 * MIB, &big))
		put(1, big);
	fake_run(&fake, fs[0], 30);
	heap_trim(heap, 100 * MIB, 0);
	fake_check(heap);
	(void)try_get(3, 64 * MIB, &last);
	for (int i = 0; i < 3; i++)
		if (small[i])
			put(3, small[i]);
	for (int i = 1; i < BLOCKS; i += 2)
		if (va[i])
			put(0, va[i]);
	if (last)
		put(3, last);
	fake_sync(&fake);
	heap_trim(heap, 0, 0);
	fake_check(heap);
}

/* Each call in turn fails; the heap stays whole and works when the calls do. */
static void any_call_may_fail(void **state)
{
	(void)state;
	static const int codes[] = {700, HEAP_NO_MEMORY};
	for (int c = 0; c < 2; c++)
		for (uint64_t n = 1;; n++) {
			assert_int_equal(open_with(160 * MIB, &(struct heap_tune){.block_ns = 1000, .chunks = 10}), 0);
			uint64_t before = fake.calls;
			fake.fail_with = codes[c];
			fake.fail_at = before + n;
			steps();
			bool reached = fake.calls >= fake.fail_at;
			struct heap_usage u = usage();
			/* Undisturbed, the program takes every kind of way. */
			if (!reached)
				assert_true(u.stitches && u.waits && u.steals && u.trims && fake.unmaps > u.trims);
			fake.fail_at = 0;
			uint64_t va;
			assert_int_equal(heap_alloc(hs[0], 100 * MIB, &va), HEAP_OK);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(out_of_memory_waits_then_fails),
		CASE(a_captured_stream_is_left_alone),
		cmocka_unit_test(pressure_comes_before_failure),
		cmocka_unit_test(after_abandon_nothing_is_called),
		CASE(peers_get_access),
		cmocka_unit_test(any_call_may_fail),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_devmem_heap_look.c - what the program may be told of a block of the stream-ordered heap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/heap_fake.h"

#define MIB ((size_t)1 << 20)

static struct fake fake;
static struct heap_backend backend;
static struct heap *heap;
static struct fake_stream *fs;
static struct heap_stream *hs;

static int setup(void **state)
{
	(void)state;
	fake_open(&fake, 256 * MIB, &backend);
	heap = heap_create(&backend, 256 * MIB);
	fs = fake_stream_open(&fake);
	hs = heap ? heap_stream_open(heap, fs) : NULL;
	return hs ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	fake_sync(&fake);
	heap_destroy(heap);
	fake_close(&fake);
	return 0;
}

static uint64_t get(size_t bytes)
{
	uint64_t va = 0;
	assert_int_equal(heap_alloc(hs, bytes, &va), HEAP_OK);
	return va;
}

static struct heap_view_of look(uint64_t va)
{
	struct heap_view_of block;
	assert_true(heap_look(heap, va, &block));
	return block;
}

static void it_has_the_size_that_was_asked_for(void **state)
{
	static const size_t sizes[] = {1, 511, 512, 513, 1000, MIB - 3, 3 * MIB + 1, 40 * MIB};
	struct heap_view_of none;

	(void)state;
	for (unsigned again = 0; again < 3; again++)
		for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			uint64_t va = get(sizes[i]);
			struct heap_view_of first = look(va), last = look(va + sizes[i] - 1);
			assert_int_equal(first.base, va);
			assert_int_equal(first.asked, sizes[i]);
			assert_int_equal(last.base, va);
			assert_int_equal(last.asked, sizes[i]);
			assert_int_equal(last.id, first.id);
			assert_false(heap_look(heap, va + sizes[i], &none));
			assert_int_equal(heap_free(heap, hs, va), HEAP_OK);
			assert_false(heap_look(heap, va, &none));
			assert_true(heap_owns(heap, va));
		}
}

/* The same address, the next life. */
static void an_id_is_seen_once(void **state)
{
	uint64_t last = 0, va = get(MIB), same = va;

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		uint64_t id = look(va).id;
		assert_true(id > last);
		assert_int_equal(look(va + 5).id, id);
		last = id;
		assert_int_equal(heap_free(heap, hs, va), HEAP_OK);
		va = get(MIB - i);
		assert_int_equal(va, same);
	}
	assert_int_equal(heap_free(heap, hs, va), HEAP_OK);
}

static void neighbours_differ(void **state)
{
	uint64_t va[50];

	(void)state;
	for (unsigned i = 0; i < 50; i++)
		va[i] = get(1024);
	for (unsigned i = 0; i < 50; i++)
		for (unsigned k = 0; k < i; k++)
			assert_int_not_equal(look(va[i]).id, look(va[k]).id);
	for (unsigned i = 0; i < 50; i++)
		assert_int_equal(heap_free(heap, hs, va[i]), HEAP_OK);
}

static void what_is_no_block_has_none(void **state)
{
	struct heap_view_of none;

	(void)state;
	assert_false(heap_look(heap, 4096, &none));
	assert_false(heap_look(heap, get(MIB) + 100 * MIB, &none));
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(it_has_the_size_that_was_asked_for),
		CASE(an_id_is_seen_once),
		CASE(neighbours_differ),
		CASE(what_is_no_block_has_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

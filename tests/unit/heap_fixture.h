/* heap_fixture.h - a heap on a fake device with four streams, for one case of a test. */
#ifndef TEST_HEAP_FIXTURE_H
#define TEST_HEAP_FIXTURE_H

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

static inline int open_with(size_t device, const struct heap_tune *tune)
{
	holds = 0;
	fake_open(&fake, device, &backend);
	fake.look = heap = heap_create_tuned(&backend, device, tune);
	for (int i = 0; heap && i < 4; i++) {
		fs[i] = fake_stream_open(&fake);
		hs[i] = heap_stream_open(heap, fs[i]);
		if (!hs[i])
			return -1;
	}
	return heap ? 0 : -1;
}

static inline int setup(void **state)
{
	(void)state;
	/* Chunks as large as on a large device. */
	return open_with(GIB, &(struct heap_tune){.chunks = 64});
}

static inline int teardown(void **state)
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

static inline int try_get(int i, size_t bytes, uint64_t *va)
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

static inline uint64_t get(int i, size_t bytes)
{
	uint64_t va = 0;
	assert_int_equal(try_get(i, bytes, &va), HEAP_OK);
	return va;
}

static inline void put(int i, uint64_t va)
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

static inline struct heap_usage usage(void)
{
	struct heap_usage u;
	heap_usage(heap, &u);
	return u;
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#endif

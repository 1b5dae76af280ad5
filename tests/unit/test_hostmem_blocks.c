/* NATIVE: it fills some GiB, a page at a time
 * The table of large blocks: from any address to its block while threads take, resize and free them; what is kept, and what
 * is given back under pressure; what is cleared by hand, and what gets huge pages.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <cmocka.h>

#include "policy/hostmem/blocks.h"
#include "policy/hostmem/kept.h"

#define MIB ((size_t)1 << 20)
#define THREADS 4

/* Something of every page. */
static void fill(char *p, size_t bytes)
{
	for (size_t i = 0; i + 64 <= bytes; i += 4096)
		memset(p + i, 0x5a, 64);
}

static int empty(void **state)
{
	(void)state;
	kept_press(false);
	kept_start(512 * MIB);
	kept_drop_all(false);
	return 0;
}

/* ---- from an address to its block ---- */

static void every_address_leads_to_its_block(void **state)
{
	static const size_t sizes[] = {3 * MIB, 32 * MIB, 33 * MIB + 5, 40 * MIB};
	static const size_t aligns[] = {16, 64, 2048, 4096, 2 * MIB};
	char here;

	(void)state;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (unsigned a = 0; a < sizeof(aligns) / sizeof(aligns[0]); a++) {
			char *p = blocks_take(sizes[i], aligns[a], false);
			struct big_block *b;
			assert_non_null(p);
			assert_int_equal((uintptr_t)p % aligns[a], 0);
			/* what free() looks at first */
			assert_true(((uintptr_t)p & ((2 * MIB) - 1)) <= 2048);
			b = blocks_at(p);
			assert_non_null(b);
			assert_ptr_equal(blocks_at(p + sizes[i] / 2), b);
			assert_ptr_equal(blocks_at(p + sizes[i] - 1), b);
			assert_null(blocks_at(p - 1));
			assert_true(blocks_size(p) >= sizes[i]);
			assert_int_equal(blocks_size(p + 1), 0);
			assert_false(blocks_give(p + 4096));
			assert_true(blocks_give(p));
			assert_null(blocks_at(p));
			assert_int_equal(blocks_size(p), 0);
		}
	assert_null(blocks_at(NULL));
	assert_null(blocks_at(&here));
	assert_false(blocks_give(&here));
	assert_int_equal(blocks_size((void *)UINTPTR_MAX), 0);
}

static void a_size_that_cannot_be_is_refused(void **state)
{
	char *p;

	(void)state;
	assert_null(blocks_take(SIZE_MAX, 16, false));
	assert_null(blocks_take(SIZE_MAX / 2, 16, true));
	assert_null(blocks_take(32 * MIB, 8 * MIB, false));
	p = blocks_take(32 * MIB, 16, false);
	assert_null(blocks_resize(p, SIZE_MAX / 2));
	fill(p, 32 * MIB); /* still there */
	assert_true(blocks_give(p));
}

static long faults(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u.ru_minflt;
}

static void realloc_moves_pages(void **state)
{
	char *p = blocks_take(64 * MIB, 16, false), *q, *fence;
	long before;

	(void)state;
	fill(p, 64 * MIB);
	fence = blocks_take(32 * MIB, 16, false); /* more often than not it lies in the way */
	before = faults();
	q = blocks_resize(p, 512 * MIB);
	assert_non_null(q);
	assert_true(faults() - before < 1000); /* of 16384 */
	assert_ptr_equal(blocks_begin(blocks_at(q + 512 * MIB - 1)), q);
	for (size_t i = 0; i + 64 <= 64 * MIB; i += 4096)
		assert_int_equal(q[i], 0x5a);
	p = blocks_resize(q, 33 * MIB);
	assert_ptr_equal(p, q);
	assert_null(blocks_at(q + 40 * MIB));
	assert_true(blocks_give(p));
	assert_true(blocks_give(fence));
}

static _Atomic int stop;

/* Asks for addresses that other threads take and free. */
static void *ask(void *base)
{
	unsigned long seen = 0;

	while (!stop)
		for (size_t i = 0; i < 4096; i++) {
			const char *p = (const char *)base + i * (MIB / 2);
			seen += blocks_at(p) != NULL;
			seen += blocks_size(p);
		}
	return (void *)seen;
}

/* cmocka's own are for the main thread. */
static void must(int what)
{
	if (!what)
		abort();
}

static void *take_and_give(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;

	for (int i = 0; i < 150; i++) {
		size_t bytes = (1 + (size_t)rand_r(&seed) % 6) * MIB;
		char *p = blocks_take(bytes, rand_r(&seed) % 2 ? 16 : 4096, rand_r(&seed) % 3 == 0), *q;
		must(p != NULL);
		p[0] = (char)i;
		p[bytes - 1] = (char)~i;
		must((char *)blocks_begin(blocks_at(p + bytes - 1)) == p);
		if (rand_r(&seed) % 3 == 0 && (q = blocks_resize(p, bytes * 2))) {
			must(q[0] == (char)i && q[bytes - 1] == (char)~i);
			p = q;
		} else if (rand_r(&seed) % 2) {
			fill(p, bytes);
		}
		must(blocks_give(p));
	}
	return NULL;
}

static void threads_look_while_others_take_and_give(void **state)
{
	pthread_t look, thread[THREADS];
	char *p = blocks_take(4 * MIB, 16, false);

	(void)state;
	stop = 0;
	assert_int_equal(pthread_create(&look, NULL, ask, p - 1024 * MIB), 0);
	assert_true(blocks_give(p));
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, take_and_give, (void *)(i + 1)), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	stop = 1;
	pthread_join(look, NULL);
	while (kept_drop_all(false))
		;
	assert_int_equal(kept_bytes(), 0);
}

/* ---- what is kept ---- */

static void what_was_filled_is_kept(void **state)
{
	char *p = blocks_take(40 * MIB, 16, false), *q;

	(void)state;
	fill(p, 40 * MIB);
	assert_true(blocks_give(p));
	assert_true(kept_bytes() >= 40 * MIB);
	q = blocks_take(39 * MIB, 16, false);
	assert_ptr_equal(q, p);
	assert_int_equal(kept_bytes(), 0);
	assert_true(blocks_give(q)); /* as dense as before */
	assert_true(kept_bytes() >= 40 * MIB);
}

static void what_was_touched_here_and_there_is_not(void **state)
{
	char *p = blocks_take(40 * MIB, 16, false);

	(void)state;
	fill(p, 4 * MIB);
	assert_true(blocks_give(p));
	assert_int_equal(kept_bytes(), 0);
}

static void nothing_is_kept_under_pressure(void **state)
{
	char *p = blocks_take(40 * MIB, 16, false);

	(void)state;
	fill(p, 40 * MIB);
	assert_true(blocks_give(p));
	assert_true(kept_bytes() > 0);
	kept_press(true);
	assert_int_equal(kept_round(0, 0), 0); /* as the trimmer does then */
	p = blocks_take(40 * MIB, 16, false);
	fill(p, 40 * MIB);
	assert_true(blocks_give(p));
	assert_int_equal(kept_bytes(), 0);
}

static void no_more_is_kept_than_was_said(void **state)
{
	char *p[6];

	(void)state;
	kept_start(100 * MIB);
	for (int i = 0; i < 6; i++) {
		p[i] = blocks_take(32 * MIB, 16, false);
		fill(p[i], 32 * MIB);
	}
	for (int i = 0; i < 6; i++) {
		assert_true(blocks_give(p[i]));
		assert_true(kept_bytes() <= 100 * MIB);
	}
	assert_true(kept_bytes() > 90 * MIB);
	p[0] = blocks_take(128 * MIB, 16, false);
	fill(p[0], 128 * MIB);
	assert_true(blocks_give(p[0])); /* more than all that may be kept: it drops nothing else */
	assert_true(kept_bytes() > 90 * MIB);
}

/* ---- calloc ---- */

/* What fill() has written. */
static void all_zero(const char *p, size_t bytes)
{
	static const char zero[64];

	for (size_t i = 0; i + 64 <= bytes; i += 4096)
		assert_memory_equal(p + i, zero, 64);
}

static void calloc_is_zero_and_large_ones_get_new_pages(void **state)
{
	static const size_t sizes[] = {40 * MIB, 256 * MIB, 256 * MIB + 4096};

	(void)state;
	for (unsigned s = 0; s < 3; s++) {
		unsigned again = 0;
		for (int i = 0; i < 4; i++) {
			size_t before;
			char *p = blocks_take(sizes[s], 16, false);
			fill(p, sizes[s]);
			assert_true(blocks_give(p));
			before = kept_bytes();
			assert_true(before >= sizes[s]);
			p = blocks_take(sizes[s], 16, true);
			all_zero(p, sizes[s]);
			again += kept_bytes() < before;
			fill(p, sizes[s]); /* learned: calloc's are filled */
			assert_true(blocks_give(p));
			kept_drop_all(false);
		}
		if (s < 2)
			assert_true(again > 0);
		else
			assert_int_equal(again, 0); /* never cleared by hand */
	}
}

/* ---- huge pages ---- */

/* Of the mapping that `p` lies in: it has been advised to have huge pages. -1: the system does not say. */
static int advised(const void *p)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	char line[1024];
	uintptr_t from, end;
	int inside = 0, is = -1;

	while (f && is < 0 && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &end) == 2)
			inside = (uintptr_t)p >= from && (uintptr_t)p < end;
		else if (inside && !strncmp(line, "VmFlags:", 8))
			is = strstr(line, " hg") != NULL;
	}
	if (f)
		fclose(f);
	return is;
}

/* A size that no other case has: what is learned goes by size. */
static void only_what_was_filled_gets_huge_pages(void **state)
{
	const size_t bytes = 100 * MIB;
	char *p;

	(void)state;
	p = blocks_take(bytes, 16, false);
	if (advised(p) < 0)
		skip();
	assert_int_equal(advised(p), 0); /* nothing is known of the size */
	fill(p, bytes / 4);
	assert_true(blocks_give(p));
	p = blocks_take(bytes, 16, false);
	assert_int_equal(advised(p), 0);
	fill(p, bytes);
	assert_true(blocks_give(p));
	kept_drop_all(false);
	p = blocks_take(bytes, 16, false); /* new */
	assert_int_equal(advised(p), 1);
	fill(p, bytes / 4);
	assert_true(blocks_give(p)); /* by a huge page at most more than a quarter */
	p = blocks_take(bytes, 16, false);
	assert_int_equal(advised(p), 0);
	assert_true(blocks_give(p));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(only_what_was_filled_gets_huge_pages, empty),
		cmocka_unit_test_setup(every_address_leads_to_its_block, empty),
		cmocka_unit_test_setup(a_size_that_cannot_be_is_refused, empty),
		cmocka_unit_test_setup(realloc_moves_pages, empty),
		cmocka_unit_test_setup(threads_look_while_others_take_and_give, empty),
		cmocka_unit_test_setup(what_was_filled_is_kept, empty),
		cmocka_unit_test_setup(what_was_touched_here_and_there_is_not, empty),
		cmocka_unit_test_setup(nothing_is_kept_under_pressure, empty),
		cmocka_unit_test_setup(no_more_is_kept_than_was_said, empty),
		cmocka_unit_test_setup(calloc_is_zero_and_large_ones_get_new_pages, empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

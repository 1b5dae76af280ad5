/* test_devmem_bins.c - cached blocks by size: what is found always fits, and fits best. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "policy/devmem/block.h"
#include "policy/devmem/cache_bins.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

static struct bins bins;

static int open_bins(void **state)
{
	(void)state;
	return bins_open(&bins, 141 * GIB) ? 0 : -1;
}

static int close_bins(void **state)
{
	(void)state;
	bins_close(&bins);
	return 0;
}

static struct block *best_fit(const struct bins *bins, size_t rounded)
{
	return bins_find(bins, rounded, bins_most(rounded));
}

static void requests_are_rounded_as_the_driver_hands_out(void **state)
{
	(void)state;
	assert_int_equal(bins_round(1), 512);
	assert_int_equal(bins_round(512), 512);
	assert_int_equal(bins_round(513), 1024);
	assert_int_equal(bins_round(MIB), MIB);
	assert_int_equal(bins_round(MIB + 1), 2 * MIB);
	assert_int_equal(bins_round(140 * GIB + 1), 140 * GIB + 2 * MIB);
}

static void a_block_is_found_by_what_it_was_asked_for(void **state)
{
	static const size_t sizes[] = {1,       511,     512,      4000, MIB - 1,  MIB,
								   MIB + 1, 3 * MIB, 20 * MIB, GIB,  140 * GIB};
	(void)state;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct block b = {.size = bins_round(sizes[i])};
		assert_null(best_fit(&bins, bins_round(sizes[i])));
		bins_put(&bins, &b);
		assert_ptr_equal(best_fit(&bins, bins_round(sizes[i])), &b);
		bins_take(&bins, &b);
		assert_null(best_fit(&bins, bins_round(sizes[i])));
	}
}

static void no_more_than_an_eighth_is_given_away(void **state)
{
	(void)state;
	struct block b = {.size = 18 * MIB};
	bins_put(&bins, &b);
	assert_ptr_equal(best_fit(&bins, 16 * MIB), &b);
	assert_null(best_fit(&bins, 14 * MIB));
	assert_null(best_fit(&bins, 20 * MIB));
	bins_take(&bins, &b);
}

/* What the driver gave when it had no more: an odd size, only for requests that it covers. */
static void odd_sizes_never_serve_too_much(void **state)
{
	(void)state;
	struct block b = {.size = 3 * MIB + 17};
	bins_put(&bins, &b);
	assert_null(best_fit(&bins, 4 * MIB));
	assert_null(best_fit(&bins, 2 * MIB)); /* too large for it */
	bins_take(&bins, &b);
	b.size = 2 * MIB + 17;
	bins_put(&bins, &b);
	assert_ptr_equal(best_fit(&bins, 2 * MIB), &b);
	assert_null(best_fit(&bins, 4 * MIB));
	bins_take(&bins, &b);
}

/* Against a plain search, with sizes of all magnitudes. */
static void the_best_fit_is_found(void **state)
{
	enum { MANY = 400 };
	static struct block block[MANY];
	static bool in[MANY];
	uint64_t x = 88172645463325252ull;
	(void)state;
	for (int step = 0; step < 200000; step++) {
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		unsigned i = (unsigned)(x >> 20) % MANY, bits = 9 + (unsigned)(x >> 40) % 27;
		if (in[i]) {
			bins_take(&bins, &block[i]);
			in[i] = false;
			continue;
		}
		size_t request = bins_round(((size_t)1 << bits) + (x >> 10) % ((size_t)1 << bits)), best = SIZE_MAX;
		for (int k = 0; k < MANY; k++)
			if (in[k] && block[k].size >= request && block[k].size <= bins_most(request) &&
				block[k].size < best)
				best = block[k].size;
		struct block *found = best_fit(&bins, request);
		if (best == SIZE_MAX)
			assert_null(found);
		else
			assert_int_equal(found->size, best);
		block[i].size = request;
		bins_put(&bins, &block[i]);
		in[i] = true;
	}
	for (int k = 0; k < MANY; k++)
		if (in[k])
			bins_take(&bins, &block[k]);
}

static void small_devices_have_bins_too(void **state)
{
	(void)state;
	struct bins small;
	struct block b = {.size = 64 * MIB};
	assert_true(bins_open(&small, 16 * MIB));
	bins_put(&small, &b); /* larger than its device: never found, never lost */
	assert_null(best_fit(&small, 16 * MIB));
	bins_take(&small, &b);
	bins_close(&small);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_are_rounded_as_the_driver_hands_out),
		cmocka_unit_test(a_block_is_found_by_what_it_was_asked_for),
		cmocka_unit_test(no_more_than_an_eighth_is_given_away),
		cmocka_unit_test(odd_sizes_never_serve_too_much),
		cmocka_unit_test(the_best_fit_is_found),
		cmocka_unit_test(small_devices_have_bins_too),
	};
	return cmocka_run_group_tests(tests, open_bins, close_bins);
}

/* test_hooks.c - the table is sorted and complete, names are found exactly, and a count stub changes nothing. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <cuda.h>

#include "hooks.h"
#include "real.h"
#include "stats.h"

/* ---- the table ---- */

static void table_is_sorted_and_unique(void **state)
{
	(void)state;
	assert_true(HOOK_COUNT > 900);
	for (int i = 1; i < HOOK_COUNT; i++)
		assert_true(strcmp(hook_table[i - 1].name, hook_table[i].name) < 0);
	for (int i = 0; i < HOOK_COUNT; i++)
		assert_int_equal(hook_id_of(&hook_table[i]), i);
}

static void ids_match_names(void **state)
{
	(void)state;
	assert_string_equal(hook_table[HOOK_cuMemcpyHtoDAsync_v2_ptsz].name, "cuMemcpyHtoDAsync_v2_ptsz");
	assert_string_equal(hook_table[HOOK_pncclAllReduce].name, "pncclAllReduce");
	assert_int_equal(hook_table[HOOK_cuInit].lib, HOOK_LIB_CUDA);
	assert_int_equal(hook_table[HOOK_ncclAllGather].lib, HOOK_LIB_NCCL);
	assert_int_equal(hook_table[HOOK_cuptiSubscribe].lib, HOOK_LIB_CUPTI);
}

static int by_address(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t) * (void *const *)a, y = (uintptr_t) * (void *const *)b;

	return x < y ? -1 : x > y;
}

/* Each hook and count row has an entry of its own, a pass row has none. */
static void entries_are_present_and_distinct(void **state)
{
	static void *ours[HOOK_COUNT];
	int count = 0;

	(void)state;
	for (int i = 0; i < HOOK_COUNT; i++) {
		const struct hook_row *row = &hook_table[i];

		switch (row->how) {
		case HOOK_HOW_HOOK: assert_string_not_equal(row->taker, "-"); break;
		case HOOK_HOW_COUNT: assert_string_equal(row->taker, "-"); break;
		default:
			assert_int_equal(row->how, HOOK_HOW_PASS);
			assert_string_equal(row->taker, "-");
			assert_null(row->ours);
			continue;
		}
		assert_non_null(row->ours);
		ours[count++] = row->ours;
	}
	qsort(ours, (size_t)count, sizeof(ours[0]), by_address);
	for (int i = 1; i < count; i++)
		assert_ptr_not_equal(ours[i - 1], ours[i]);
	assert_ptr_equal(hook_table[HOOK_cuInit].ours, (void *)cuInit);
	assert_ptr_equal(hook_table[HOOK_cuLaunchKernel_ptsz].ours, (void *)cuLaunchKernel_ptsz);
}

static void treatments_that_others_rely_on(void **state)
{
	static const struct {
		enum hook_id id;
		enum hook_how how;
		const char *taker;
	} want[] = {
		{HOOK_cuInit, HOOK_HOW_HOOK, "init"},
		{HOOK_cuGetProcAddress, HOOK_HOW_HOOK, "resolve"},
		{HOOK_cuGetProcAddress_v2, HOOK_HOW_HOOK, "resolve"},
		{HOOK_cuMemcpy_ptds, HOOK_HOW_HOOK, "copy"},
		{HOOK_cuMemcpyDtoH_v2, HOOK_HOW_HOOK, "copy"},
		{HOOK_cuMemcpyHtoD, HOOK_HOW_COUNT, "-"},
		{HOOK_cuStreamEndCapture_ptsz, HOOK_HOW_HOOK, "copy"},
		{HOOK_cuCtxDestroy_v2, HOOK_HOW_HOOK, "context"},
		{HOOK_cuMemAlloc_v2, HOOK_HOW_COUNT, "-"},
		{HOOK_cuStreamIsCapturing, HOOK_HOW_COUNT, "-"},
		{HOOK_cuGetExportTable, HOOK_HOW_PASS, "-"},
		{HOOK_cuptiActivityEnable, HOOK_HOW_PASS, "-"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		assert_int_equal(hook_table[want[i].id].how, want[i].how);
		assert_string_equal(hook_table[want[i].id].taker, want[i].taker);
	}
}

/* ---- looking names up ---- */

static const struct hook_row *find_by_reading_all(const char *name)
{
	for (int i = 0; i < HOOK_COUNT; i++)
		if (strcmp(hook_table[i].name, name) == 0)
			return &hook_table[i];
	return NULL;
}

static void names_are_found(void **state)
{
	(void)state;
	for (int i = 0; i < HOOK_COUNT; i++)
		assert_ptr_equal(hook_find(hook_table[i].name), &hook_table[i]);
}

static void near_misses_are_not(void **state)
{
	static const char *const wrong[] = {
		"",
		"c",
		"cu",
		"C",
		"p",
		"n",
		"ncc",
		"nccl",
		"pnccl",
		"ppncclAllReduce",
		"cuInitX",
		"cuInit ",
		" cuInit",
		"cuinit",
		"CuInit",
		"cuMemAlloc_v3",
		"cuMemAlloc_V2",
		"cuMemcpyHtoD_ptds",
		"cuGetProcAddress_v3",
		"cudaMalloc",
		"cublasCreate_v2",
		"pcuInit",
		"ncclAllReduce_v2",
		"cupti",
		"malloc",
		"\377\376",
	};

	(void)state;
	assert_null(hook_find(NULL));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_null(hook_find(wrong[i]));
}

/* Every name with its end cut off, one letter more, and each letter changed by one. */
static void mutations_agree_with_a_linear_search(void **state)
{
	(void)state;
	for (int i = 0; i < HOOK_COUNT; i++) {
		char name[128];
		size_t length = strlen(hook_table[i].name);

		assert_true(length < sizeof(name) - 2);
		memcpy(name, hook_table[i].name, length + 1);
		name[length - 1] = '\0';
		assert_ptr_equal(hook_find(name), find_by_reading_all(name));
		memcpy(name, hook_table[i].name, length);
		memcpy(name + length, "2", 2);
		assert_ptr_equal(hook_find(name), find_by_reading_all(name));
		name[length] = '\0';
		for (size_t at = 0; at < length; at += 3) {
			name[at]++;
			assert_ptr_equal(hook_find(name), find_by_reading_all(name));
			name[at]--;
		}
	}
}

static void long_names_are_not_found(void **state)
{
	size_t size = 1 << 20;
	char *name = malloc(size);

	(void)state;
	assert_non_null(name);
	memset(name, 'M', size - 1);
	name[size - 1] = '\0';
	memcpy(name, "cu", 2);
	assert_null(hook_find(name));
	memcpy(name, "cuInit", 6);
	assert_null(hook_find(name));
	free(name);
}

/* ---- count stubs ---- */

#define STUB HOOK_cuLaunchKernel

/* Put `fn` behind the stub; returns the stub. */
static void *stub_over(void *fn)
{
	__atomic_store_n(&real_fn[STUB], fn, __ATOMIC_RELEASE);
	return hook_table[STUB].ours;
}

struct big {
	long words[5];
};
struct mixed {
	double real;
	long whole;
};

/* Integers and doubles beyond both register files, narrow types, structures by value. */
static long double many(int a, double b, long c, float d, const void *e, unsigned char f, double g, int64_t h,
						short i, double j, struct big k, double l, double m, struct mixed n, double o,
						double p, double q, long double r, uint64_t s, double t)
{
	assert_int_equal(a, -1);
	assert_true(b == 2.5 && d == 4.25f && g == 7.5 && j == 10.5 && l == 12.5 && m == 13.5);
	assert_true(o == 15.5 && p == 16.5 && q == 17.5 && t == 20.5);
	assert_int_equal(c, -3000000000L);
	assert_ptr_equal(e, &real_fn);
	assert_int_equal(f, 250);
	assert_true(h == INT64_MIN + 8);
	assert_int_equal(i, -9);
	for (int w = 0; w < 5; w++)
		assert_int_equal(k.words[w], 11 + w);
	assert_true(n.real == 14.5 && n.whole == 14);
	assert_true(r == 18.25L);
	assert_true(s == UINT64_MAX - 19);
	return 1.0L / 3;
}

static void call_many(void)
{
	__typeof__(many) *stub = stub_over((void *)many);
	struct big k = {{11, 12, 13, 14, 15}};
	struct mixed n = {14.5, 14};
	long double r = stub(-1, 2.5, -3000000000L, 4.25f, &real_fn, 250, 7.5, INT64_MIN + 8, -9, 10.5, k, 12.5,
						 13.5, n, 15.5, 16.5, 17.5, 18.25L, UINT64_MAX - 19, 20.5);

	assert_true(r == 1.0L / 3);
}

/* A result that is returned through memory whose address is a hidden argument. */
static struct big returns_big(long first, double second)
{
	struct big b = {{first, (long)second, 3, 4, 5}};

	return b;
}

static struct mixed returns_mixed(long whole, double real)
{
	return (struct mixed){real, whole};
}

static void call_structures(void)
{
	__typeof__(returns_big) *stub = stub_over((void *)returns_big);
	struct big b = stub(71, 72.0);

	assert_int_equal(b.words[0], 71);
	assert_int_equal(b.words[1], 72);
	assert_int_equal(b.words[4], 5);
	__typeof__(returns_mixed) *other = stub_over((void *)returns_mixed);
	struct mixed m = other(81, 82.5);

	assert_int_equal(m.whole, 81);
	assert_true(m.real == 82.5);
}

/* Reads its vector arguments only if the caller's count of them arrives (x86-64: %al). */
static double adds(const char *kinds, ...)
{
	double sum = 0;
	va_list list;

	va_start(list, kinds);
	for (; *kinds; kinds++)
		sum += *kinds == 'd'   ? va_arg(list, double)
			   : *kinds == 'p' ? (double)*va_arg(list, int *)
							   : va_arg(list, int);
	va_end(list);
	return sum;
}

static void call_variadic(void)
{
	__typeof__(adds) *stub = stub_over((void *)adds);
	int eight = 8;

	assert_true(stub("") == 0);
	assert_true(stub("id", 1, 2.5) == 3.5);
	assert_true(stub("idididididididididididp", 1, .5, 2, .5, 3, .5, 4, .5, 5, .5, 6, .5, 7, .5, 8, .5, 9, .5,
					 10, .5, 11, .5, &eight) == 79.5);
}

static void *return_address(void)
{
	return __builtin_return_address(0);
}

/* The callee sees the program as its caller, not the stub. */
static void call_return_address(void)
{
	void *(*volatile fn[2])(void) = {return_address, (void *(*)(void))stub_over((void *)return_address)};
	void *seen[2];

	for (volatile int i = 0; i < 2; i++)
		seen[i] = fn[i]();
	assert_ptr_equal(seen[0], seen[1]);
}

/* Each is called twice on a new thread, whose first call goes through hook_lane_slow. */
static void *twice_on_new_thread(void *arg)
{
	void (*call)(void) = *(void (**)(void))arg;

	assert_int_equal(turbo_tls.lane_off, 0);
	call();
	assert_true(turbo_tls.lane_off != 0);
	assert_int_equal(turbo_tls.lane_off % STATS_LANE_BYTES, 0);
	call();
	return NULL;
}

static void check_call(void (*call)(void), uint64_t counted)
{
	void *saved = real_fn[STUB];
	uint64_t before = stats_cell_sum(STUB);
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, twice_on_new_thread, &call), 0);
	pthread_join(thread, NULL);
	assert_int_equal(stats_cell_sum(STUB) - before, 2 * counted);
	real_fn[STUB] = saved;
}

static void stub_keeps_arguments(void **state)
{
	(void)state;
	check_call(call_many, 1);
}

static void stub_keeps_results_in_memory(void **state)
{
	(void)state;
	check_call(call_structures, 2);
}

static void stub_keeps_variadic_calls(void **state)
{
	(void)state;
	check_call(call_variadic, 3);
}

static void stub_keeps_the_return_address(void **state)
{
	(void)state;
	check_call(call_return_address, 1);
}

static long answer(void)
{
	return 42;
}

struct calls {
	long (*stub)(void);
	int count;
	uint64_t lane_off; /* 0: the lane that the stub assigns */
	pthread_barrier_t *together;
};

static void *calls_in_a_loop(void *arg)
{
	struct calls *calls = arg;
	long wrong = 0;

	turbo_tls.lane_off = calls->lane_off;
	pthread_barrier_wait(calls->together);
	for (int i = 0; i < calls->count; i++)
		wrong += calls->stub() != 42;
	return (void *)wrong;
}

static void check_threads(unsigned threads, int count, uint64_t lane_off)
{
	void *saved = real_fn[STUB];
	pthread_barrier_t together;
	struct calls calls = {(long (*)(void))stub_over((void *)answer), count, lane_off, &together};
	uint64_t before = stats_cell_sum(STUB), other = stats_cell_sum(STUB + 1);
	pthread_t thread[2 * STATS_LANES];

	assert_true(threads <= 2 * STATS_LANES);
	assert_int_equal(pthread_barrier_init(&together, NULL, threads), 0);
	for (unsigned i = 0; i < threads; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, calls_in_a_loop, &calls), 0);
	for (unsigned i = 0; i < threads; i++) {
		void *wrong;

		pthread_join(thread[i], &wrong);
		assert_null(wrong);
	}
	pthread_barrier_destroy(&together);
	assert_int_equal(stats_cell_sum(STUB) - before, (uint64_t)threads * (uint64_t)count);
	assert_int_equal(stats_cell_sum(STUB + 1), other);
	real_fn[STUB] = saved;
}

static void counts_of_more_threads_than_lanes_are_exact(void **state)
{
	(void)state;
	check_threads(STATS_LANES + 12, 20000, 0);
}

static void counts_of_threads_in_one_lane_are_exact(void **state)
{
	(void)state;
	check_threads(4, 1000000, STATS_LANE_BYTES);
}

/* Each stub has its own cell and slot: all of them, one after the other. */
static void every_stub_counts_its_own_symbol(void **state)
{
	int stubs = 0;

	(void)state;
	for (int i = 0; i < HOOK_COUNT; i++) {
		if (hook_table[i].how != HOOK_HOW_COUNT)
			continue;
		void *saved = real_fn[i];
		uint64_t before = stats_cell_sum((unsigned)i);

		real_fn[i] = (void *)answer;
		assert_int_equal(((long (*)(void))hook_table[i].ours)(), 42);
		real_fn[i] = saved;
		assert_int_equal(stats_cell_sum((unsigned)i), before + 1);
		stubs++;
	}
	assert_true(stubs > 400);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table_is_sorted_and_unique),
		cmocka_unit_test(ids_match_names),
		cmocka_unit_test(entries_are_present_and_distinct),
		cmocka_unit_test(treatments_that_others_rely_on),
		cmocka_unit_test(names_are_found),
		cmocka_unit_test(near_misses_are_not),
		cmocka_unit_test(mutations_agree_with_a_linear_search),
		cmocka_unit_test(long_names_are_not_found),
		cmocka_unit_test(stub_keeps_arguments),
		cmocka_unit_test(stub_keeps_results_in_memory),
		cmocka_unit_test(stub_keeps_variadic_calls),
		cmocka_unit_test(stub_keeps_the_return_address),
		cmocka_unit_test(counts_of_more_threads_than_lanes_are_exact),
		cmocka_unit_test(counts_of_threads_in_one_lane_are_exact),
		cmocka_unit_test(every_stub_counts_its_own_symbol),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

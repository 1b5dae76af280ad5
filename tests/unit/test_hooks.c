/* test_hooks.c - the table is sorted and complete, and names are found exactly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <cuda.h>

#include "hooks.h"

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
		{HOOK_cuStreamEndCapture_ptsz, HOOK_HOW_HOOK, "context"},
		{HOOK_cuCtxDestroy_v2, HOOK_HOW_HOOK, "context"},
		{HOOK_cuMemAllocPitch, HOOK_HOW_COUNT, "-"},
		{HOOK_cuStreamIsCapturing, HOOK_HOW_COUNT, "-"},
		{HOOK_cuGetExportTable, HOOK_HOW_PASS, "-"},
		{HOOK_cuptiActivityEnable, HOOK_HOW_HOOK, "timeline"},
		{HOOK_cuptiActivityGetNextRecord, HOOK_HOW_PASS, "-"},
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

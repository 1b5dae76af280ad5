/* ENV: TURBO_COPY_THREADS=2 TURBO_COPY_MIN_KB=64 TURBO_COPY_RING_MB=8 */
/*
 * Every copy that a program makes is accounted for: staged, left to the driver for a counted
 * reason, or redone by it. Nothing is counted twice.
 */
#include "common/copy_fixture.h"
#include <cmocka.h>

static const char *const calls[] = {
	"cuMemcpyHtoD_v2",      "cuMemcpyDtoH_v2", "cuMemcpyHtoDAsync_v2",
	"cuMemcpyDtoHAsync_v2", "cuMemcpy",        "cuMemcpyAsync",
};
static const char *const outcomes[] = {
	"copy.h2d.staged",        "copy.d2h.staged",      "copy.pass.small",
	"copy.pass.not_pageable", "copy.pass.not_device", "copy.pass.capture",
	"copy.pass.no_context",   "copy.pass.busy",       "copy.fallback",
};

static uint64_t sum(const char *const *names, size_t n)
{
	uint64_t all = 0;
	for (size_t i = 0; i < n; i++)
		all += counter(names[i]);
	return all;
}
#define SUM(names) sum(names, sizeof(names) / sizeof(names[0]))

static void every_copy_has_one_outcome(void **state)
{
	(void)state;
	const size_t n = 3 * MIB;
	CUdeviceptr d = device_new(n), e = device_new(n);
	unsigned char *h = pages_new(n, 1), *pinned = NULL;
	OK(cu.cuMemHostAlloc((void **)&pinned, n, 0));
	uint64_t calls_before = SUM(calls), outcomes_before = SUM(outcomes);
	for (size_t bytes = 1; bytes <= n; bytes = bytes * 3 + 1) {
		OK(cu.cuMemcpyHtoD_v2(d, h, bytes));
		OK(cu.cuMemcpyHtoDAsync_v2(d, h, bytes, NULL));
		OK(cu.cuMemcpyDtoH_v2(h, d, bytes));
		OK(cu.cuMemcpyDtoHAsync_v2(pinned, d, bytes, NULL));
		OK(cu.cuMemcpy(d, (CUdeviceptr)(uintptr_t)h, bytes));
		OK(cu.cuMemcpyAsync((CUdeviceptr)(uintptr_t)h, d, bytes, NULL));
		OK(cu.cuMemcpy(e, d, bytes));
	}
	assert_int_not_equal(cu.cuMemcpyHtoD_v2(d, h, 64 * n), CUDA_SUCCESS);
	assert_int_not_equal(cu.cuMemcpyDtoH_v2(h, 0, n), CUDA_SUCCESS);
	uint64_t made = SUM(calls) - calls_before;
	assert_true(made > 80);
	assert_int_equal(SUM(outcomes) - outcomes_before, made);
	assert_true(counter("copy.pass.small") > 0);
	OK(cu.cuMemFreeHost(pinned));
	pages_free(h, n);
	device_free(d);
	device_free(e);
}

int main(void)
{
	copy_open();
	const struct CMUnitTest tests[] = {
		STAGED(every_copy_has_one_outcome),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

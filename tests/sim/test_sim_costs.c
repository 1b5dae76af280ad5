/*
 * test_sim_costs.c - SIM_COSTS: calls take at least as long as real ones.
 */
#include <time.h>
#include <unistd.h>

#include "common/simtest.h"

#define MIB ((size_t)1 << 20)
#define TIMES 5

static double now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* The least of some tries: other processes run too. */
static void least_of_a_pair(size_t size, double *alloc, double *release)
{
	*alloc = *release = 1e9;
	for (int i = 0; i < TIMES; i++) {
		CUdeviceptr p;
		double a = now_us();
		ok(cuMemAlloc_v2(&p, size));
		double b = now_us();
		ok(cuMemFree_v2(p));
		double c = now_us();
		*alloc = b - a < *alloc ? b - a : *alloc;
		*release = c - b < *release ? c - b : *release;
	}
}

static void allocations(void **state)
{
	(void)state;
	double small[2], large[2];
	least_of_a_pair(2 * MIB, &small[0], &small[1]);
	least_of_a_pair(256 * MIB, &large[0], &large[1]);
	assert_true(small[0] >= 54);
	assert_true(small[1] >= 46);
	assert_true(large[0] >= 633);
	assert_true(large[1] >= 310);
	assert_true(large[0] > 3 * small[0]);
}

static void mappings(void **state)
{
	(void)state;
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
								.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle h;
	CUdeviceptr va;
	ok(cuMemAddressReserve(&va, 8 * MIB, 0, 0, 0));
	double a = now_us();
	ok(cuMemCreate(&h, 2 * MIB, &prop, 0));
	double b = now_us();
	for (size_t i = 0; i < 4; i++)
		ok(cuMemMap(va + 2 * MIB * i, 2 * MIB, 0, h, 0));
	double c = now_us();
	ok(cuMemSetAccess(va, 8 * MIB, &access, 1));
	double d = now_us();
	assert_true(b - a >= 67);
	assert_true(c - b >= 4 * 1.5);
	assert_true(d - c >= 4 * 37); /* each mapping */
	ok(cuMemRelease(h));
	ok(cuMemUnmap(va, 8 * MIB));
	ok(cuMemAddressFree(va, 8 * MIB));
}

static void launches(void **state)
{
	double best = 1e9, events = 1e9;
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING);
	CUevent e = st_event();
	(void)state;
	for (int i = 0; i < TIMES; i++) {
		uint64_t us = 0;
		double a = now_us();
		st_launch(st_spin_us, s, (void *[]){&us});
		double b = now_us();
		ok(cuEventRecord(e, s));
		ok(cuStreamWaitEvent(s, e, 0));
		ok(cuEventSynchronize(e));
		double c = now_us();
		best = b - a < best ? b - a : best;
		events = c - b < events ? c - b : events;
	}
	assert_true(best >= 4.3);
	assert_true(events >= 0.4 + 0.14 + 0.21);
}

int main(int argc, char **argv)
{
	(void)argc;
	simtest_only_sim();
	if (!getenv("SIM_COSTS")) { /* it is read when the driver is loaded */
		setenv("SIM_COSTS", "1", 1);
		execv("/proc/self/exe", argv);
		return 1;
	}
	const struct CMUnitTest tests[] = {cmocka_unit_test(allocations), cmocka_unit_test(mappings),
									   cmocka_unit_test(launches)};
	return cmocka_run_group_tests(tests, simtest_setup, simtest_teardown);
}

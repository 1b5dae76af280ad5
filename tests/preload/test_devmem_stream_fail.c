/* ENV: TURBO_DEVMEM=stream TURBO_COPY=off SIM_MEM_MB=256 SIM_QUIET=1 */
/*
 * Every driver call that the heap makes fails once: the program gets memory (the driver's, if need
 * be) or the driver's error, its bytes stay right, and nothing leaks. And memory that ends.
 */
#include "common/stream_fixture.h"
#include <cmocka.h>

#include <stdio.h>

#define BYTES (2 * MIB)

static const char *const symbols[] = {
	"cuMemAddressReserve",
	"cuMemCreate",
	"cuMemMap",
	"cuMemSetAccess",
	"cuMemUnmap",
	"cuMemRelease",
	"cuMemAddressFree",
	"cuEventCreate",
	"cuEventRecord",
	"cuEventQuery",
	"cuStreamWaitEvent",
	"cuCtxRecordEvent",
	"cuStreamGetId",
	"cuStreamGetCtx",
	"cuCtxPushCurrent_v2",
	"cuThreadExchangeStreamCaptureMode",
	"cuMemPoolTrimTo",
};

static CUstream s1, s2;

/* A program that reuses, steals, stitches, trims and ends a stream. NULL, or what went wrong. */
static const char *exercise(uint32_t seed)
{
	CUdeviceptr p[12] = {0}, q = 0;
	CUstream gone = NULL;
	const char *wrong = NULL;
	for (unsigned i = 0; i < 12; i++)
		if (cu.cuMemAllocAsync(&p[i], BYTES, i % 2 ? s1 : s2) == CUDA_SUCCESS &&
			launch_fill(i % 2 ? s1 : s2, p[i], BYTES / 4, seed + i))
			wrong = "fill";
	for (unsigned i = 1; i < 12; i += 2)
		if (p[i] && cu.cuMemFreeAsync(p[i], s1))
			wrong = "free";
	if (cu.cuMemAllocAsync(&q, 5 * BYTES, s2) == CUDA_SUCCESS && launch_fill(s2, q, 5 * BYTES / 4, seed + 50))
		wrong = "fill after stealing";
	for (unsigned i = 0; i < 12; i += 2)
		if (p[i] && device_differs_word(p[i], BYTES, seed + i) != -1)
			wrong = "bytes";
	if (q && device_differs_word(q, 5 * BYTES, seed + 50) != -1)
		wrong = "bytes after stealing";
	if (cu.cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS && gone) {
		CUdeviceptr r = 0;
		if (cu.cuMemAllocAsync(&r, BYTES, gone) == CUDA_SUCCESS && cu.cuMemFreeAsync(r, gone))
			wrong = "free on a stream that ends";
		if (cu.cuStreamDestroy_v2(gone))
			wrong = "destroy";
	}
	if (q && cu.cuMemFreeAsync(q, s2))
		wrong = "free of what was stolen";
	for (unsigned i = 0; i < 12; i += 2)
		if (p[i] && (i % 4 ? cu.cuMemFreeAsync(p[i], s2) : cu.cuMemFree_v2(p[i])))
			wrong = "last free";
	cu.cuCtxSynchronize();
	cu.cuMemPoolTrimTo(default_pool(0), 0);
	return wrong;
}

/* The symbol's nth call fails. What is freed is freed, so after a round without failures nothing is left. */
static void each_call_fails(void **state)
{
	(void)state;
	assert_null(exercise(1));
	for (unsigned i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		for (int nth = 1; nth <= 9; nth += nth < 4 ? 1 : 2) {
			static const int codes[] = {CUDA_ERROR_UNKNOWN, CUDA_ERROR_OUT_OF_MEMORY};
			sim.fail_set(symbols[i], nth, codes[nth % 2]);
			const char *wrong = exercise((uint32_t)(nth * 100));
			sim.fail_clear();
			if (wrong)
				fail_msg("%s: call %d failed: %s", symbols[i], nth, wrong);
		}
		assert_null(exercise(7));
		assert_int_equal(pool_number(default_pool(0), CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
	}
}

/* All calls of the symbol fail: everything comes from the driver or from what is there. */
static void all_calls_fail(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		sim.fail_set(symbols[i], 0, CUDA_ERROR_UNKNOWN);
		const char *wrong = exercise(3);
		sim.fail_clear();
		if (wrong)
			fail_msg("%s: %s", symbols[i], wrong);
	}
	assert_null(exercise(4));
}

/* 256 MiB, all of it: the memory of many small blocks makes a large one. */
static void memory_ends(void **state)
{
	enum { N = 120 };
	CUdeviceptr p[N], large = 0;
	(void)state;
	for (unsigned round = 0; round < 4; round++) {
		unsigned n = 0;
		while (n < N && cu.cuMemAllocAsync(&p[n], BYTES, s1) == CUDA_SUCCESS)
			n++;
		assert_true(n >= 100);
		CUdeviceptr more = 0;
		assert_int_equal(cu.cuMemAllocAsync(&more, 64 * MIB, s2), CUDA_ERROR_OUT_OF_MEMORY);
		for (unsigned i = 0; i < n; i += 2)
			free_on(s1, p[i]);
		/* Half is free, in pieces of 2 MiB that another stream freed. */
		OK(cu.cuMemAllocAsync(&large, 64 * MIB, s2));
		OK(launch_fill(s2, large, 64 * MIB / 4, round));
		assert_int_equal(device_differs_word(large, 64 * MIB, round), -1);
		for (unsigned i = 1; i < n; i += 2)
			free_on(s1, p[i]);
		free_on(s2, large);
		OK(cu.cuCtxSynchronize());
	}
}

/* A large graph: 160 MiB of memory in a node. */
static CUresult graph_with_memory(void)
{
	CUgraph graph;
	CUdeviceptr p = 0;
	OK(cu.cuStreamBeginCapture_v2(s1, CU_STREAM_CAPTURE_MODE_RELAXED));
	CUresult r = cu.cuMemAllocAsync(&p, 160 * MIB, s1);
	if (r == CUDA_SUCCESS)
		OK(cu.cuMemFreeAsync(p, s1));
	if (cu.cuStreamEndCapture(s1, &graph) == CUDA_SUCCESS)
		OK(cu.cuGraphDestroy(graph));
	return r;
}

/* The heap holds all memory and uses none: the program's other allocations get it. */
static void cached_memory_is_everybodys(void **state)
{
	cuuint64_t all = ~0ull, none = 0;
	CUdeviceptr p;
	(void)state;
	OK(cu.cuMemPoolSetAttribute(default_pool(0), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
	for (unsigned i = 0; i < 3; i++) {
		p = alloc_on(s1, 180 * MIB);
		free_on(s1, p);
		OK(cu.cuCtxSynchronize());
		OK(cu.cuMemAlloc_v2(&p, 180 * MIB));
		OK(cu.cuMemFree_v2(p));
	}
	for (unsigned i = 0; i < 3; i++) {
		CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
									.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
		CUmemGenericAllocationHandle handle;
		size_t pitch;
		free_on(s1, alloc_on(s1, 180 * MIB));
		OK(cu.cuCtxSynchronize());
		switch (i) {
		case 0:
			OK(cu.cuMemCreate(&handle, 180 * MIB, &prop, 0));
			OK(cu.cuMemRelease(handle));
			break;
		case 1:
			OK(cu.cuMemAllocPitch_v2(&p, &pitch, MIB, 180, 16));
			OK(cu.cuMemFree_v2(p));
			break;
		default: OK(graph_with_memory()); break;
		}
	}
	OK(cu.cuMemPoolSetAttribute(default_pool(0), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &none));
}

int main(void)
{
	stream_open();
	copy_limit();
	if (!sim.fail_set) {
		printf("not the simulated driver\n");
		return 77;
	}
	s1 = stream_new();
	s2 = stream_new();
	const struct CMUnitTest tests[] = {
		SERVED(each_call_fails),
		SERVED(all_calls_fail),
		SERVED(memory_ends),
		SERVED(cached_memory_is_everybodys),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

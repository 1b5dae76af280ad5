/*
 * wrong.c - wrong frees and allocations get the driver's own answers.
 */
#include "check.h"

#include <stdio.h>

#define N (6 * MIB)

/* Two allocations of a size that was just freed are two blocks. */
static const char *two_are_two(size_t bytes)
{
	CUdeviceptr p, q;
	TRY(cu.cuMemAlloc_v2(&p, bytes));
	TRY(cu.cuMemAlloc_v2(&q, bytes));
	if (p < q + bytes && q < p + bytes)
		return case_fail("two live blocks of %zu bytes overlap", bytes);
	TRY(cu.cuMemFree_v2(p));
	TRY(cu.cuMemFree_v2(q));
	return NULL;
}

static const char *double_free(void)
{
	static const size_t sizes[] = {4 * KIB, 700 * KIB, N, 40 * MIB};
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		CUdeviceptr p;
		char key[32];
		TRY(cu.cuMemAlloc_v2(&p, sizes[i]));
		TRY(cu.cuMemFree_v2(p));
		snprintf(key, sizeof(key), "again_%zuK", sizes[i] / KIB);
		case_note_status(key, cu.cuMemFree_v2(p));
		STEP(two_are_two(sizes[i]));
		case_note_status(key, cu.cuMemFree_v2(p));
	}
	return NULL;
}

static const char *bad_pointers(void)
{
	CUdeviceptr p;
	void *pinned;
	uint32_t local = 1;
	TRY(cu.cuMemAlloc_v2(&p, N));
	TRY(cu.cuMemHostAlloc(&pinned, 4096, 0));
	case_note_status("null", cu.cuMemFree_v2(0));
	case_note_status("interior", cu.cuMemFree_v2(p + 512));
	case_note_status("last_byte", cu.cuMemFree_v2(p + N - 1));
	case_note_status("stack", cu.cuMemFree_v2((CUdeviceptr)(uintptr_t)&local));
	case_note_status("nowhere", cu.cuMemFree_v2(0xdead0000000u));
	case_note_status("pinned", cu.cuMemFree_v2((CUdeviceptr)(uintptr_t)pinned));
	TRY(launch_fill(NULL, p, N / 4, 7)); /* none of that freed it */
	STEP(device_is(p, N / 4, 7));
	TRY(cu.cuMemFree_v2(p));
	TRY(cu.cuMemFreeHost(pinned));
	return NULL;
}

/* cuMemFree also receives what other calls allocated. */
static const char *foreign_pointers(void)
{
	CUdeviceptr p;
	size_t pitch;
	CUstream s = fx.stream[STREAM_A];
	for (int round = 0; round < 2; round++) {
		TRY(cu.cuMemAllocManaged(&p, N, CU_MEM_ATTACH_GLOBAL));
		case_note_status("managed", cu.cuMemFree_v2(p));
		TRY(cu.cuMemAllocPitch_v2(&p, &pitch, 1000, 100, 4));
		case_note_status("pitch", cu.cuMemFree_v2(p));
		TRY(cu.cuMemAllocAsync(&p, N, s));
		TRY(cu.cuStreamSynchronize(s));
		case_note_status("async", cu.cuMemFree_v2(p));
		case_note_status("async_again", cu.cuMemFree_v2(p));
		TRY(cu.cuMemAlloc_v2(&p, N));
		CUresult r = cu.cuMemFreeAsync(p, s);
		case_note_status("by_free_async", r);
		TRY(cu.cuStreamSynchronize(s));
		if (r != CUDA_SUCCESS)
			TRY(cu.cuMemFree_v2(p));
		STEP(two_are_two(N));
	}
	return NULL;
}

/* Freed as any other pointer would be, and not twice. */
static const char *double_free_async(void)
{
	CUdeviceptr p, q;
	CUstream s = fx.stream[STREAM_A];
	TRY(cu.cuMemAllocAsync(&p, N, s));
	TRY(cu.cuMemAllocAsync(&q, N, s));
	TRY(cu.cuStreamSynchronize(s));
	case_note_status("interior", cu.cuMemFreeAsync(p + 512, s));
	case_note_status("null", cu.cuMemFreeAsync(0, s));
	case_note_status("nowhere", cu.cuMemFreeAsync(0xdead0000000u, s));
	TRY(cu.cuMemFreeAsync(p, s));
	TRY(cu.cuStreamSynchronize(s));
	case_note_status("again", cu.cuMemFreeAsync(p, s));
	case_note_status("again_sync", cu.cuMemFree_v2(p));
	TRY(launch_fill(s, q, N / 4, 9));
	STEP(device_is(q, N / 4, 9));
	TRY(cu.cuMemFreeAsync(q, s));
	return NULL;
}

static const char *bad_allocations(void)
{
	CUdeviceptr p = 1;
	for (int round = 0; round < 2; round++) {
		case_note_status("no_result", cu.cuMemAlloc_v2(NULL, N));
		case_note_status("zero", cu.cuMemAlloc_v2(&p, 0));
		case_note_status("twice_the_device", cu.cuMemAlloc_v2(&p, 2 * fx.total));
		case_note_status("largest", cu.cuMemAlloc_v2(&p, SIZE_MAX));
		case_note_status("nearly_largest", cu.cuMemAlloc_v2(&p, SIZE_MAX - MIB));
		case_note_status("async_no_result", cu.cuMemAllocAsync(NULL, N, fx.stream[STREAM_A]));
		case_note_status("async_zero", cu.cuMemAllocAsync(&p, 0, fx.stream[STREAM_A]));
		case_note_status("async_twice_the_device", cu.cuMemAllocAsync(&p, 2 * fx.total, fx.stream[STREAM_A]));
		TRY(cu.cuCtxSetCurrent(NULL));
		case_note_status("no_context", cu.cuMemAlloc_v2(&p, N));
		TRY(cu.cuCtxSetCurrent(fx.ctx));
		STEP(two_are_two(N)); /* the next round meets a warm cache */
	}
	return NULL;
}

/* The driver's answers about a block that was freed. */
static const char *freed_is_unknown(void)
{
	static const size_t sizes[] = {3 * MIB, N, 40 * MIB};
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		CUdeviceptr p, base;
		size_t size;
		unsigned type;
		char key[64];
		TRY(cu.cuMemAlloc_v2(&p, sizes[i]));
		TRY(cu.cuMemFree_v2(p));
		snprintf(key, sizeof(key), "type_%zuM", sizes[i] / MIB);
		case_note_status(key, cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
		snprintf(key, sizeof(key), "range_%zuM", sizes[i] / MIB);
		case_note_status(key, cu.cuMemGetAddressRange_v2(&base, &size, p));
	}
	return NULL;
}

const struct gpu_case wrong_cases[] = {
	{"double_free", double_free},
	{"double_free_async", double_free_async},
	{"bad_pointers", bad_pointers},
	{"foreign_pointers", foreign_pointers},
	{"bad_allocations", bad_allocations},
	{"freed_is_unknown", freed_is_unknown},
	{NULL, NULL},
};

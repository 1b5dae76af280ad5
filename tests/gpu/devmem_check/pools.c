/*
 * pools.c - the default pool's attributes, trimming, and pools of the program's own.
 */
#include "check.h"

#include <stdio.h>
#include <string.h>

static CUmemoryPool pool;

static const char *get(CUmemPool_attribute which, uint64_t *value)
{
	*value = 0;
	TRY(cu.cuMemPoolGetAttribute(pool, which, value));
	return NULL;
}

static const char *open_pool(void)
{
	NEED(cuDeviceGetDefaultMemPool);
	TRY(cu.cuDeviceGetDefaultMemPool(&pool, fx.dev));
	TRY(cu.cuCtxSynchronize());
	TRY(cu.cuMemPoolTrimTo(pool, 0));
	return NULL;
}

static const char *set_threshold(uint64_t bytes)
{
	TRY(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes));
	return NULL;
}

static const CUmemPool_attribute switches[] = {CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
											   CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
											   CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES};

static const char *pool_switches(void)
{
	STEP(open_pool());
	for (int i = 0; i < 3; i++) {
		int value = 7, one = 1, zero = 0;
		char key[32];
		TRY(cu.cuMemPoolGetAttribute(pool, switches[i], &value));
		snprintf(key, sizeof(key), "default_%d", i);
		case_note_number(key, value);
		TRY(cu.cuMemPoolSetAttribute(pool, switches[i], &zero));
		TRY(cu.cuMemPoolGetAttribute(pool, switches[i], &value));
		case_note_number("after_zero", value);
		TRY(cu.cuMemPoolSetAttribute(pool, switches[i], &one));
		TRY(cu.cuMemPoolGetAttribute(pool, switches[i], &value));
		case_note_number("after_one", value);
	}
	return NULL;
}

/* With every kind of reuse switched off and on, order is kept. */
static const char *pool_switches_keep_order(void)
{
	STEP(open_pool());
	for (unsigned bits = 0; bits < 8; bits++) {
		for (unsigned i = 0; i < 3; i++) {
			int value = bits >> i & 1;
			TRY(cu.cuMemPoolSetAttribute(pool, switches[i], &value));
		}
		STEP(tags_begin());
		for (int i = 0; i < 12; i++) {
			CUdeviceptr p;
			CUstream s = fx.stream[i % STREAMS];
			TRY(cu.cuMemAllocAsync(&p, 5 * MIB, s));
			TRY(tags_use(s, p, 5 * MIB, 500));
			TRY(cu.cuMemFreeAsync(p, s));
		}
		STEP(tags_end());
	}
	return NULL;
}

static const char *pool_used_and_reserved(void)
{
	CUstream a = fx.stream[STREAM_A];
	CUdeviceptr p[8];
	uint64_t used0, used, reserved, high, zero = 0;
	const size_t block = 3 * MIB;
	STEP(open_pool());
	STEP(set_threshold(UINT64_MAX));
	STEP(get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used0));
	for (int i = 0; i < 8; i++)
		TRY(cu.cuMemAllocAsync(&p[i], block, a));
	TRY(cu.cuStreamSynchronize(a));
	STEP(get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
	STEP(get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
	case_note_number("used", (long long)(used - used0));
	case_info("reserved_mib", (double)reserved / MIB);
	if (used - used0 < 8 * block || reserved < used)
		return case_fail("used %llu, reserved %llu", (unsigned long long)used, (unsigned long long)reserved);
	for (int i = 0; i < 8; i++)
		TRY(cu.cuMemFreeAsync(p[i], a));
	TRY(cu.cuStreamSynchronize(a));
	STEP(get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
	case_note_number("used_after_free", (long long)(used - used0));
	STEP(get(CU_MEMPOOL_ATTR_USED_MEM_HIGH, &high));
	if (high < 8 * block)
		return case_fail("the high mark of used memory is %llu", (unsigned long long)high);
	STEP(get(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &high));
	if (high < reserved)
		return case_fail("the high mark of reserved memory is %llu", (unsigned long long)high);
	TRY(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
	TRY(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero));
	STEP(get(CU_MEMPOOL_ATTR_USED_MEM_HIGH, &high));
	case_note_number("high_after_reset", (long long)(high - used0));
	STEP(get(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &high));
	STEP(get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
	if (high != reserved)
		return case_fail("reset, the high mark of reserved memory is %llu of %llu", (unsigned long long)high,
						 (unsigned long long)reserved);
	return set_threshold(0);
}

static const char *pool_trim(void)
{
	CUstream a = fx.stream[STREAM_A];
	CUdeviceptr p[16];
	uint64_t reserved, used;
	size_t before, held, after, total;
	const size_t block = fx.total / 200 / MIB * MIB;
	STEP(open_pool());
	STEP(set_threshold(UINT64_MAX));
	TRY(cu.cuMemGetInfo_v2(&before, &total));
	for (int i = 0; i < 16; i++)
		TRY(cu.cuMemAllocAsync(&p[i], block, a));
	for (int i = 0; i < 16; i++)
		if (i != 5)
			TRY(cu.cuMemFreeAsync(p[i], a));
	TRY(launch_fill(a, p[5], block / 4, 91));
	TRY(cu.cuStreamSynchronize(a));
	TRY(cu.cuMemGetInfo_v2(&held, &total));
	TRY(cu.cuMemPoolTrimTo(pool, 0));
	STEP(get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
	STEP(get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
	if (used < block || reserved < used || reserved > used + 128 * MIB + block)
		return case_fail("trimmed to 0 with %zu bytes live: used %llu, reserved %llu", block,
						 (unsigned long long)used, (unsigned long long)reserved);
	STEP(device_is(p[5], block / 4, 91)); /* and the live block is whole */
	TRY(cu.cuMemFreeAsync(p[5], a));
	TRY(cu.cuStreamSynchronize(a));
	TRY(cu.cuMemPoolTrimTo(pool, 0));
	STEP(get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
	case_note_number("reserved_when_empty", (long long)reserved);
	TRY(cu.cuMemGetInfo_v2(&after, &total));
	if (after > total || after + 4 * MIB < before)
		return case_fail("free bytes: %zu before, %zu after", before, after);
	case_info("held_mib", ((double)before - (double)held) / MIB);
	return set_threshold(0);
}

/* The default threshold of 0: what is free goes back at a synchronisation, sooner or later. */
static const char *pool_threshold_zero(void)
{
	CUstream a = fx.stream[STREAM_A];
	CUdeviceptr p;
	uint64_t threshold = 1, reserved = 1;
	STEP(open_pool());
	STEP(get(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	case_note_number("default", (long long)threshold);
	TRY(cu.cuMemAllocAsync(&p, fx.total / 16, a));
	TRY(cu.cuMemFreeAsync(p, a));
	for (int i = 0; i < 3; i++)
		TRY(cu.cuStreamSynchronize(a));
	STEP(get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
	case_info("reserved_mib", (double)reserved / MIB);
	if (fx.mode == MODE_BARE)
		return NULL;
	TRY(cu.cuCtxSynchronize());
	STEP(get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
	return reserved <= 64 * MIB ? NULL : case_fail("%.0f MiB stay reserved", (double)reserved / MIB);
}

static const char *pool_bad_questions(void)
{
	uint64_t value = 0;
	STEP(open_pool());
	case_note_status("no_such_attribute", cu.cuMemPoolGetAttribute(pool, (CUmemPool_attribute)99, &value));
	case_note_status("no_value", cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, NULL));
	value = 5;
	case_note_status("set_high_to_5", cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value));
	case_note_status("set_used", cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value));
	case_note_status("destroy_default", cu.cuMemPoolDestroy(pool));
	return NULL;
}

static const char *pool_from_default_by_name(void)
{
	NEED(cuMemAllocFromPoolAsync);
	STEP(open_pool());
	STEP(tags_begin());
	for (int i = 0; i < 12; i++) {
		CUdeviceptr p, q;
		CUstream s = fx.stream[i % STREAMS];
		TRY(cu.cuMemAllocFromPoolAsync(&p, 4 * MIB, pool, s));
		TRY(tags_use(s, p, 4 * MIB, 500));
		TRY(cu.cuMemFreeAsync(p, s));
		TRY(cu.cuMemAllocAsync(&q, 4 * MIB, s));
		TRY(tags_use(s, q, 4 * MIB, 0));
		TRY(cu.cuMemFreeAsync(q, s));
	}
	return tags_end();
}

static const char *pool_of_the_program(void)
{
	NEED(cuMemPoolCreate);
	CUmemoryPool own;
	CUdeviceptr p;
	CUmemPoolProps props;
	uint64_t used = 0;
	memset(&props, 0, sizeof(props));
	props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	props.location.id = fx.dev;
	TRY(cu.cuMemPoolCreate(&own, &props));
	STEP(tags_begin());
	for (int i = 0; i < 6; i++) {
		TRY(cu.cuMemAllocFromPoolAsync(&p, 4 * MIB, own, fx.stream[i]));
		TRY(tags_use(fx.stream[i], p, 4 * MIB, 500));
		TRY(cu.cuMemPoolGetAttribute(own, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
		if (used < 4 * MIB)
			return case_fail("the pool says %llu bytes used", (unsigned long long)used);
		TRY(cu.cuMemFreeAsync(p, fx.stream[i]));
	}
	STEP(tags_end());
	TRY(cu.cuMemPoolDestroy(own));
	return NULL;
}

/* More than there is, in pieces: the error comes when it is due, and afterwards all is as before. */
static const char *pool_out_of_memory(void)
{
	enum { PIECES = 24 };
	CUdeviceptr p[PIECES] = {0}, q;
	CUstream a = fx.stream[STREAM_A], nb = fx.stream[STREAM_NB];
	size_t piece = fx.total / 16 / MIB * MIB;
	int n = 0;
	STEP(open_pool());
	CUresult r = CUDA_SUCCESS;
	while (n < PIECES && (r = cu.cuMemAllocAsync(&p[n], piece, a)) == CUDA_SUCCESS)
		n++;
	case_note_status("at_last", r);
	case_note_number("pieces", n);
	for (int i = 0; i < n; i++)
		TRY(cu.cuMemFreeAsync(p[i], a));
	TRY(cu.cuStreamSynchronize(a));
	/* As much again on another stream, and from the other kind of allocation. */
	for (int i = 0; i < n; i++)
		TRY(cu.cuMemAllocAsync(&p[i], piece, nb));
	for (int i = 0; i < n; i++)
		TRY(cu.cuMemFreeAsync(p[i], nb));
	TRY(cu.cuStreamSynchronize(nb));
	TRY(cu.cuMemAlloc_v2(&q, fx.total / 2));
	TRY(cu.cuMemFree_v2(q));
	return NULL;
}

const struct gpu_case pool_cases[] = {
	{"pool_switches", pool_switches},
	{"pool_switches_keep_order", pool_switches_keep_order},
	{"pool_used_and_reserved", pool_used_and_reserved},
	{"pool_trim", pool_trim},
	{"pool_threshold_zero", pool_threshold_zero},
	{"pool_bad_questions", pool_bad_questions},
	{"pool_from_default_by_name", pool_from_default_by_name},
	{"pool_of_the_program", pool_of_the_program},
	{"pool_out_of_memory", pool_out_of_memory},
	{NULL, NULL},
};

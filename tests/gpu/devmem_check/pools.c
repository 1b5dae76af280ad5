/*
 * pools.c - the default pool's attributes, trimming, and pools of the program's own.
 */
#include "check.h"

#include <stdio.h>
#include <string.h>

static CUmemoryPool pool;
/* What counts as used when a case begins: the driver's figure keeps stream-ordered blocks that cuMemFree
 * freed (async_by_mem_free) for good, and so may exceed what is reserved. */
static uint64_t used0;

static const char *get(CUmemPool_attribute which, uint64_t *value)
{
	*value = 0;
	TRY(cu.cuMemPoolGetAttribute(pool, which, value));
	return NULL;
}

static const char *set_threshold(uint64_t bytes)
{
	TRY(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes));
	return NULL;
}

/* Nothing in use and nothing free in it; the threshold as the first case found it. */
static const char *open_pool(void)
{
	static uint64_t threshold;
	static bool known;
	NEED(cuDeviceGetDefaultMemPool);
	TRY(cu.cuDeviceGetDefaultMemPool(&pool, fx.dev));
	if (!known)
		STEP(get(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	else
		STEP(set_threshold(threshold));
	known = true;
	TRY(cu.cuCtxSynchronize());
	TRY(cu.cuMemPoolTrimTo(pool, 0));
	return get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used0);
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

struct figures {
	uint64_t used, used_high, reserved, reserved_high;
};

/* Of this case alone: without what counted as used before. */
static const char *figures(struct figures *f)
{
	STEP(get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &f->used));
	STEP(get(CU_MEMPOOL_ATTR_USED_MEM_HIGH, &f->used_high));
	STEP(get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &f->reserved));
	STEP(get(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &f->reserved_high));
	f->used -= used0;
	f->used_high = f->used_high > used0 ? f->used_high - used0 : 0;
	return NULL;
}

static const char *wrong(const char *when, const struct figures *f)
{
	return case_fail("%s: used %llu, at most %llu; reserved %llu, at most %llu", when,
					 (unsigned long long)f->used, (unsigned long long)f->used_high,
					 (unsigned long long)f->reserved, (unsigned long long)f->reserved_high);
}

static const char *take_blocks(CUdeviceptr *p, int n, size_t bytes, struct figures *f)
{
	CUstream a = fx.stream[STREAM_A];
	for (int i = 0; i < n; i++)
		TRY(cu.cuMemAllocAsync(&p[i], bytes, a));
	TRY(cu.cuStreamSynchronize(a));
	return figures(f);
}

static const char *free_blocks(const CUdeviceptr *p, int n, struct figures *f)
{
	CUstream a = fx.stream[STREAM_A];
	for (int i = 0; i < n; i++)
		TRY(cu.cuMemFreeAsync(p[i], a));
	TRY(cu.cuStreamSynchronize(a));
	return figures(f);
}

/* When the driver's pool counts a free, and what its marks read after a reset, is its own business: `info`.
 * The heap's are exact, but for its high mark of what is used: what other streams have freed may still count. */
static const char *pool_used_and_reserved(void)
{
	enum { MANY = 8, FEW = 3 };
	const size_t block = 32 * MIB;
	bool exact = fx.mode == MODE_STREAM;
	CUdeviceptr p[MANY];
	struct figures f;
	uint64_t zero = 0;
	STEP(open_pool());
	STEP(set_threshold(UINT64_MAX));
	STEP(take_blocks(p, MANY, block, &f));
	case_note_number("used", (long long)f.used);
	case_info("reserved_mib", (double)f.reserved / MIB);
	if (f.used != MANY * block || f.reserved < f.used || f.used_high < f.used || f.reserved_high < f.reserved)
		return wrong("allocated", &f);
	STEP(free_blocks(p, MANY, &f));
	case_info("used_after_free", (double)f.used);
	if (f.used_high < MANY * block || (exact && (f.used || f.reserved < MANY * block)))
		return wrong("freed", &f);
	TRY(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
	TRY(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero));
	STEP(figures(&f));
	case_info("used_high_after_reset", (double)f.used_high);
	case_info("reserved_high_after_reset", (double)f.reserved_high);
	if (exact && (f.used_high >= MANY * block || f.reserved_high > f.reserved))
		return wrong("reset", &f);
	STEP(take_blocks(p, FEW, block, &f));
	case_info("used_high_again", (double)f.used_high);
	case_note_number("used_again", (long long)f.used);
	if (exact && (f.used != FEW * block || f.used_high < f.used || f.used_high >= MANY * block ||
				  f.reserved_high < f.reserved))
		return wrong("allocated again", &f);
	STEP(free_blocks(p, FEW, &f));
	return NULL;
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
	if (used - used0 != block || reserved < block || reserved > 2 * block + 128 * MIB)
		return case_fail("trimmed to 0 with %zu bytes live: used %llu, reserved %llu", block,
						 (unsigned long long)(used - used0), (unsigned long long)reserved);
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
	return NULL;
}

/* What the program sets is what it reads. */
static const char *pool_threshold_is_kept(void)
{
	static const uint64_t values[] = {5 * MIB, UINT64_MAX, 0};
	uint64_t threshold = 1;
	STEP(open_pool());
	STEP(get(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	case_note_number("default", (long long)threshold);
	for (int i = 0; i < 3; i++) {
		STEP(set_threshold(values[i]));
		STEP(get(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
		case_note_number("then", (long long)threshold);
	}
	return NULL;
}

/* A threshold of 0: what is free goes back at a synchronisation. When, only the heap says: at this one. */
static const char *pool_threshold_zero(void)
{
	CUstream a = fx.stream[STREAM_A];
	CUdeviceptr p;
	uint64_t reserved = 1;
	STEP(open_pool());
	STEP(set_threshold(0));
	TRY(cu.cuMemAllocAsync(&p, fx.total / 16, a));
	TRY(cu.cuMemFreeAsync(p, a));
	for (int i = 0; i < 3; i++)
		TRY(cu.cuStreamSynchronize(a));
	STEP(get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
	case_info("reserved_mib", (double)reserved / MIB);
	TRY(cu.cuCtxSynchronize());
	STEP(get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
	case_info("reserved_mib", (double)reserved / MIB);
	if (fx.mode == MODE_STREAM && reserved > 64 * MIB)
		return case_fail("%.0f MiB stay reserved", (double)reserved / MIB);
	return NULL;
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
	{"pool_threshold_is_kept", pool_threshold_is_kept},
	{"pool_threshold_zero", pool_threshold_zero},
	{"pool_bad_questions", pool_bad_questions},
	{"pool_from_default_by_name", pool_from_default_by_name},
	{"pool_of_the_program", pool_of_the_program},
	{"pool_out_of_memory", pool_out_of_memory},
	{NULL, NULL},
};

/* ENV: TURBO_DEVMEM=stream TURBO_COPY=off BARE */
/*
 * Pools: the default pool's attributes speak of the memory that the program has from it, its
 * unused memory can be trimmed and is counted as free, and pools that the program makes are the
 * driver's.
 */
#include "common/stream_fixture.h"
#include <cmocka.h>

#define BYTES (8 * MIB)

static const CUmemPool_attribute used = CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
								 used_high = CU_MEMPOOL_ATTR_USED_MEM_HIGH,
								 reserved = CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
								 reserved_high = CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH,
								 threshold = CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
static CUmemoryPool pool;
static CUstream s;
static cuuint64_t zero, all = ~0ull;

static uint64_t served(void)
{
	return counter("devmem.stream.served");
}

static size_t free_now(void)
{
	size_t available, total;
	OK(cu.cuMemGetInfo_v2(&available, &total));
	assert_true(available <= total);
	return available;
}

static void attributes_have_the_drivers_defaults(void **state)
{
	int n = -1;
	(void)state;
	for (int which = 1; which <= 3; which++) {
		OK(cu.cuMemPoolGetAttribute(pool, (CUmemPool_attribute)which, &n));
		assert_int_equal(n, 1);
	}
	assert_int_equal(pool_number(pool, threshold), 0);
	assert_int_equal(pool_number(pool, used), 0);
	free_on(s, alloc_on(s, BYTES));
}

static void use_is_counted(void **state)
{
	(void)state;
	OK(cu.cuMemPoolSetAttribute(pool, threshold, &all));
	OK(cu.cuCtxSynchronize());
	OK(cu.cuMemPoolSetAttribute(pool, used_high, &zero));
	CUdeviceptr a = alloc_on(s, BYTES), b = alloc_on(s, 2 * BYTES);
	assert_int_equal(pool_number(pool, used), 3 * BYTES);
	assert_true(pool_number(pool, reserved) >= 3 * BYTES);
	if (fx.preloaded || !sim.errors) /* the simulator keeps no high marks */
		assert_true(pool_number(pool, used_high) >= 3 * BYTES);
	free_on(s, b);
	OK(cu.cuCtxSynchronize());
	assert_int_equal(pool_number(pool, used), BYTES);
	if (fx.preloaded || !sim.errors) {
		assert_true(pool_number(pool, used_high) >= 3 * BYTES);
		OK(cu.cuMemPoolSetAttribute(pool, used_high, &zero));
		assert_true(pool_number(pool, used_high) < 3 * BYTES);
		assert_true(pool_number(pool, used_high) >= BYTES);
		OK(cu.cuMemPoolSetAttribute(pool, reserved_high, &zero));
		assert_int_equal(pool_number(pool, reserved_high), pool_number(pool, reserved));
	}
	free_on(s, a);
}

static void wrong_attributes_are_refused(void **state)
{
	cuuint64_t n = 1;
	(void)state;
	if (!sim.errors) { /* the simulator takes any value */
		assert_int_not_equal(cu.cuMemPoolSetAttribute(pool, used_high, &n), CUDA_SUCCESS);
		assert_int_not_equal(cu.cuMemPoolSetAttribute(pool, used, &zero), CUDA_SUCCESS);
	}
	assert_int_equal(cu.cuMemPoolGetAttribute(pool, (CUmemPool_attribute)99, &n), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cu.cuMemPoolSetAttribute(pool, (CUmemPool_attribute)99, &n), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cu.cuMemPoolTrimTo(NULL, 0), CUDA_ERROR_INVALID_VALUE);
}

static void unused_memory_is_free_memory(void **state)
{
	(void)state;
	OK(cu.cuMemPoolSetAttribute(pool, threshold, &all));
	OK(cu.cuMemPoolTrimTo(pool, 0));
	size_t before = free_now();
	CUdeviceptr p = alloc_on(s, 32 * BYTES);
	assert_true(before - free_now() >= 32 * BYTES);
	free_on(s, p);
	OK(cu.cuCtxSynchronize());
	if (fx.preloaded)
		assert_true(before - free_now() <= BYTES);
}

static void trim_gives_memory_back(void **state)
{
	(void)state;
	OK(cu.cuMemPoolSetAttribute(pool, threshold, &all));
	OK(cu.cuMemPoolTrimTo(pool, 0));
	uint64_t bytes = sim_bytes ? sim_bytes(0) : 0;
	CUdeviceptr keep = alloc_on(s, BYTES), p = alloc_on(s, 16 * BYTES);
	OK(launch_fill(s, keep, BYTES / 4, 77));
	free_on(s, p);
	OK(cu.cuCtxSynchronize());
	OK(cu.cuMemPoolTrimTo(pool, 8 * BYTES));
	if (fx.preloaded) {
		assert_true(pool_number(pool, reserved) <= 8 * BYTES + 32 * MIB);
		assert_true(pool_number(pool, reserved) >= BYTES);
	}
	OK(cu.cuMemPoolTrimTo(pool, 0));
	if (sim_bytes)
		assert_true(sim_bytes(0) - bytes <= BYTES + 32 * MIB);
	assert_int_equal(device_differs_word(keep, BYTES, 77), -1);
	free_on(s, keep);
}

/* After a wait for the stream alone, and after none: the stream has nothing to do, or nearly. On a loaded
 * machine it may take longer than a trim waits, now and then. */
static void trim_waits_for_idle_streams(void **state)
{
	int late = 0;
	(void)state;
	OK(cu.cuMemPoolSetAttribute(pool, threshold, &all));
	for (int i = 0; fx.preloaded && i < 20; i++) {
		free_on(s, alloc_on(s, 16 * BYTES));
		if (i % 2)
			OK(cu.cuStreamSynchronize(s));
		OK(cu.cuMemPoolTrimTo(pool, 0));
		late += pool_number(pool, reserved) != 0;
	}
	assert_true(late <= 5);
}

/* What the program said, at the next synchronisation. */
static void threshold_is_obeyed(void **state)
{
	cuuint64_t limit = 4 * BYTES;
	(void)state;
	OK(cu.cuMemPoolTrimTo(pool, 0));
	OK(cu.cuMemPoolSetAttribute(pool, threshold, &all));
	free_on(s, alloc_on(s, 16 * BYTES));
	OK(cu.cuCtxSynchronize());
	if (fx.preloaded)
		assert_true(pool_number(pool, reserved) >= 16 * BYTES);
	OK(cu.cuMemPoolSetAttribute(pool, threshold, &limit));
	assert_int_equal(pool_number(pool, threshold), limit);
	OK(cu.cuCtxSynchronize());
	assert_true(pool_number(pool, reserved) <= limit + 32 * MIB);
	OK(cu.cuMemPoolSetAttribute(pool, threshold, &zero));
	OK(cu.cuCtxSynchronize());
	assert_int_equal(pool_number(pool, reserved), 0);
	free_on(s, alloc_on(s, BYTES));
}

static CUmemoryPool pool_new(void)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
							.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	CUmemoryPool own = NULL;
	OK(cu.cuMemPoolCreate(&own, &props));
	return own;
}

static void pools_with_handles_are_the_drivers(void **state)
{
	CUdeviceptr p;
	CUmemoryPool own = pool_new();
	uint64_t before = served();
	(void)state;
	OK(cu.cuMemAllocFromPoolAsync(&p, BYTES, own, s));
	assert_int_equal(served(), before);
	assert_int_equal(pool_number(own, used), BYTES);
	free_on(s, p);
	/* The default pool has a handle, too. */
	OK(cu.cuMemAllocFromPoolAsync(&p, BYTES, pool, s));
	if (fx.preloaded)
		assert_int_equal(served(), before + 1);
	assert_int_equal(pool_number(pool, used), BYTES);
	free_on(s, p);
	OK(cu.cuMemAllocFromPoolAsync_ptsz(&p, BYTES, pool, NULL));
	OK(cu.cuMemFreeAsync_ptsz(p, NULL));
	OK(cu.cuCtxSynchronize());
	OK(cu.cuMemPoolDestroy(own));
}

static void current_pool_decides(void **state)
{
	CUmemoryPool own = pool_new(), now;
	(void)state;
	CUdeviceptr before = alloc_on(s, BYTES);
	uint64_t n = served();
	OK(cu.cuDeviceSetMemPool(0, own));
	CUdeviceptr p = alloc_on(s, BYTES);
	assert_int_equal(served(), n);
	assert_int_equal(pool_number(own, used), BYTES);
	free_on(s, p);
	free_on(s, before); /* wherever it came from */
	OK(cu.cuDeviceSetMemPool(0, pool));
	free_on(s, alloc_on(s, BYTES));
	if (fx.preloaded)
		assert_int_equal(served(), n + 1);
	/* Without the pool that was current, the default one is. */
	OK(cu.cuDeviceSetMemPool(0, own));
	OK(cu.cuCtxSynchronize());
	OK(cu.cuMemPoolDestroy(own));
	OK(cu.cuDeviceGetMemPool(&now, 0));
	assert_ptr_equal(now, pool);
	free_on(s, alloc_on(s, BYTES));
	if (fx.preloaded)
		assert_int_equal(served(), n + 2);
}

/* Memory of one device, allocated on a stream of another one. */
static void pool_of_another_device(void **state)
{
	CUdeviceptr p, q;
	(void)state;
	if (fx.devices < 2)
		copy_skip("one device");
	CUmemoryPool other = default_pool(1);
	CUmemAccessDesc here = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	OK(cu.cuMemPoolSetAccess(other, &here, 1)); /* or this device may not touch it */
	OK(cu.cuMemAllocFromPoolAsync(&p, BYTES, other, s));
	assert_int_equal(pool_number(other, used), BYTES);
	assert_int_equal(pool_number(pool, used), 0);
	free_on(s, p);
	OK(cu.cuMemAllocFromPoolAsync(&q, BYTES, other, s));
	if (fx.preloaded)
		assert_int_equal(q, p);
	OK(launch_fill(s, q, BYTES / 4, 6));
	assert_int_equal(device_differs_word(q, BYTES, 6), -1);
	free_on(s, q);
	OK(cu.cuCtxSynchronize());
	assert_int_equal(pool_number(other, used), 0);
}

static void access_is_the_pools(void **state)
{
	(void)state;
	if (fx.devices < 2 || !cu.cuMemPoolSetAccess || !cu.cuMemPoolGetAccess)
		copy_skip("one device, or a driver without it");
	CUmemAccessDesc desc = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1},
							.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemAccess_flags flags;
	CUdeviceptr p = alloc_on(s, BYTES);
	OK(cu.cuMemPoolSetAccess(pool, &desc, 1));
	OK(cu.cuMemPoolGetAccess(&flags, pool, &desc.location));
	assert_int_equal(flags, desc.flags);
	OK(launch_fill(s, p, BYTES / 4, 6));
	assert_int_equal(device_differs_word(p, BYTES, 6), -1);
	desc.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	OK(cu.cuMemPoolSetAccess(pool, &desc, 1));
	OK(cu.cuMemPoolGetAccess(&flags, pool, &desc.location));
	assert_int_equal(flags, desc.flags);
	free_on(s, p);
}

static int set_up(void **state)
{
	pool = default_pool(0);
	s = stream_new();
	return stream_begin(state);
}

static int tear_down(void **state)
{
	OK(cu.cuCtxSynchronize());
	OK(cu.cuMemPoolTrimTo(pool, 0));
	OK(cu.cuStreamDestroy_v2(s));
	return stream_end(state);
}

static int tear_down_any(void **state)
{
	OK(cu.cuStreamDestroy_v2(s));
	return stream_end_any(state);
}

int main(void)
{
	stream_open();
	copy_limit();
#define POOL(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
#define POOL_ANY(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down_any)
	const struct CMUnitTest tests[] = {
		POOL(attributes_have_the_drivers_defaults),
		POOL(use_is_counted),
		POOL_ANY(wrong_attributes_are_refused),
		POOL(unused_memory_is_free_memory),
		POOL(trim_gives_memory_back),
		POOL(trim_waits_for_idle_streams),
		POOL(threshold_is_obeyed),
		POOL(pools_with_handles_are_the_drivers),
		POOL(current_pool_decides),
		POOL(pool_of_another_device),
		POOL_ANY(access_is_the_pools),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

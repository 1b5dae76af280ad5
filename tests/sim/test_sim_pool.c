/*
 * test_sim_pool.c - pools of the stream-ordered allocator: what they keep, and when memory is
 * used again.
 */

#include "common/simtest.h"

#define MIB ((size_t)1 << 20)

static CUmemoryPool pool_new(void)
{
	CUmemoryPool pool;
	CUmemPoolProps props;
	memset(&props, 0, sizeof props);
	props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	ok(cuMemPoolCreate(&pool, &props));
	return pool;
}

static uint64_t wide(CUmemoryPool pool, CUmemPool_attribute which)
{
	cuuint64_t value = 0;
	ok(cuMemPoolGetAttribute(pool, which, &value));
	return value;
}

static void set_int(CUmemoryPool pool, CUmemPool_attribute which, int value)
{
	int now = -1;
	ok(cuMemPoolSetAttribute(pool, which, &value));
	ok(cuMemPoolGetAttribute(pool, which, &now));
	assert_int_equal(now, value);
}

static void set_threshold(CUmemoryPool pool, cuuint64_t value)
{
	ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value));
	assert_true(wide(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) == value);
}

static CUdeviceptr take(CUmemoryPool pool, size_t n, CUstream s)
{
	CUdeviceptr p = 0;
	ok(cuMemAllocFromPoolAsync(&p, n, pool, s));
	return p;
}

static uint64_t reserved(CUmemoryPool pool)
{
	return wide(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
}
static uint64_t used(CUmemoryPool pool)
{
	return wide(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
}

static void memory_is_kept_up_to_the_threshold(void **state)
{
	(void)state;
	CUmemoryPool pool = pool_new();
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING);
	assert_int_equal(wide(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), 0);
	CUdeviceptr p = take(pool, 64 * MIB, s);
	assert_true(reserved(pool) >= 64 * MIB);
	ok(cuMemFreeAsync(p, s));
	ok(cuStreamSynchronize(s)); /* given back here */
	assert_int_equal(reserved(pool), 0);
	set_threshold(pool, UINT64_MAX);
	p = take(pool, 64 * MIB, s);
	ok(cuMemFreeAsync(p, s));
	ok(cuStreamSynchronize(s));
	uint64_t kept = reserved(pool);
	assert_true(kept >= 64 * MIB);
	p = take(pool, 64 * MIB, s);
	assert_int_equal(reserved(pool), kept);
	ok(cuMemPoolTrimTo(pool, 0)); /* what is in use stays */
	assert_int_equal(reserved(pool), kept);
	ok(cuMemFreeAsync(p, s));
	ok(cuStreamSynchronize(s));
	ok(cuMemPoolTrimTo(pool, kept)); /* nothing to do */
	assert_int_equal(reserved(pool), kept);
	ok(cuMemPoolTrimTo(pool, 0));
	assert_int_equal(reserved(pool), 0);
	ok(cuMemPoolDestroy(pool));
	ok(cuStreamDestroy_v2(s));
}

static void attributes(void **state)
{
	(void)state;
	CUmemoryPool pool = pool_new();
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING);
	cuuint64_t zero = 0, one = 1;
	int on = 0;
	for (int which = CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES;
		 which <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES; which++) {
		ok(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)which, &on));
		assert_int_equal(on, 1);
		set_int(pool, (CUmemPool_attribute)which, 0);
		set_int(pool, (CUmemPool_attribute)which, 1);
	}
	set_threshold(pool, UINT64_MAX);
	CUdeviceptr p = take(pool, 10 * MIB, s), q = take(pool, 20 * MIB, s);
	assert_int_equal(used(pool), 30 * MIB);
	ok(cuMemFreeAsync(q, s));
	ok(cuStreamSynchronize(s));
	assert_int_equal(used(pool), 10 * MIB);
	assert_int_equal(wide(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 30 * MIB);
	fails(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &one), CUDA_ERROR_INVALID_VALUE);
	fails(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &one), CUDA_ERROR_INVALID_VALUE);
	fails(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &zero), CUDA_ERROR_INVALID_VALUE);
	fails(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &zero), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
	ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero));
	assert_true(wide(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) <= 10 * MIB);
	assert_true(wide(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) <= reserved(pool));
	q = take(pool, MIB, s);
	assert_int_equal(wide(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 11 * MIB);
	ok(cuMemFreeAsync(p, s));
	ok(cuMemFreeAsync(q, s));
	fails(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)99, &zero), CUDA_ERROR_INVALID_VALUE);
	ok(cuStreamSynchronize(s));
	ok(cuMemPoolDestroy(pool));
	ok(cuStreamDestroy_v2(s));
}

/* ---- reuse ---- */

static void the_same_stream_uses_it_at_once(void **state)
{
	(void)state;
	CUmemoryPool pool = pool_new();
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING);
	uint32_t *host = st_pinned(64);
	struct st_gate gate;
	set_threshold(pool, UINT64_MAX);
	CUdeviceptr p = take(pool, 8 * MIB, s), q;
	st_gate_close(&gate, s);
	st_fill(p, 2 * MIB, 1, s);
	ok(cuMemcpyAsync((CUdeviceptr)host, p + 8 * MIB - 4, 4, s)); /* reads the first owner's bytes */
	ok(cuMemFreeAsync(p, s));
	q = take(pool, 4 * MIB, s);
	assert_true(q >= p && q < p + 8 * MIB);
	st_fill(q, MIB, 2, s);
	ok(cuMemcpyAsync((CUdeviceptr)(host + 1), q, 4, s));
	st_gate_open(&gate);
	ok(cuStreamSynchronize(s));
	assert_int_equal(host[0], 1);
	assert_int_equal(host[1], 2);
	ok(cuMemFreeAsync(q, s));
	ok(cuStreamSynchronize(s));
	ok(cuMemPoolDestroy(pool));
	ok(cuStreamDestroy_v2(s));
	ok(cuMemFreeHost(host));
	st_gate_free(&gate);
}

static bool overlap(CUdeviceptr p, CUdeviceptr q, size_t n)
{
	return p < q + n && q < p + n;
}

/* Another stream must be ordered after the free. */
static void other_streams_wait_for_the_free(void **state)
{
	(void)state;
	for (int dependent = 0; dependent < 2; dependent++) {
		CUmemoryPool pool = pool_new();
		CUstream s = st_stream(CU_STREAM_NON_BLOCKING), t = st_stream(CU_STREAM_NON_BLOCKING);
		CUevent e = st_event();
		struct st_gate gate;
		set_threshold(pool, UINT64_MAX);
		CUdeviceptr p = take(pool, 32 * MIB, s);
		st_gate_close(&gate, s);
		ok(cuMemFreeAsync(p, s));
		ok(cuEventRecord(e, s));
		if (dependent)
			ok(cuStreamWaitEvent(t, e, 0));
		CUdeviceptr q = take(pool, 32 * MIB, t);
		assert_int_equal(overlap(p, q, 32 * MIB), dependent);
		st_gate_open(&gate);
		ok(cuMemFreeAsync(q, t));
		ok(cuStreamSynchronize(s));
		ok(cuStreamSynchronize(t));
		ok(cuMemPoolDestroy(pool));
		ok(cuStreamDestroy_v2(s));
		ok(cuStreamDestroy_v2(t));
		ok(cuEventDestroy_v2(e));
		st_gate_free(&gate);
	}
}

static void a_completed_free_serves_any_stream(void **state)
{
	(void)state;
	CUmemoryPool pool = pool_new();
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING), t = st_stream(CU_STREAM_NON_BLOCKING);
	set_threshold(pool, UINT64_MAX);
	CUdeviceptr p = take(pool, 32 * MIB, s);
	ok(cuMemFreeAsync(p, s));
	ok(cuStreamSynchronize(s));
	CUdeviceptr q = take(pool, 32 * MIB, t);
	assert_true(overlap(p, q, 32 * MIB));
	ok(cuMemFreeAsync(q, t));
	ok(cuStreamSynchronize(t));
	ok(cuMemPoolDestroy(pool));
	ok(cuStreamDestroy_v2(s));
	ok(cuStreamDestroy_v2(t));
}

/* ---- the other ways to free ---- */

static CUresult free_call(void *p)
{
	return cuMemFree_v2((CUdeviceptr)p);
}

static void a_plain_free_does_not_wait(void **state)
{
	(void)state;
	CUmemoryPool pool = pool_new();
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING), busy = st_stream(CU_STREAM_NON_BLOCKING);
	struct st_gate gate;
	CUresult result;
	CUdeviceptr p = take(pool, MIB, s);
	ok(cuStreamSynchronize(s));
	st_gate_close(&gate, busy);
	assert_false(st_waits(&gate, free_call, (void *)p, &result));
	ok(result);
	assert_int_equal(used(pool), MIB); /* for good: the driver does not count these frees */
	ok(cuStreamSynchronize(busy));
	ok(cuMemPoolTrimTo(pool, 0));
	assert_int_equal(reserved(pool), 0);
	assert_int_equal(used(pool), MIB);
	ok(cuMemPoolDestroy(pool));
	ok(cuStreamDestroy_v2(s));
	ok(cuStreamDestroy_v2(busy));
	st_gate_free(&gate);
}

static void what_cannot_be_freed(void **state)
{
	(void)state;
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr p = 0;
	ok(cuMemAllocAsync(&p, MIB, s));
	fails(cuMemFreeAsync(p + 512, s), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemFreeAsync(p, s));
	fails(cuMemFreeAsync(p, s), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemFreeAsync(0, s));
	ok(cuStreamSynchronize(s));
	ok(cuStreamDestroy_v2(s));
}

static void what_cannot_be_allocated(void **state)
{
	(void)state;
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr p = 0;
	fails(cuMemAllocAsync(NULL, MIB, s), CUDA_ERROR_INVALID_VALUE);
	fails(cuMemAllocAsync(&p, (size_t)1 << 50, s), CUDA_ERROR_OUT_OF_MEMORY);
	fails(cuMemAllocFromPoolAsync(&p, MIB, NULL, s), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(p, 0);
	ok(cuStreamSynchronize(s));
	ok(cuStreamDestroy_v2(s));
}

/* Unlike cuMemAlloc. */
static void no_bytes_can_be_allocated(void **state)
{
	(void)state;
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr p = 0;
	ok(cuMemAllocAsync(&p, 0, s));
	ok(cuMemFreeAsync(p, s));
	ok(cuStreamSynchronize(s));
	ok(cuStreamDestroy_v2(s));
}

static void plain_memory_can_be_freed_in_order(void **state)
{
	(void)state;
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING);
	uint32_t *host = st_pinned(64);
	struct st_gate gate;
	CUdeviceptr p = st_device(MIB);
	st_gate_close(&gate, s);
	st_fill(p, 16, 5, s);
	ok(cuMemcpyAsync((CUdeviceptr)host, p, 4, s));
	ok(cuMemFreeAsync(p, s));
	st_gate_open(&gate);
	ok(cuStreamSynchronize(s));
	assert_int_equal(host[0], 5);
	ok(cuStreamDestroy_v2(s));
	ok(cuMemFreeHost(host));
	st_gate_free(&gate);
}

/* ---- pools and devices ---- */

static void pools_of_a_device(void **state)
{
	(void)state;
	CUmemoryPool standard, now, pool = pool_new(), from;
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING);
	ok(cuDeviceGetDefaultMemPool(&standard, 0));
	ok(cuDeviceGetMemPool(&now, 0));
	assert_ptr_equal(now, standard);
	ok(cuDeviceSetMemPool(0, pool));
	ok(cuDeviceGetMemPool(&now, 0));
	assert_ptr_equal(now, pool);
	CUdeviceptr p;
	ok(cuMemAllocAsync(&p, MIB, s));
	ok(cuPointerGetAttribute(&from, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
	assert_ptr_equal(from, pool);
	CUcontext ctx = st_ctx;
	ok(cuPointerGetAttribute(&ctx, CU_POINTER_ATTRIBUTE_CONTEXT, p));
	assert_null(ctx);
	fails(cuMemPoolDestroy(standard), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemPoolDestroy(pool)); /* goes when p does */
	ok(cuDeviceGetMemPool(&now, 0));
	assert_ptr_equal(now, standard);
	st_fill(p, 16, 1, s);
	ok(cuMemFreeAsync(p, s));
	ok(cuStreamSynchronize(s));
	ok(cuStreamDestroy_v2(s));
}

static void access_of_a_pool(void **state)
{
	(void)state;
	CUmemoryPool pool = pool_new();
	int devices;
	CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE}, there = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
	CUmemAccess_flags flags;
	ok(cuMemPoolGetAccess(&flags, pool, &here));
	assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	ok(cuDeviceGetCount(&devices));
	if (devices > 1) {
		CUmemAccessDesc desc = {there, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
		ok(cuMemPoolGetAccess(&flags, pool, &there));
		assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
		ok(cuMemPoolSetAccess(pool, &desc, 1));
		ok(cuMemPoolGetAccess(&flags, pool, &there));
		assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	}
	CUmemAccessDesc none = {here, CU_MEM_ACCESS_FLAGS_PROT_NONE};
	assert_int_not_equal(cuMemPoolSetAccess(pool, &none, 1), CUDA_SUCCESS);
	ok(cuMemPoolDestroy(pool));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_kept_up_to_the_threshold),
		cmocka_unit_test(attributes),
		cmocka_unit_test(the_same_stream_uses_it_at_once),
		cmocka_unit_test(other_streams_wait_for_the_free),
		cmocka_unit_test(a_completed_free_serves_any_stream),
		cmocka_unit_test(a_plain_free_does_not_wait),
		cmocka_unit_test(what_cannot_be_freed),
		cmocka_unit_test(what_cannot_be_allocated),
		cmocka_unit_test(no_bytes_can_be_allocated),
		cmocka_unit_test(plain_memory_can_be_freed_in_order),
		cmocka_unit_test(pools_of_a_device),
		cmocka_unit_test(access_of_a_pool),
	};
	return cmocka_run_group_tests(tests, simtest_setup, simtest_teardown);
}

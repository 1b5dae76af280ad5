/*
 * test_sim_limits.c - what is the simulator's own: strict peer access, kernels that mark memory,
 * memory that runs out in pools, costs, many allocations.
 */
#include <unistd.h>
#include <time.h>

#include "common/simtest.h"
#include "sim.h"

#define MIB ((size_t)1 << 20)
#define CTX_MB 8 /* main() asks for it */

static CUfunction tag_fill, tag_check;
static uint64_t *wrong;

static int setup(void **state)
{
	CUmodule module;
	if (simtest_setup(state) || cuModuleLoadData(&module, "simulated") ||
		cuModuleGetFunction(&tag_fill, module, "tag_fill") ||
		cuModuleGetFunction(&tag_check, module, "tag_check"))
		return -1;
	wrong = st_pinned(sizeof *wrong);
	return 0;
}

static void fill(CUdeviceptr p, uint64_t bytes, uint64_t tag, CUstream s)
{
	void *args[] = {&p, &bytes, &tag};
	st_launch(tag_fill, s, args);
}

static void check(CUdeviceptr p, uint64_t bytes, uint64_t tag, CUstream s)
{
	void *args[] = {&p, &bytes, &tag, &wrong};
	st_launch(tag_check, s, args);
}

static uint64_t mismatches(CUdeviceptr p, uint64_t bytes, uint64_t tag)
{
	*wrong = 0;
	check(p, bytes, tag, NULL);
	ok(cuCtxSynchronize());
	return *wrong;
}

static void marks(void **state)
{
	(void)state;
	static const uint64_t sizes[] = {8, 16, 512, 1032, 4096, 65536 + 8, 2 << 20, 64 << 20};
	CUdeviceptr p = st_device(64 * MIB);
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		uint64_t n = sizes[i];
		fill(p, n, 5, NULL);
		assert_int_equal(mismatches(p, n, 5), 0);
		assert_true(mismatches(p, n, 6) >= (n < 256 ? n / 8 : 32));
		fill(p + n - 8, 8, 7, NULL); /* the last word */
		assert_int_equal(mismatches(p, n, 5), 1);
		fill(p, n, 5, NULL);
		fill(p, 8, 7, NULL); /* the first */
		assert_int_equal(mismatches(p, n, 5), 1);
	}
	/* A block's words in another's place: a word depends on its place. */
	fill(p, 1024, 5, NULL);
	assert_true(mismatches(p + 8, 512, 5) > 60);
	ok(cuMemFree_v2(p));
	assert_int_equal(sim_errors(), 0);
}

static void marks_across_mappings(void **state)
{
	(void)state;
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
								.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle h[3];
	CUdeviceptr va;
	ok(cuMemAddressReserve(&va, 6 * MIB, 0, 0, 0));
	for (int i = 0; i < 3; i++) {
		ok(cuMemCreate(&h[i], 2 * MIB, &prop, 0));
		ok(cuMemMap(va + 2 * MIB * (size_t)i, 2 * MIB, 0, h[i], 0));
		ok(cuMemRelease(h[i]));
	}
	ok(cuMemSetAccess(va, 6 * MIB, &access, 1));
	fill(va + 4096, 6 * MIB - 8192, 11, NULL);
	assert_int_equal(mismatches(va + 4096, 6 * MIB - 8192, 11), 0);
	fill(va + 2 * MIB - 1024, 2048, 12, NULL);
	assert_int_equal(mismatches(va + 2 * MIB - 1024, 2048, 12), 0);
	ok(cuMemUnmap(va, 6 * MIB));
	ok(cuMemAddressFree(va, 6 * MIB));
}

/* ---- peers ---- */

/* A context of its own: a fatal error stays with it. */
static CUfunction context_with_fill(CUcontext *ctx, CUdevice dev)
{
	CUmodule module;
	CUfunction f;
	ok(cuCtxCreate_v2(ctx, 0, dev));
	ok(cuModuleLoadData(&module, "simulated"));
	ok(cuModuleGetFunction(&f, module, "tag_fill"));
	return f;
}

static CUresult other_device_fills(bool enable)
{
	CUcontext there;
	CUdeviceptr p = st_device(4096);
	CUfunction f = context_with_fill(&there, 1);
	fails(cuCtxDisablePeerAccess(st_ctx), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	if (enable) {
		ok(cuCtxEnablePeerAccess(st_ctx, 0));
		fails(cuCtxEnablePeerAccess(st_ctx, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	}
	ok(cuMemcpyDtoD_v2(p, p + 2048, 1024)); /* a copy needs none */
	uint64_t bytes = 64, tag = 1;
	void *args[] = {&p, &bytes, &tag};
	ok(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
	CUresult result = cuCtxSynchronize();
	ok(cuCtxDestroy_v2(there));
	ok(cuCtxSetCurrent(st_ctx));
	ok(cuMemFree_v2(p));
	return result;
}

static void kernels_need_peer_access(void **state)
{
	(void)state;
	sim_reset();
	ok(other_device_fills(true));
	assert_int_equal(sim_errors(), 0);
	fails(other_device_fills(false), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(sim_errors(), 1);
	sim_reset();
}

static void kernels_need_access_to_a_pool(void **state)
{
	(void)state;
	CUmemoryPool pool;
	CUdeviceptr p;
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING);
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
							.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemAccessDesc there = {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	ok(cuMemPoolCreate(&pool, &props));
	ok(cuMemAllocFromPoolAsync(&p, 4096, pool, s));
	ok(cuStreamSynchronize(s));
	for (int allowed = 1; allowed >= 0; allowed--) {
		CUcontext ctx;
		there.flags = allowed ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
		ok(cuMemPoolSetAccess(pool, &there, 1));
		CUfunction f = context_with_fill(&ctx, 1);
		uint64_t bytes = 64, tag = 1;
		void *args[] = {&p, &bytes, &tag};
		ok(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
		fails(cuCtxSynchronize(), allowed ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS);
		ok(cuCtxDestroy_v2(ctx));
		ok(cuCtxSetCurrent(st_ctx));
	}
	assert_int_equal(sim_errors(), 1);
	sim_reset();
	ok(cuMemFreeAsync(p, s));
	ok(cuStreamSynchronize(s));
	ok(cuMemPoolDestroy(pool));
	ok(cuStreamDestroy_v2(s));
}

/* ---- memory that runs out ---- */

static void a_pool_gets_what_others_keep(void **state)
{
	(void)state;
	CUmemoryPool pool[2];
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
							.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	cuuint64_t all = UINT64_MAX, kept;
	CUdeviceptr p, q;
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING);
	for (int i = 0; i < 2; i++) {
		ok(cuMemPoolCreate(&pool[i], &props));
		ok(cuMemPoolSetAttribute(pool[i], CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
	}
	ok(cuMemAllocFromPoolAsync(&p, 640 * MIB, pool[0], s));
	fails(cuMemAllocFromPoolAsync(&q, 640 * MIB, pool[1], s), CUDA_ERROR_OUT_OF_MEMORY);
	ok(cuMemFreeAsync(p, s));
	ok(cuStreamSynchronize(s));
	fails(cuMemAlloc_v2(&q, 640 * MIB), CUDA_ERROR_OUT_OF_MEMORY); /* kept is kept */
	ok(cuMemAllocFromPoolAsync(&q, 640 * MIB, pool[1], s));
	ok(cuMemPoolGetAttribute(pool[0], CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &kept));
	assert_int_equal(kept, 0);
	ok(cuMemFreeAsync(q, s));
	ok(cuStreamSynchronize(s));
	for (int i = 0; i < 2; i++)
		ok(cuMemPoolDestroy(pool[i]));
	p = st_device(640 * MIB);
	ok(cuMemFree_v2(p));
	ok(cuStreamDestroy_v2(s));
}

/* When no more is to be had, the stream that wants memory waits for a pending free. */
static void out_of_memory_makes_a_stream_wait(void **state)
{
	(void)state;
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING), t = st_stream(CU_STREAM_NON_BLOCKING);
	CUmemoryPool pool;
	CUdeviceptr p, q;
	CUevent e = st_event();
	struct st_gate gate;
	int on = 1, off = 0;
	ok(cuDeviceGetDefaultMemPool(&pool, 0));
	ok(cuMemAllocAsync(&p, 640 * MIB, s));
	st_gate_close(&gate, s);
	ok(cuMemFreeAsync(p, s));
	ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &off));
	fails(cuMemAllocAsync(&q, 640 * MIB, t), CUDA_ERROR_OUT_OF_MEMORY);
	ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &on));
	ok(cuMemAllocAsync(&q, 640 * MIB, t));
	ok(cuEventRecord(e, t));
	usleep(20000);
	fails(cuEventQuery(e), CUDA_ERROR_NOT_READY);
	st_gate_open(&gate);
	ok(cuEventSynchronize(e));
	ok(cuMemFreeAsync(q, t));
	ok(cuStreamSynchronize(t));
	ok(cuStreamDestroy_v2(s));
	ok(cuStreamDestroy_v2(t));
	ok(cuEventDestroy_v2(e));
	st_gate_free(&gate);
}

static void use_after_a_stream_ordered_free_is_seen(void **state)
{
	(void)state;
	CUmemoryPool pool;
	CUdeviceptr p;
	CUcontext ctx;
	cuuint64_t all = UINT64_MAX, none = 0;
	uint64_t bytes = 64, tag = 1;
	void *args[] = {&p, &bytes, &tag};
	struct st_gate gate;
	ok(cuDeviceGetDefaultMemPool(&pool, 0));
	ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
	sim_reset();
	for (int plain = 0; plain < 2; plain++) {
		CUfunction f = context_with_fill(&ctx, 0);
		CUstream s = st_stream(CU_STREAM_NON_BLOCKING);
		ok(cuMemAllocAsync(&p, MIB, s));
		gate.flag = st_pinned(64);
		ok(cuStreamWaitValue32_v2(s, (CUdeviceptr)gate.flag, 1, CU_STREAM_WAIT_VALUE_EQ));
		if (!plain)
			ok(cuMemFreeAsync(p, s));
		ok(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, args, NULL));
		if (plain) { /* says that nothing uses it any more */
			assert_int_equal(sim_errors(), 1);
			ok(cuMemFree_v2(p));
			assert_int_equal(sim_errors(), 2);
		}
		st_gate_open(&gate);
		fails(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
		assert_int_equal(sim_errors(), plain ? 3 : 1);
		ok(cuCtxDestroy_v2(ctx));
		ok(cuCtxSetCurrent(st_ctx));
	}
	ok(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &none));
	ok(cuCtxSynchronize());
	sim_reset();
}

static void a_second_free_in_order_is_seen(void **state)
{
	(void)state;
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr p;
	struct st_gate gate;
	uint64_t before = sim_live_allocs();
	for (int plain = 0; plain < 2; plain++) {
		sim_reset();
		if (plain)
			p = st_device(MIB);
		else
			ok(cuMemAllocAsync(&p, MIB, s));
		st_gate_close(&gate, s);
		ok(cuMemFreeAsync(p, s));
		assert_int_equal(sim_live_allocs(), before);
		fails(cuMemFreeAsync(p, s), CUDA_ERROR_INVALID_VALUE);
		fails(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
		assert_int_equal(sim_errors(), 2);
		st_gate_open(&gate);
		ok(cuStreamSynchronize(s));
		fails(cuMemFreeAsync(p, s), CUDA_ERROR_INVALID_VALUE);
		assert_int_equal(sim_errors(), 3);
		st_gate_free(&gate);
	}
	ok(cuStreamDestroy_v2(s));
	sim_reset();
}

static void a_context_takes_memory(void **state)
{
	(void)state;
	CUcontext ctx;
	size_t before, during, after, total;
	uint64_t bytes = sim_live_bytes(0);
	ok(cuMemGetInfo_v2(&before, &total));
	ok(cuCtxCreate_v2(&ctx, 0, 0));
	ok(cuMemGetInfo_v2(&during, &total));
	assert_int_equal(before - during, CTX_MB * MIB);
	assert_int_equal(sim_live_bytes(0), bytes + CTX_MB * MIB);
	ok(cuCtxDestroy_v2(ctx));
	ok(cuCtxSetCurrent(st_ctx));
	ok(cuMemGetInfo_v2(&after, &total));
	assert_int_equal(after, before);
	CUdeviceptr p = st_device(before - CTX_MB * MIB / 2);
	fails(cuCtxCreate_v2(&ctx, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
	ok(cuMemFree_v2(p));
}

/* ---- many ---- */

static void many_small_allocations_stay_fast(void **state)
{
	(void)state;
	enum { MANY = 100000 };
	CUdeviceptr *p = calloc(MANY, sizeof *p);
	assert_non_null(p);
	time_t begin = time(NULL);
	for (int i = 0; i < MANY; i++)
		ok(cuMemAlloc_v2(&p[i], 512));
	for (int i = 0; i < MANY; i++) { /* in another order */
		size_t j = (size_t)i * 7919 % MANY;
		ok(cuMemFree_v2(p[j]));
	}
	assert_true(time(NULL) - begin < 20); /* quadratic work takes minutes */
	assert_int_equal(sim_live_allocs(), 0);
	free(p);
}

int main(int argc, char **argv)
{
	(void)argc;
	simtest_only_sim();
	if (!getenv("SIM_PEER")) { /* it is read when the driver is loaded */
		setenv("SIM_PEER", "strict", 1);
		setenv("SIM_CTX_MB", "8", 1);
		execv("/proc/self/exe", argv);
		return 1;
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(marks),
		cmocka_unit_test(marks_across_mappings),
		cmocka_unit_test(kernels_need_peer_access),
		cmocka_unit_test(kernels_need_access_to_a_pool),
		cmocka_unit_test(a_pool_gets_what_others_keep),
		cmocka_unit_test(out_of_memory_makes_a_stream_wait),
		cmocka_unit_test(use_after_a_stream_ordered_free_is_seen),
		cmocka_unit_test(a_second_free_in_order_is_seen),
		cmocka_unit_test(a_context_takes_memory),
		cmocka_unit_test(many_small_allocations_stay_fast),
	};
	return cmocka_run_group_tests(tests, setup, simtest_teardown);
}

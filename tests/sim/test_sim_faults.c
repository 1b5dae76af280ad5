/*
 * test_sim_faults.c - what only the simulator has: injected failures, counters, mistakes
 * it notices, finite memory, calls in forked children.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "common/simtest.h"
#include "sim.h"

static int setup(void **state)
{
	(void)state;
	sim_reset();
	return 0;
}

static void failures_are_injected(void **state)
{
	(void)state;
	CUevent e = st_event();
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING);
	sim_fail_set("cuEventRecord", 2, CUDA_ERROR_OUT_OF_MEMORY);
	ok(cuEventRecord(e, s));
	fails(cuEventRecord(e, s), CUDA_ERROR_OUT_OF_MEMORY);
	ok(cuEventRecord(e, s));
	ok(cuEventRecord_ptsz(e, s));
	sim_fail_set("cuEventQuery", 0, CUDA_ERROR_UNKNOWN);
	fails(cuEventQuery(e), CUDA_ERROR_UNKNOWN);
	fails(cuEventQuery(e), CUDA_ERROR_UNKNOWN);
	sim_fail_clear();
	ok(cuEventSynchronize(e));
	ok(cuEventDestroy_v2(e));
	ok(cuStreamDestroy_v2(s));
}

static void fatal_failures_stick(void **state)
{
	(void)state;
	CUcontext ctx;
	CUdeviceptr p;
	ok(cuCtxCreate_v2(&ctx, 0, 0));
	sim_fail_set("cuMemAlloc_v2", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
	fails(cuMemAlloc_v2(&p, 64), CUDA_ERROR_ILLEGAL_ADDRESS);
	fails(cuMemAlloc_v2(&p, 64), CUDA_ERROR_ILLEGAL_ADDRESS);
	fails(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	ok(cuCtxDestroy_v2(ctx));
	ok(cuMemAlloc_v2(&p, 64)); /* the other context is well */
	ok(cuMemFree_v2(p));
}

static void calls_are_counted(void **state)
{
	(void)state;
	int version;
	CUdeviceptr p = st_device(64);
	assert_int_equal(sim_calls("cuMemAlloc_v2"), 1);
	assert_int_equal(sim_calls("cuMemAlloc"), 0);
	assert_int_equal(sim_calls("nonsense"), 0);
	uint64_t total = sim_calls_total();
	ok(cuDriverGetVersion(&version));
	assert_int_equal(version, 13000);
	assert_int_equal(sim_calls_total(), total + 1);
	ok(cuMemFree_v2(p));
}

static void live_things_are_counted(void **state)
{
	(void)state;
	uint64_t allocs = sim_live_allocs(), events = sim_live_events(), streams = sim_live_streams();
	CUdeviceptr p = st_device(64);
	CUevent e = st_event();
	CUstream s = st_stream(0);
	char *block = aligned_alloc(4096, 4096);
	void *pinned = st_pinned(64);
	ok(cuMemHostRegister_v2(block, 4096, 0));
	assert_int_equal(sim_live_allocs(), allocs + 1);
	assert_int_equal(sim_live_events(), events + 1);
	assert_int_equal(sim_live_streams(), streams + 1);
	assert_int_equal(sim_host_registrations(), 1);
	assert_int_equal(sim_host_allocs(), 1);
	ok(cuMemHostUnregister(block));
	ok(cuMemFreeHost(pinned));
	ok(cuStreamDestroy_v2(s));
	ok(cuEventDestroy_v2(e));
	ok(cuMemFree_v2(p));
	assert_int_equal(sim_live_allocs(), allocs);
	assert_int_equal(sim_live_events(), events);
	assert_int_equal(sim_live_streams(), streams);
	assert_int_equal(sim_host_registrations(), 0);
	assert_int_equal(sim_host_allocs(), 0);
	assert_int_equal(sim_errors(), 0);
	free(block);
}

static void memory_is_finite(void **state)
{
	(void)state;
	size_t available, total;
	CUdeviceptr p, q;
	ok(cuMemGetInfo_v2(&available, &total));
	ok(cuMemAlloc_v2(&p, available - 4096));
	fails(cuMemAlloc_v2(&q, 8192), CUDA_ERROR_OUT_OF_MEMORY);
	ok(cuMemFree_v2(p));
	ok(cuMemAlloc_v2(&q, 8192));
	ok(cuMemFree_v2(q));
}

static void use_after_free_is_seen(void **state)
{
	(void)state;
	char byte;
	CUcontext ctx;
	CUdeviceptr p;
	ok(cuCtxCreate_v2(&ctx, 0, 0));
	p = st_device(4096);
	ok(cuMemFree_v2(p));
	fails(cuMemcpyDtoH_v2(&byte, p, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(sim_errors(), 1);
	fails(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(sim_errors(), 2);
	/* Freed between the call and the DMA: cuMemUnmap does not wait. */
	CUmemAllocationProp prop;
	CUmemAccessDesc access;
	CUmemGenericAllocationHandle handle;
	memset(&prop, 0, sizeof prop);
	memset(&access, 0, sizeof access);
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.location = prop.location;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	ok(cuMemAddressReserve(&p, 2 << 20, 0, 0, 0));
	ok(cuMemCreate(&handle, 2 << 20, &prop, 0));
	ok(cuMemMap(p, 2 << 20, 0, handle, 0));
	ok(cuMemRelease(handle));
	ok(cuMemSetAccess(p, 2 << 20, &access, 1));
	struct st_gate gate;
	gate.flag = st_pinned(64);
	ok(cuStreamWaitValue32_v2(NULL, (CUdeviceptr)gate.flag, 1, CU_STREAM_WAIT_VALUE_EQ));
	ok(cuMemsetD8_v2(p, 1, 64));
	ok(cuMemUnmap(p, 2 << 20));
	st_gate_open(&gate);
	fails(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(sim_errors(), 4); /* the unmapping, and the access */
	ok(cuMemAddressFree(p, 2 << 20));
	ok(cuCtxDestroy_v2(ctx));
}

static void stale_handles_are_seen(void **state)
{
	(void)state;
	CUevent e = st_event();
	CUstream s = st_stream(0);
	ok(cuEventDestroy_v2(e));
	ok(cuStreamDestroy_v2(s));
	fails(cuEventQuery(e), CUDA_ERROR_INVALID_HANDLE);
	fails(cuStreamQuery(s), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(sim_errors(), 2);
}

static void forked_children_have_no_driver(void **state)
{
	(void)state;
	pid_t child = fork();
	assert_true(child >= 0);
	if (!child) {
		int n;
		CUdeviceptr p;
		_exit(cuDeviceGetCount(&n) == CUDA_ERROR_NOT_INITIALIZED &&
					  cuMemAlloc_v2(&p, 64) == CUDA_ERROR_NOT_INITIALIZED
				  ? 0
				  : 1);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_int_equal(sim_calls_in_child(), 2);
	assert_int_equal(sim_calls("cuMemAlloc_v2"), 0);
}

int main(void)
{
	simtest_only_sim();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(failures_are_injected, setup),
		cmocka_unit_test_setup(fatal_failures_stick, setup),
		cmocka_unit_test_setup(calls_are_counted, setup),
		cmocka_unit_test_setup(live_things_are_counted, setup),
		cmocka_unit_test_setup(memory_is_finite, setup),
		cmocka_unit_test_setup(use_after_free_is_seen, setup),
		cmocka_unit_test_setup(stale_handles_are_seen, setup),
		cmocka_unit_test_setup(forked_children_have_no_driver, setup),
	};
	return cmocka_run_group_tests(tests, simtest_setup, simtest_teardown);
}

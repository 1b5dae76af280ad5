/*
 * test_sim_memory.c - device, managed, pinned, registered and mapped memory, and what the
 * driver says about addresses.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/simtest.h"

#define MIB (1u << 20)

static unsigned type_of(const void *p)
{
	unsigned type = 0;
	CUresult r = cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)p);
	return r == CUDA_SUCCESS ? type : 0;
}

static void device_memory(void **state)
{
	(void)state;
	CUdeviceptr p = st_device(1000), base;
	size_t size;
	ok(cuMemGetAddressRange_v2(&base, &size, p + 100));
	assert_int_equal(base, p);
	assert_int_equal(size, 1000);
	assert_int_equal(type_of((void *)p), CU_MEMORYTYPE_DEVICE);
	fails(cuMemFree_v2(p + 8), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemFree_v2(p));
	ok(cuMemFree_v2(0));
	fails(cuMemAlloc_v2(&p, 0), CUDA_ERROR_INVALID_VALUE);
	fails(cuMemAlloc_v2(&p, (size_t)1 << 45), CUDA_ERROR_OUT_OF_MEMORY);
}

static void free_memory_is_counted(void **state)
{
	(void)state;
	size_t before, during, after, total;
	ok(cuMemGetInfo_v2(&before, &total));
	CUdeviceptr p = st_device(256 * MIB);
	ok(cuMemGetInfo_v2(&during, &total));
	ok(cuMemFree_v2(p));
	ok(cuMemGetInfo_v2(&after, &total));
	assert_true(before - during >= 256 * MIB);
	assert_true(after - during >= 256 * MIB);
}

static void the_host_cannot_touch_device_memory(void **state)
{
	(void)state;
	CUdeviceptr p = st_device(4096);
	pid_t child = fork();
	assert_true(child >= 0);
	if (!child) {
		signal(SIGSEGV, SIG_DFL);
		*(volatile char *)p = 1;
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	ok(cuMemFree_v2(p));
}

static void registration(void **state)
{
	(void)state;
	char *block = aligned_alloc(4096, 65536);
	assert_non_null(block);
	memset(block, 0, 65536);
	assert_int_equal(type_of(block), 0);
	ok(cuMemHostRegister_v2(block, 8192, 0));
	assert_int_equal(type_of(block + 8191), CU_MEMORYTYPE_HOST);
	assert_int_equal(type_of(block + 8192), 0);
	fails(cuMemHostRegister_v2(block, 8192, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	fails(cuMemHostRegister_v2(block + 4096, 8192, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	ok(cuMemHostRegister_v2(block + 8192, 100, 0));
	fails(cuMemHostUnregister(block + 4096), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemHostUnregister(block + 8192));
	ok(cuMemHostUnregister(block));
	fails(cuMemHostUnregister(block), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	assert_int_equal(type_of(block), 0);
	free(block);
}

static void pinned_memory(void **state)
{
	(void)state;
	char *p = st_pinned(8192);
	CUdeviceptr d;
	unsigned flags;
	ok(cuMemHostGetDevicePointer_v2(&d, p + 8, 0));
	assert_int_equal(d, (CUdeviceptr)p + 8);
	ok(cuMemHostGetFlags(&flags, p));
	assert_int_equal(type_of(p), CU_MEMORYTYPE_HOST);
	fails(cuMemFreeHost(p + 64), CUDA_ERROR_INVALID_VALUE);
	fails(cuMemFree_v2((CUdeviceptr)p), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemFreeHost(p));
	ok(cuMemFreeHost(NULL));
}

static void managed_memory(void **state)
{
	(void)state;
	CUdeviceptr p;
	bool managed = false;
	ok(cuMemAllocManaged(&p, 4096, CU_MEM_ATTACH_GLOBAL));
	memset((void *)p, 1, 4096);
	st_add(p, 1024, 1, NULL);
	ok(cuCtxSynchronize());
	assert_int_equal(*(uint32_t *)p, 0x01010102);
	int is = 0;
	ok(cuPointerGetAttribute(&is, CU_POINTER_ATTRIBUTE_IS_MANAGED, p));
	managed = is & 0xff;
	assert_true(managed);
	ok(cuMemFree_v2(p));
}

static void attributes_of_an_unknown_address(void **state)
{
	(void)state;
	char local[64];
	unsigned type = 77;
	int ordinal = 77;
	CUcontext ctx = st_ctx;
	CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
								   CU_POINTER_ATTRIBUTE_CONTEXT};
	void *out[] = {&type, &ordinal, &ctx};
	fails(cuPointerGetAttribute(&type, which[0], (CUdeviceptr)local), CUDA_ERROR_INVALID_VALUE);
	ok(cuPointerGetAttributes(3, which, out, (CUdeviceptr)local));
	assert_int_equal(type, 0);
	assert_int_equal(ordinal, CU_DEVICE_INVALID);
	assert_null(ctx);
}

/* cuMemFree, cuMemFreeHost and cuMemHostUnregister wait for the device; cuMemAlloc does not. */
static CUresult free_call(void *p)
{
	return cuMemFree_v2((CUdeviceptr)p);
}
static CUresult free_host_call(void *p)
{
	return cuMemFreeHost(p);
}
static CUresult unregister_call(void *p)
{
	return cuMemHostUnregister(p);
}
static CUresult alloc_call(void *p)
{
	return cuMemAlloc_v2(p, 4096);
}

static bool waits(CUresult (*call)(void *), void *arg)
{
	struct st_gate gate;
	CUresult result;
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING);
	st_gate_close(&gate, s);
	bool waited = st_waits(&gate, call, arg, &result);
	ok(result);
	ok(cuStreamSynchronize(s));
	ok(cuStreamDestroy_v2(s));
	st_gate_free(&gate);
	return waited;
}

static void frees_wait_for_the_device(void **state)
{
	(void)state;
	char *block = aligned_alloc(4096, 4096);
	assert_non_null(block);
	CUdeviceptr p = st_device(4096), q;
	void *pinned = st_pinned(4096);
	ok(cuMemHostRegister_v2(block, 4096, 0));
	assert_false(waits(alloc_call, &q));
	assert_true(waits(free_call, (void *)p));
	assert_true(waits(free_host_call, pinned));
	assert_true(waits(unregister_call, block));
	ok(cuMemFree_v2(q));
	free(block);
}

static void stream_ordered_allocation(void **state)
{
	(void)state;
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr p, host = (CUdeviceptr)st_pinned(64);
	struct st_gate gate;
	ok(cuMemAllocAsync(&p, 4096, s));
	st_gate_close(&gate, s);
	st_fill(p, 1024, 11, s);
	ok(cuMemcpyAsync(host, p, 64, s));
	ok(cuMemFreeAsync(p, s)); /* takes effect in the stream's order */
	st_gate_open(&gate);
	ok(cuStreamSynchronize(s));
	assert_int_equal(*(uint32_t *)host, 11);
	ok(cuMemFreeHost((void *)host));
	ok(cuStreamDestroy_v2(s));
	st_gate_free(&gate);
}

static void virtual_memory(void **state)
{
	(void)state;
	CUmemAllocationProp prop;
	CUmemAccessDesc access;
	CUmemGenericAllocationHandle handle;
	CUdeviceptr va, base;
	size_t unit, size;
	memset(&prop, 0, sizeof prop);
	memset(&access, 0, sizeof access);
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.location = prop.location;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	ok(cuMemGetAllocationGranularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	ok(cuMemAddressReserve(&va, 4 * unit, 0, 0, 0));
	fails(cuMemCreate(&handle, unit + 1, &prop, 0), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemCreate(&handle, unit, &prop, 0));
	ok(cuMemMap(va, unit, 0, handle, 0));
	fails(cuMemsetD8_v2(va, 0, 64), CUDA_ERROR_INVALID_VALUE); /* no access yet */
	ok(cuMemMap(va + unit, unit, 0, handle, 0));               /* one handle at two addresses */
	ok(cuMemRelease(handle));
	ok(cuMemSetAccess(va, 2 * unit, &access, 1));
	ok(cuMemsetD8_v2(va, 5, unit));
	ok(cuCtxSynchronize()); /* a memset of device memory does not wait */
	assert_int_equal(st_byte(va + unit + 7), 5);
	ok(cuMemsetD8_v2(va + unit - 64, 6, 128)); /* across the seam */
	ok(cuCtxSynchronize());
	assert_int_equal(st_byte(va), 6);
	ok(cuMemGetAddressRange_v2(&base, &size, va + unit + 9));
	assert_int_equal(base, va + unit);
	assert_int_equal(size, unit);
	ok(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, va + 9));
	assert_int_equal(size, 4 * unit);
	fails(cuMemAddressFree(va, 4 * unit), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemUnmap(va, 2 * unit));
	ok(cuMemAddressFree(va, 4 * unit));
}

static void contexts(void **state)
{
	(void)state;
	CUcontext ctx, now;
	unsigned long long id;
	ok(cuCtxCreate_v2(&ctx, 0, 0));
	ok(cuCtxGetCurrent(&now));
	assert_ptr_equal(now, ctx);
	CUdeviceptr p = st_device(64);
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING);
	CUevent e = st_event();
	ok(cuEventRecord(e, s));
	ok(cuMemsetD8Async(p, 1, 64, s));
	/* Functions and events belong to their context. */
	uint64_t us = 1;
	void *args[] = {&us};
	fails(cuLaunchKernel(st_spin_us, 1, 1, 1, 1, 1, 1, 0, s, args, NULL), CUDA_ERROR_INVALID_HANDLE);
	ok(cuCtxDestroy_v2(ctx));
	ok(cuCtxGetCurrent(&now));
	assert_ptr_equal(now, st_ctx);
	fails(cuCtxGetId(ctx, &id), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	fails(cuCtxDestroy_v2(st_ctx), CUDA_ERROR_INVALID_CONTEXT); /* a primary one */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(device_memory),
		cmocka_unit_test(free_memory_is_counted),
		cmocka_unit_test(the_host_cannot_touch_device_memory),
		cmocka_unit_test(registration),
		cmocka_unit_test(pinned_memory),
		cmocka_unit_test(managed_memory),
		cmocka_unit_test(attributes_of_an_unknown_address),
		cmocka_unit_test(frees_wait_for_the_device),
		cmocka_unit_test(stream_ordered_allocation),
		cmocka_unit_test(virtual_memory),
		cmocka_unit_test(contexts),
	};
	return cmocka_run_group_tests(tests, simtest_setup, simtest_teardown);
}

/*
 * test_sim_vmm.c - virtual memory management: what mappings alias, what is refused, which
 * device has access, how long memory lives.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#include "common/simtest.h"

#define UNIT ((size_t)2 << 20)

static uint64_t (*errors)(void); /* NULL: a real driver */
static uint64_t (*live_bytes)(int);
static CUmemAllocationProp prop;
static CUmemAccessDesc access_of_device_0;

static CUmemGenericAllocationHandle create(size_t size)
{
	CUmemGenericAllocationHandle h;
	ok(cuMemCreate(&h, size, &prop, 0));
	return h;
}

static CUdeviceptr reserve(size_t size)
{
	CUdeviceptr va;
	ok(cuMemAddressReserve(&va, size, 0, 0, 0));
	return va;
}

static void allow(CUdeviceptr va, size_t size)
{
	ok(cuMemSetAccess(va, size, &access_of_device_0, 1));
}

static void set_word(CUdeviceptr at, uint32_t value)
{
	st_fill(at, 1, value, NULL);
	ok(cuCtxSynchronize());
}

static uint32_t word(CUdeviceptr at)
{
	uint32_t value = 0;
	ok(cuMemcpyDtoH_v2(&value, at, 4));
	return value;
}

/* Which error it is does not matter. */
static void refused(CUresult result)
{
	assert_int_not_equal(result, CUDA_SUCCESS);
}

static void granularity(void **state)
{
	(void)state;
	size_t unit = 0;
	CUmemGenericAllocationHandle h;
	CUdeviceptr va;
	ok(cuMemGetAllocationGranularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	assert_int_equal(unit, UNIT);
	fails(cuMemCreate(&h, UNIT / 2, &prop, 0), CUDA_ERROR_INVALID_VALUE);
	fails(cuMemCreate(&h, 0, &prop, 0), CUDA_ERROR_INVALID_VALUE);
	h = create(2 * UNIT);
	va = reserve(4 * UNIT);
	assert_int_equal(va % UNIT, 0);
	fails(cuMemMap(va + 4096, UNIT, 0, h, 0), CUDA_ERROR_NOT_SUPPORTED);
	ok(cuMemRelease(h));
	ok(cuMemAddressFree(va, 4 * UNIT));
}

static void what_cannot_be_mapped(void **state)
{
	(void)state;
	CUmemGenericAllocationHandle h = create(2 * UNIT);
	CUdeviceptr va = reserve(4 * UNIT);
	refused(cuMemMap(va, UNIT, UNIT, h, 0)); /* the offset must be 0 */
	refused(cuMemMap(va, 4 * UNIT, 0, h, 0));
	ok(cuMemMap(va, 2 * UNIT, 0, h, 0));
	refused(cuMemMap(va + UNIT, 2 * UNIT, 0, h, 0)); /* is mapped */
	ok(cuMemUnmap(va, 2 * UNIT));
	ok(cuMemRelease(h));
	ok(cuMemAddressFree(va, 4 * UNIT));
}

static void what_cannot_be_unmapped(void **state)
{
	(void)state;
	CUmemGenericAllocationHandle h = create(2 * UNIT);
	CUdeviceptr va = reserve(4 * UNIT);
	ok(cuMemMap(va, 2 * UNIT, 0, h, 0));
	fails(cuMemUnmap(va, UNIT), CUDA_ERROR_INVALID_VALUE); /* whole mappings only */
	fails(cuMemUnmap(va + UNIT, UNIT), CUDA_ERROR_INVALID_VALUE);
	fails(cuMemAddressFree(va, 4 * UNIT), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemUnmap(va, 2 * UNIT));
	ok(cuMemRelease(h));
	ok(cuMemAddressFree(va, 4 * UNIT));
}

static void one_handle_at_two_addresses(void **state)
{
	(void)state;
	CUmemGenericAllocationHandle a = create(UNIT), b = create(UNIT);
	CUdeviceptr first = reserve(2 * UNIT), second = reserve(3 * UNIT);
	ok(cuMemMap(first, UNIT, 0, a, 0));
	ok(cuMemMap(first + UNIT, UNIT, 0, b, 0));
	ok(cuMemMap(second, UNIT, 0, b, 0)); /* the other order, and one of them twice */
	ok(cuMemMap(second + UNIT, UNIT, 0, a, 0));
	ok(cuMemMap(second + 2 * UNIT, UNIT, 0, b, 0));
	allow(first, 2 * UNIT);
	allow(second, 3 * UNIT);
	set_word(first, 1);
	set_word(first + UNIT, 2);
	assert_int_equal(word(second), 2);
	assert_int_equal(word(second + UNIT), 1);
	assert_int_equal(word(second + 2 * UNIT), 2);
	set_word(second + 2 * UNIT, 3);
	assert_int_equal(word(first + UNIT), 3);
	/* Across the seam. */
	st_fill(first + UNIT - 64, 32, 7, NULL);
	ok(cuCtxSynchronize());
	assert_int_equal(word(second + 2 * UNIT - 4), 7);
	assert_int_equal(word(second + 60), 7);
	ok(cuMemRelease(a));
	ok(cuMemRelease(b)); /* the mappings hold the memory */
	assert_int_equal(word(first + UNIT + 60), 7);
	ok(cuMemUnmap(first, 2 * UNIT));
	assert_int_equal(word(second + 60), 7);
	ok(cuMemUnmap(second, 3 * UNIT));
	ok(cuMemAddressFree(first, 2 * UNIT));
	ok(cuMemAddressFree(second, 3 * UNIT));
}

static void memory_lives_as_long_as_handle_or_mapping(void **state)
{
	(void)state;
	if (!live_bytes) {
		puts("counts the simulator's bytes");
		skip();
	}
	uint64_t before = live_bytes(0);
	CUmemGenericAllocationHandle h = create(UNIT), again;
	CUdeviceptr va = reserve(UNIT);
	ok(cuMemMap(va, UNIT, 0, h, 0));
	assert_int_equal(live_bytes(0), before + UNIT);
	ok(cuMemRelease(h));
	assert_int_equal(live_bytes(0), before + UNIT);
	ok(cuMemRetainAllocationHandle(&again, (void *)(va + 9)));
	ok(cuMemUnmap(va, UNIT));
	assert_int_equal(live_bytes(0), before + UNIT);
	ok(cuMemMap(va, UNIT, 0, again, 0));
	ok(cuMemRelease(again));
	ok(cuMemUnmap(va, UNIT));
	assert_int_equal(live_bytes(0), before);
	uint64_t mistakes = errors();
	fails(cuMemRelease(h), CUDA_ERROR_INVALID_VALUE); /* undefined on a real driver */
	assert_int_equal(errors(), mistakes + 1);
	fails(cuMemMap(va, UNIT, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemAddressFree(va, UNIT));
}

static void what_the_driver_says_about_it(void **state)
{
	(void)state;
	CUmemGenericAllocationHandle h = create(UNIT);
	CUdeviceptr va = reserve(4 * UNIT), base;
	size_t size;
	CUcontext ctx = st_ctx;
	CUmemoryPool pool = (CUmemoryPool)1;
	unsigned long long id[2];
	ok(cuMemMap(va, UNIT, 0, h, 0));
	ok(cuMemMap(va + UNIT, UNIT, 0, h, 0));
	allow(va, 2 * UNIT);
	ok(cuMemGetAddressRange_v2(&base, &size, va + UNIT + 9));
	assert_int_equal(base, va + UNIT);
	assert_int_equal(size, UNIT);
	ok(cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, va + UNIT + 9));
	assert_int_equal(base, va);
	ok(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, va + UNIT + 9));
	assert_int_equal(size, 4 * UNIT);
	ok(cuPointerGetAttribute(&ctx, CU_POINTER_ATTRIBUTE_CONTEXT, va));
	assert_null(ctx);
	ok(cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, va));
	assert_null(pool);
	ok(cuPointerGetAttribute(&id[0], CU_POINTER_ATTRIBUTE_BUFFER_ID, va));
	ok(cuMemUnmap(va, UNIT));
	ok(cuMemMap(va, UNIT, 0, h, 0));
	allow(va, UNIT);
	ok(cuPointerGetAttribute(&id[1], CU_POINTER_ATTRIBUTE_BUFFER_ID, va));
	fails(cuMemFree_v2(va), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemUnmap(va, 2 * UNIT));
	ok(cuMemRelease(h));
	ok(cuMemAddressFree(va, 4 * UNIT));
}

static void access_is_by_device(void **state)
{
	(void)state;
	int devices;
	ok(cuDeviceGetCount(&devices));
	if (devices < 2) {
		puts("needs two devices");
		skip();
	}
	CUmemGenericAllocationHandle h = create(UNIT);
	CUdeviceptr va = reserve(UNIT);
	CUmemLocation here = prop.location, there = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
	CUmemAccessDesc both[] = {{here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
							  {there, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
	unsigned long long flags;
	ok(cuMemMap(va, UNIT, 0, h, 0));
	ok(cuMemGetAccess(&flags, &here, va));
	assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	allow(va, UNIT);
	ok(cuMemGetAccess(&flags, &here, va));
	assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	ok(cuMemGetAccess(&flags, &there, va));
	assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	ok(cuMemSetAccess(va, UNIT, both, 2));
	ok(cuMemGetAccess(&flags, &there, va));
	assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	both[0].location.id = 99;
	fails(cuMemSetAccess(va, UNIT, both, 2), CUDA_ERROR_INVALID_DEVICE);
	ok(cuMemUnmap(va, UNIT));
	ok(cuMemMap(va, UNIT, 0, h, 0)); /* mapped anew: nobody has access */
	ok(cuMemGetAccess(&flags, &here, va));
	assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	ok(cuMemUnmap(va, UNIT));
	ok(cuMemRelease(h));
	ok(cuMemAddressFree(va, UNIT));
}

/* ---- mistakes; a fatal error stays with its context, so each has one of its own ---- */

struct mistake {
	CUcontext ctx;
	CUmodule module;
	CUfunction fill;
	uint64_t before;
	CUdeviceptr va;
	CUmemGenericAllocationHandle handle;
};

static void mistake_begin(struct mistake *m)
{
	if (!errors) {
		puts("would end the process's use of a real device");
		skip();
	}
	ok(cuCtxCreate_v2(&m->ctx, 0, 0));
	ok(cuModuleLoadData(&m->module, "simulated"));
	ok(cuModuleGetFunction(&m->fill, m->module, "fill32"));
	m->before = errors();
	m->va = reserve(UNIT);
	m->handle = create(UNIT);
	ok(cuMemMap(m->va, UNIT, 0, m->handle, 0));
}

static void mistake_fill(struct mistake *m, CUstream s)
{
	uint64_t n = 16;
	uint32_t value = 1;
	void *args[] = {&m->va, &n, &value};
	ok(cuLaunchKernel(m->fill, 1, 1, 1, 1, 1, 1, 0, s, args, NULL));
}

static void mistake_end(struct mistake *m)
{
	fails(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_true(errors() > m->before);
	if (m->handle)
		ok(cuMemRelease(m->handle));
	cuMemUnmap(m->va, UNIT);
	ok(cuMemAddressFree(m->va, UNIT));
	ok(cuCtxDestroy_v2(m->ctx));
	ok(cuCtxSetCurrent(st_ctx));
}

static void a_kernel_needs_access(void **state)
{
	(void)state;
	struct mistake m;
	mistake_begin(&m);
	mistake_fill(&m, NULL);
	mistake_end(&m);
}

static void access_of_another_device_is_not_enough(void **state)
{
	(void)state;
	struct mistake m;
	mistake_begin(&m);
	CUmemAccessDesc there = {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	ok(cuMemSetAccess(m.va, UNIT, &there, 1));
	mistake_fill(&m, NULL);
	mistake_end(&m);
}

static void unmapping_under_queued_work_is_seen(void **state)
{
	(void)state;
	struct mistake m;
	struct st_gate gate;
	mistake_begin(&m);
	ok(cuMemSetAccess(m.va, UNIT, &access_of_device_0, 1));
	gate.flag = st_pinned(64);
	ok(cuStreamWaitValue32_v2(NULL, (CUdeviceptr)gate.flag, 1, CU_STREAM_WAIT_VALUE_EQ));
	mistake_fill(&m, NULL);
	ok(cuMemUnmap(m.va, UNIT)); /* does not wait */
	ok(cuMemRelease(m.handle));
	m.handle = 0;
	assert_int_equal(errors(), m.before + 1);
	st_gate_open(&gate);
	mistake_end(&m);
}

int main(void)
{
	*(void **)&errors = dlsym(RTLD_DEFAULT, "sim_errors");
	*(void **)&live_bytes = dlsym(RTLD_DEFAULT, "sim_live_bytes");
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access_of_device_0 = (CUmemAccessDesc){prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(granularity),
		cmocka_unit_test(what_cannot_be_mapped),
		cmocka_unit_test(what_cannot_be_unmapped),
		cmocka_unit_test(one_handle_at_two_addresses),
		cmocka_unit_test(memory_lives_as_long_as_handle_or_mapping),
		cmocka_unit_test(what_the_driver_says_about_it),
		cmocka_unit_test(access_is_by_device),
		cmocka_unit_test(a_kernel_needs_access),
		cmocka_unit_test(access_of_another_device_is_not_enough),
		cmocka_unit_test(unmapping_under_queued_work_is_seen),
	};
	return cmocka_run_group_tests(tests, simtest_setup, simtest_teardown);
}

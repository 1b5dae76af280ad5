/*
 * test_sim_pointer.c - what the driver says about device memory, and exports of it.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "common/simtest.h"

#define MIB ((size_t)1 << 20)

static unsigned long long id_of(CUdeviceptr p)
{
	unsigned long long id = 0;
	ok(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p));
	return id;
}

static unsigned flag_of(CUdeviceptr p, CUpointer_attribute which)
{
	unsigned value = 0; /* bool or int: the low byte tells */
	ok(cuPointerGetAttribute(&value, which, p));
	return value & 0xff;
}

static void ids_are_never_used_again(void **state)
{
	(void)state;
	enum { ROUNDS = 64 };
	unsigned long long seen[ROUNDS];
	for (int i = 0; i < ROUNDS; i++) {
		CUdeviceptr p = st_device(MIB);
		seen[i] = id_of(p);
		assert_int_equal(id_of(p + MIB - 1), seen[i]);
		for (int j = 0; j < i; j++)
			assert_int_not_equal(seen[i], seen[j]);
		ok(cuMemFree_v2(p));
	}
}

static void kinds_of_memory(void **state)
{
	(void)state;
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr plain = st_device(MIB), ordered;
	CUmemoryPool pool = (CUmemoryPool)1, standard;
	ok(cuMemAllocAsync(&ordered, MIB, s));
	assert_int_equal(flag_of(plain, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE), 1);
	assert_int_equal(flag_of(ordered, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE), 0);
	assert_int_equal(flag_of(plain, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE), 1);
	assert_int_equal(flag_of(plain, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS),
					 CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
	ok(cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, plain));
	assert_null(pool);
	ok(cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, ordered));
	ok(cuDeviceGetDefaultMemPool(&standard, 0));
	assert_ptr_equal(pool, standard);
	ok(cuMemFreeAsync(ordered, s));
	ok(cuStreamSynchronize(s));
	ok(cuMemFree_v2(plain));
	ok(cuStreamDestroy_v2(s));
}

static CUresult copy_call(void *p)
{
	return cuMemcpyDtoD_v2((CUdeviceptr)p, (CUdeviceptr)p + MIB, 4096);
}

static void sync_memops(void **state)
{
	(void)state;
	CUdeviceptr p = st_device(2 * MIB);
	unsigned on = 1, off = 0;
	assert_int_equal(flag_of(p, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS), 0);
	for (int set = 0; set < 2; set++) {
		struct st_gate gate;
		CUresult result;
		st_gate_close(&gate, NULL);
		assert_int_equal(st_waits(&gate, copy_call, (void *)p, &result), set);
		ok(result);
		ok(cuCtxSynchronize());
		st_gate_free(&gate);
		ok(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
		assert_int_equal(flag_of(p + 9, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS), 1);
	}
	ok(cuPointerSetAttribute(&off, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
	assert_int_equal(flag_of(p, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS), 0);
	fails(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemFree_v2(p));
	p = st_device(2 * MIB); /* it went with the allocation */
	assert_int_equal(flag_of(p, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS), 0);
	ok(cuMemFree_v2(p));
}

static void tokens_set_sync_memops(void **state)
{
	(void)state;
	CUdeviceptr p = st_device(MIB);
	CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens;
	CUresult r = cuPointerGetAttribute(&tokens, CU_POINTER_ATTRIBUTE_P2P_TOKENS, p);
	if (r == CUDA_SUCCESS) /* not every system has them */
		assert_int_equal(flag_of(p, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS), 1);
	ok(cuMemFree_v2(p));
}

static void a_range_as_a_descriptor(void **state)
{
	(void)state;
	int supported = 0, fd = -1;
	struct stat st;
	CUdeviceptr p = st_device(2 * MIB);
	ok(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0));
	if (supported) {
		ok(cuMemGetHandleForAddressRange(&fd, p, 2 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
		assert_int_equal(fstat(fd, &st), 0);
		close(fd);
		fails(cuMemGetHandleForAddressRange(&fd, p + 1, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
			  CUDA_ERROR_INVALID_VALUE);
		fails(cuMemGetHandleForAddressRange(&fd, p, 4 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
			  CUDA_ERROR_INVALID_VALUE);
	}
	ok(cuMemFree_v2(p));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ids_are_never_used_again),
		cmocka_unit_test(kinds_of_memory),
		cmocka_unit_test(sync_memops),
		cmocka_unit_test(tokens_set_sync_memops),
		cmocka_unit_test(a_range_as_a_descriptor),
	};
	return cmocka_run_group_tests(tests, simtest_setup, simtest_teardown);
}

/*
 * test_sim_copies.c - when copies read their source and when they return.
 */
#include "common/simtest.h"

#define MIB (1u << 20)
#define EARLY (2 * MIB)

static CUdeviceptr dev;
static unsigned char *page, *pinned;
static CUstream stream;

static int setup(void **state)
{
	if (simtest_setup(state))
		return -1;
	dev = st_device(16 * MIB);
	page = malloc(16 * MIB);
	pinned = st_pinned(16 * MIB);
	stream = st_stream(CU_STREAM_NON_BLOCKING);
	return page ? 0 : -1;
}

static int teardown(void **state)
{
	free(page);
	return cuStreamDestroy_v2(stream) || cuMemFreeHost(pinned) || cuMemFree_v2(dev) ? -1
																					: simtest_teardown(state);
}

struct copy {
	unsigned char *host;
	size_t n;
};

static CUresult h2d_async(void *arg)
{
	const struct copy *c = arg;
	return cuMemcpyHtoDAsync_v2(dev, c->host, c->n, stream);
}

static CUresult d2h_async(void *arg)
{
	const struct copy *c = arg;
	return cuMemcpyDtoHAsync_v2(c->host, dev, c->n, stream);
}

static bool waits(CUresult (*call)(void *), unsigned char *host, size_t n)
{
	struct st_gate gate;
	struct copy c = {host, n};
	CUresult result;
	st_gate_close(&gate, stream);
	bool waited = st_waits(&gate, call, &c, &result);
	ok(result);
	ok(cuStreamSynchronize(stream));
	st_gate_free(&gate);
	return waited;
}

static void pageable_h2d_waits_from_2_mib(void **state)
{
	(void)state;
	assert_false(waits(h2d_async, page, 64));
	assert_false(waits(h2d_async, page, EARLY));
	assert_true(waits(h2d_async, page, EARLY + 1));
	assert_true(waits(h2d_async, page, 8 * MIB));
}

static void pageable_d2h_always_waits(void **state)
{
	(void)state;
	assert_true(waits(d2h_async, page, 64));
	assert_true(waits(d2h_async, page, 4 * MIB));
}

static void pinned_copies_never_wait(void **state)
{
	(void)state;
	assert_false(waits(h2d_async, pinned, 8 * MIB));
	assert_false(waits(d2h_async, pinned, 8 * MIB));
}

static void pageable_source_is_read_at_the_call(void **state)
{
	(void)state;
	struct st_gate gate;
	memset(page, 1, EARLY);
	st_gate_close(&gate, stream);
	ok(cuMemcpyHtoDAsync_v2(dev, page, EARLY, stream));
	memset(page, 2, EARLY);
	st_gate_open(&gate);
	ok(cuStreamSynchronize(stream));
	assert_int_equal(st_byte(dev), 1);
	assert_int_equal(st_byte(dev + EARLY - 1), 1);
	st_gate_free(&gate);
}

static void pinned_source_is_read_when_the_stream_gets_there(void **state)
{
	(void)state;
	struct st_gate gate;
	memset(pinned, 1, 4096);
	st_gate_close(&gate, stream);
	ok(cuMemcpyHtoDAsync_v2(dev, pinned, 4096, stream));
	memset(pinned, 2, 4096);
	st_gate_open(&gate);
	ok(cuStreamSynchronize(stream));
	assert_int_equal(st_byte(dev), 2);
	st_gate_free(&gate);
}

static void CUDA_CB overwrite(void *arg)
{
	memset(arg, 7, 8 * MIB);
}

/* Of a larger copy the first 2 MiB are read at once, the rest after the earlier work. */
static void large_pageable_source_is_read_in_two_parts(void **state)
{
	(void)state;
	struct st_gate gate;
	struct copy c = {page, 8 * MIB};
	CUresult result;
	memset(page, 3, 8 * MIB);
	st_gate_close(&gate, stream);
	ok(cuLaunchHostFunc(stream, overwrite, page));
	assert_true(st_waits(&gate, h2d_async, &c, &result));
	ok(result);
	ok(cuStreamSynchronize(stream));
	assert_int_equal(st_byte(dev), 3);
	assert_int_equal(st_byte(dev + EARLY - 1), 3);
	assert_int_equal(st_byte(dev + EARLY), 7);
	assert_int_equal(st_byte(dev + 8 * MIB - 1), 7);
	st_gate_free(&gate);
}

static void all_kinds_move_the_same_bytes(void **state)
{
	(void)state;
	const size_t sizes[] = {1, 63, 4096, 4097, EARLY - 1, EARLY + 4097, 5 * MIB};
	unsigned char *back = malloc(6 * MIB);
	assert_non_null(back);
	CUdeviceptr other = st_device(6 * MIB);
	for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
		size_t n = sizes[k];
		for (size_t i = 0; i < n; i++)
			page[i] = (unsigned char)(i * 31 + i / 251 + k);
		memset(back, 0, n);
		ok(cuMemcpyHtoD_v2(dev, page, n));
		ok(cuMemcpyDtoD_v2(other, dev, n));
		ok(cuMemcpyDtoH_v2(back, other, n));
		assert_memory_equal(back, page, n);
		memset(back, 0, n);
		ok(cuMemsetD8_v2(dev, 0, n));
		ok(cuCtxSynchronize()); /* the other stream does not order with this */
		ok(cuMemcpyAsync(dev, (CUdeviceptr)page, n, stream));
		ok(cuMemcpyDtoDAsync_v2(other, dev, n, stream));
		ok(cuMemcpyAsync((CUdeviceptr)back, other, n, stream));
		assert_memory_equal(back, page, n);
		memset(back, 0, n);
		ok(cuMemcpyHtoD_v2_ptds(dev, page, n));
		ok(cuMemcpyDtoDAsync_v2_ptsz(other, dev, n, NULL));
		ok(cuMemcpy_ptds((CUdeviceptr)back, other, n));
		assert_memory_equal(back, page, n);
	}
	ok(cuMemFree_v2(other));
	free(back);
}

static void boxes(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4096; i++)
		page[i] = (unsigned char)(i * 7);
	CUDA_MEMCPY2D in = {
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = page,
		.srcPitch = 64,
		.srcXInBytes = 3,
		.srcY = 2,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = dev,
		.dstPitch = 512,
		.WidthInBytes = 17,
		.Height = 9,
	};
	ok(cuMemcpy2D_v2(&in));
	unsigned char row[17];
	for (unsigned y = 0; y < 9; y++) {
		ok(cuMemcpyDtoH_v2(row, dev + y * 512, sizeof row));
		assert_memory_equal(row, page + (y + 2) * 64 + 3, sizeof row);
	}
	CUDA_MEMCPY3D out = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = dev,
		.srcPitch = 512,
		.srcHeight = 3,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = page + 8192,
		.dstPitch = 32,
		.dstHeight = 4,
		.WidthInBytes = 17,
		.Height = 3,
		.Depth = 3,
	};
	ok(cuMemcpy3DAsync_v2(&out, stream));
	ok(cuStreamSynchronize(stream));
	for (unsigned z = 0; z < 3; z++)
		for (unsigned y = 0; y < 3; y++)
			assert_memory_equal(page + 8192 + (z * 4 + y) * 32, page + (z * 3 + y + 2) * 64 + 3, 17);
}

static void fills(void **state)
{
	(void)state;
	uint32_t words[16];
	ok(cuMemsetD8_v2(dev, 1, 64));
	ok(cuMemsetD16_v2(dev + 16, 0x0203, 4));
	ok(cuMemsetD32Async(dev + 32, 0x04050607, 2, NULL));
	ok(cuMemcpyDtoH_v2(words, dev, sizeof words));
	assert_int_equal(words[0], 0x01010101);
	assert_int_equal(words[4], 0x02030203);
	assert_int_equal(words[6], 0x01010101);
	assert_int_equal(words[8], 0x04050607);
	assert_int_equal(words[10], 0x01010101);
	fails(cuMemsetD32_v2(dev + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
}

static void bad_arguments(void **state)
{
	(void)state;
	ok(cuMemcpyHtoD_v2(dev, page, 0));
	fails(cuMemcpyHtoD_v2(dev, NULL, 16), CUDA_ERROR_INVALID_VALUE);
	fails(cuMemcpyHtoD_v2((CUdeviceptr)page, page + 64, 16), CUDA_ERROR_INVALID_VALUE);
	fails(cuMemcpyDtoH_v2(page, (CUdeviceptr)page + 64, 16), CUDA_ERROR_INVALID_VALUE);
	fails(cuMemcpyHtoD_v2(dev + 16 * MIB - 64, page, 128), CUDA_ERROR_INVALID_VALUE);
	fails(cuMemcpyDtoH_v2(page, dev + 16 * MIB - 64, 128), CUDA_ERROR_INVALID_VALUE);
	fails(cuMemsetD8_v2(dev + 16 * MIB - 64, 0, 128), CUDA_ERROR_INVALID_VALUE);
	/* A range that is registered in part. */
	unsigned char *block = aligned_alloc(4096, 16384);
	assert_non_null(block);
	memset(block, 0, 16384);
	ok(cuMemHostRegister_v2(block, 8192, 0));
	ok(cuMemcpyHtoD_v2(dev, block + 4096, 4096));
	fails(cuMemcpyHtoD_v2(dev, block + 4096, 8192), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemHostUnregister(block));
	free(block);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pageable_h2d_waits_from_2_mib),
		cmocka_unit_test(pageable_d2h_always_waits),
		cmocka_unit_test(pinned_copies_never_wait),
		cmocka_unit_test(pageable_source_is_read_at_the_call),
		cmocka_unit_test(pinned_source_is_read_when_the_stream_gets_there),
		cmocka_unit_test(large_pageable_source_is_read_in_two_parts),
		cmocka_unit_test(all_kinds_move_the_same_bytes),
		cmocka_unit_test(boxes),
		cmocka_unit_test(fills),
		cmocka_unit_test(bad_arguments),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}

/*
 * test_sim_resolve.c - cuGetProcAddress: versions, flags, statuses.
 */
#include <dlfcn.h>

#include "common/simtest.h"

static void *found(const char *name, int version, uint64_t flags, CUdriverProcAddressQueryResult want)
{
	void *fn = (void *)name; /* must be overwritten */
	CUdriverProcAddressQueryResult status = 99;
	ok(cuGetProcAddress_v2(name, &fn, version, flags, &status));
	assert_int_equal(status, want);
	assert_true((fn != NULL) == (want == CU_GET_PROC_ADDRESS_SUCCESS));
	void *again = NULL;
	ok(cuGetProcAddress_v2(name, &again, version, flags, NULL));
	assert_ptr_equal(fn, again);
	return fn;
}

static void *symbol(const char *name)
{
	static void *driver;
	if (!driver)
		driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	assert_non_null(driver);
	return dlsym(driver, name);
}

#define FOUND(name, version, flags, sym) \
	assert_ptr_equal(found(name, version, flags, CU_GET_PROC_ADDRESS_SUCCESS), symbol(sym))

static void versions_choose_the_abi(void **state)
{
	(void)state;
	FOUND("cuMemAlloc", 2000, 0, "cuMemAlloc");
	FOUND("cuMemAlloc", 3020, 0, "cuMemAlloc_v2");
	FOUND("cuMemAlloc", 13000, 0, "cuMemAlloc_v2");
	FOUND("cuMemcpyHtoD", 3020, 0, "cuMemcpyHtoD_v2");
	FOUND("cuStreamBeginCapture", 10000, 0, "cuStreamBeginCapture");
	FOUND("cuStreamBeginCapture", 10010, 0, "cuStreamBeginCapture_v2");
	FOUND("cuMemcpyBatchAsync", 12080, 0, "cuMemcpyBatchAsync");
	FOUND("cuMemcpyBatchAsync", 13000, 0, "cuMemcpyBatchAsync_v2");
	FOUND("cuGetProcAddress", 11030, 0, "cuGetProcAddress");
	FOUND("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2");
}

static void flags_choose_the_default_stream(void **state)
{
	(void)state;
	FOUND("cuMemcpyHtoD", 7000, 1, "cuMemcpyHtoD_v2");
	FOUND("cuMemcpyHtoD", 7000, 2, "cuMemcpyHtoD_v2_ptds");
	FOUND("cuMemcpyHtoDAsync", 7000, 2, "cuMemcpyHtoDAsync_v2_ptsz");
	FOUND("cuMemcpyAsync", 7000, 2, "cuMemcpyAsync_ptsz");
	FOUND("cuStreamGetCaptureInfo", 12030, 2, "cuStreamGetCaptureInfo_v3_ptsz");
	FOUND("cuInit", 13000, 2, "cuInit"); /* has no twin */
	/* Twins came with CUDA 7. */
	found("cuMemcpyHtoD", 3020, 2, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	found("cuMemcpyAsync", 4000, 2, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
}

static void what_is_not_there(void **state)
{
	(void)state;
	void *fn;
	found("", 0, 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	found("nonsense", 13000, 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	found("cuMemAlloc_v2", 13000, 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	found("cuMemAlloc", 0, 0, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	found("cuMemAllocAsync", 3020, 0, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	fails(cuGetProcAddress_v2("cuMemAlloc", &fn, 14000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	fails(cuGetProcAddress_v2("cuMemAlloc", &fn, 13000, 4, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void the_old_abi_refuses_new_contexts(void **state)
{
	(void)state;
	CUdeviceptr_v1 p;
	fails(cuMemAlloc(&p, 64), CUDA_ERROR_INVALID_CONTEXT);
}

static void error_names(void **state)
{
	(void)state;
	const char *text = NULL;
	ok(cuGetErrorName(CUDA_ERROR_NOT_READY, &text));
	assert_string_equal(text, "CUDA_ERROR_NOT_READY");
	ok(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
	assert_string_equal(text, "out of memory");
	fails(cuGetErrorName((CUresult)98765, &text), CUDA_ERROR_INVALID_VALUE);
	assert_null(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(versions_choose_the_abi),
		cmocka_unit_test(flags_choose_the_default_stream),
		cmocka_unit_test(what_is_not_there),
		cmocka_unit_test(the_old_abi_refuses_new_contexts),
		cmocka_unit_test(error_names),
	};
	return cmocka_run_group_tests(tests, simtest_setup, simtest_teardown);
}

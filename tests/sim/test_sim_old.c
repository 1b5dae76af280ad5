/*
 * test_sim_old.c - the build of the simulator that lacks symbols, as an older driver.
 */
#include <dlfcn.h>
#include <stdio.h>

#include "common/simtest.h"

/* Loads sim-old/libcuda.so.1 from beside the directory of the driver that is linked. */
static void *old_driver(void)
{
	Dl_info info;
	char path[4096];
	assert_int_not_equal(dladdr(dlsym(RTLD_DEFAULT, "sim_calls"), &info), 0);
	snprintf(path, sizeof path, "%s", info.dli_fname);
	for (int i = 0; i < 2; i++) {
		char *slash = strrchr(path, '/');
		assert_non_null(slash);
		*slash = 0;
	}
	strncat(path, "/sim-old/libcuda.so.1", sizeof path - strlen(path) - 1);
	void *driver = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	assert_non_null(driver);
	return driver;
}

static void symbols_are_missing_everywhere(void **state)
{
	(void)state;
	void *driver = old_driver();
	assert_null(dlsym(driver, "cuMemcpyHtoD_v2"));
	assert_null(dlsym(driver, "cuGetProcAddress_v2"));
	assert_null(dlsym(driver, "cuCtxGetId"));
	assert_non_null(dlsym(driver, "cuMemcpyHtoD"));
	assert_non_null(dlsym(driver, "cuMemAlloc_v2"));
	CUresult (*resolve)(const char *, void **, int, cuuint64_t) = NULL;
	*(void **)&resolve = dlsym(driver, "cuGetProcAddress");
	assert_non_null(resolve);
	void *fn = NULL;
	ok(resolve("cuMemAlloc", &fn, 11030, 0));
	assert_ptr_equal(fn, dlsym(driver, "cuMemAlloc_v2"));
	ok(resolve("cuMemcpyHtoD", &fn, 11030, 0)); /* the newest it has */
	assert_ptr_equal(fn, dlsym(driver, "cuMemcpyHtoD"));
	fails(resolve("cuMemAllocAsync", &fn, 11030, 0), CUDA_ERROR_NOT_FOUND);
	dlclose(driver);
}

int main(void)
{
	simtest_only_sim();
	const struct CMUnitTest tests[] = {cmocka_unit_test(symbols_are_missing_everywhere)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

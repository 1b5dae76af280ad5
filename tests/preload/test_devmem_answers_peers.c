/* ENV: TURBO_DEVMEM_CACHE_MB=256 SIM_DEVICES=2 BARE */
/*
 * Peer access: a kernel of another context may still use a block that the program frees, so the
 * block is nobody's before that kernel is done. Without access the other context is not waited for.
 */
#include "common/copy_fixture.h"
#include "common/modes.h"
#include <cmocka.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/gpu/kernels_ptx.h"

#define BYTES (4 * MIB)
#define WORDS (BYTES / 4)

static CUcontext second; /* of device 1 */
static CUstream stream;  /* its */
static CUfunction second_fill, second_spin;
static CUresult (*disable_peer_access)(CUcontext);

static void in_second(CUresult (*call)(void))
{
	OK(cu.cuCtxPushCurrent_v2(second));
	CUresult r = call();
	OK(cu.cuCtxPopCurrent_v2(NULL));
	OK(r);
}

static CUresult enable(void)
{
	return cu.cuCtxEnablePeerAccess(fx.ctx, 0);
}

static CUresult disable(void)
{
	return disable_peer_access(fx.ctx);
}

static CUresult wait_second(void)
{
	return cu.cuCtxSynchronize();
}

static CUresult open_second(void)
{
	CUmodule module;
	CUresult r = cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);

	if (r || (r = cu.cuModuleLoadData(&module, kernels_ptx)) ||
		(r = cu.cuModuleGetFunction(&second_fill, module, "fill32")))
		return r;
	return cu.cuModuleGetFunction(&second_spin, module, "spin_flag");
}

/* The second device is busy until *fx.flag is not 0, and then fills p. */
static CUdeviceptr target;
static CUresult busy_and_fill(void)
{
	size_t words = WORDS;
	uint32_t value = 0xfeed;
	CUresult r = cu.cuLaunchKernel(second_spin, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&fx.flag_dev}, NULL);

	return r ? r
			 : cu.cuLaunchKernel(second_fill, 64, 1, 1, 256, 1, 1, 0, stream,
								 (void *[]){&target, &words, &value}, NULL);
}

static _Atomic bool freed;
static _Atomic CUresult free_result;

static void *free_main(void *arg)
{
	if (cu.cuCtxSetCurrent(fx.ctx) == CUDA_SUCCESS)
		free_result = cu.cuMemFree_v2(*(CUdeviceptr *)arg);
	freed = true;
	return NULL;
}

/* Frees `p` on a thread; true when that has not returned after a while. */
static bool free_waits(CUdeviceptr *p, pthread_t *thread)
{
	freed = false;
	assert_int_equal(pthread_create(thread, NULL, free_main, p), 0);
	for (int i = 0; i < 150 && !freed; i++)
		usleep(1000);
	return !freed;
}

static const char *mode(void)
{
	const char *value = getenv("TURBO_DEVMEM");
	return fx.preloaded && value ? value : "off";
}

/* Whoever gets memory after the free must not see the other context's bytes in it. */
static void a_kernel_of_the_peer_is_waited_for(void **state)
{
	(void)state;
	pthread_t thread;
	bool off = !strcmp(mode(), "off"); /* a driver need not wait for the other context */
	in_second(enable);
	for (uint32_t i = 0; i < 3; i++) {
		*fx.flag = 0;
		CUdeviceptr p = target = device_new(BYTES), q = 0;
		in_second(busy_and_fill);
		if (off) {
			*fx.flag = 1;
			in_second(wait_second);
		}
		if (!free_waits(&p, &thread) && !off) {
			assert_string_equal(mode(), "deferred");
			q = device_new(BYTES);
			assert_int_not_equal(q, p);
			OK(launch_fill(NULL, q, WORDS, i));
		}
		*fx.flag = 1;
		pthread_join(thread, NULL);
		assert_int_equal(free_result, CUDA_SUCCESS);
		if (!q) {
			q = device_new(BYTES);
			OK(launch_fill(NULL, q, WORDS, i));
		}
		in_second(wait_second);
		assert_int_equal(device_differs_word(q, BYTES, i), -1);
		device_free(q);
	}
	in_second(disable);
}

static void without_access_it_is_not(void **state)
{
	(void)state;
	pthread_t thread;
	*fx.flag = 0;
	CUdeviceptr p = device_new(BYTES);
	OK(cu.cuCtxPushCurrent_v2(second));
	target = device_new(BYTES); /* its own memory */
	OK(busy_and_fill());
	OK(cu.cuCtxPopCurrent_v2(NULL));
	bool waited = free_waits(&p, &thread);
	*fx.flag = 1;
	pthread_join(thread, NULL);
	in_second(wait_second);
	assert_int_equal(free_result, CUDA_SUCCESS);
	if (strcmp(mode(), "off"))
		assert_false(waited);
	device_free(target);
}

/* Access that is enabled twice, or was never there, is the driver's to complain about. */
static void errors_are_the_drivers(void **state)
{
	(void)state;
	OK(cu.cuCtxPushCurrent_v2(second));
	OK(cu.cuCtxEnablePeerAccess(fx.ctx, 0));
	assert_int_equal(cu.cuCtxEnablePeerAccess(fx.ctx, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	OK(disable_peer_access(fx.ctx));
	assert_int_equal(disable_peer_access(fx.ctx), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	assert_int_equal(cu.cuCtxEnablePeerAccess(fx.ctx, 7), CUDA_ERROR_INVALID_VALUE);
	OK(cu.cuCtxPopCurrent_v2(NULL));
}

/* A peer that is gone holds nothing up. */
static void a_peer_that_ends(void **state)
{
	(void)state;
	CUcontext third;
	CUdevice device;
	OK(cu.cuDeviceGet(&device, 1));
	OK(cu.cuCtxCreate_v2(&third, 0, device));
	OK(cu.cuCtxEnablePeerAccess(fx.ctx, 0));
	OK(cu.cuCtxPopCurrent_v2(NULL));
	device_free(device_new(BYTES));
	OK(cu.cuCtxDestroy_v2(third));
	for (int i = 0; i < 3; i++)
		device_free(device_new(BYTES));
}

int main(int argc, char **argv)
{
	int status = modes_main(argv);

	(void)argc;
	if (status >= 0)
		return status;
	copy_limit();
	copy_open();
	if (fx.devices < 2) {
		printf("there is one device only\n");
		return 77;
	}
	*(void **)&disable_peer_access =
		dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "cuCtxDisablePeerAccess");
	if (cu.cuDevicePrimaryCtxRetain(&second, 1))
		return 1;
	in_second(open_second);
	const struct CMUnitTest tests[] = {
		EITHER(a_kernel_of_the_peer_is_waited_for),
		EITHER(without_access_it_is_not),
		EITHER(errors_are_the_drivers),
		EITHER(a_peer_that_ends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

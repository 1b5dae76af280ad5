/* ENV: TURBO_DEVMEM_CACHE_MB=64 TURBO_COPY_THREADS=2 TURBO_COPY_MIN_KB=64 TURBO_COPY_RING_MB=4 SIM_DEVICES=2 BARE */
/*
 * Contexts that end otherwise than by cuCtxDestroy: by their last cuCtxDetach, with a green context, and a primary
 * one with the green context that held it last. Nothing of theirs is used or counted afterwards, and a
 * context that has not ended keeps what it has. In each mode of TURBO_DEVMEM.
 */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* cuCtxAttach, cuCtxDetach */
#include "common/devmem_fixture.h"
#include "common/modes.h"
#include <cmocka.h>

#include <dlfcn.h>
#include <stdio.h>

#define MANY 70 /* more contexts than the policies keep at a time */

static __typeof__(&cuCtxAttach) attach;
static __typeof__(&cuCtxDetach) detach;
static unsigned char *host; /* MIB bytes of pattern(1) */

static bool keeps(void)
{
	const char *mode = getenv("TURBO_DEVMEM");
	return fx.preloaded && mode && strcmp(mode, "off");
}

static uint64_t kept(void)
{
	return counter("devmem.cache.bytes") + counter("devmem.deferred.bytes");
}

/* What the policies hold is made: a staged copy, a block that is kept, one on a stream. */
static void work(void)
{
	CUdeviceptr p = device_new(MIB), q;
	OK(cu.cuMemcpyHtoD_v2(p, host, MIB));
	DEVICE_IS(p, MIB, 1);
	device_free(p);
	OK(cu.cuMemAllocAsync(&q, MIB, NULL));
	OK(cu.cuMemsetD32Async(q, 1, 1024, NULL));
	OK(cu.cuMemFreeAsync(q, NULL));
	OK(cu.cuCtxSynchronize());
}

/* An allocation of that size is served from what was freed; with `deferred` as soon as the device has said so. */
static void is_kept(size_t bytes)
{
	uint64_t before = hits();
	for (int ms = 0; ms < 2000 && hits() == before && (keeps() || !ms); ms++) {
		device_free(device_new(bytes));
		OK(cu.cuCtxSynchronize());
		sleep_ms(ms > 3);
	}
	if (keeps())
		assert_true(hits() > before);
}

/* The current context is served as ever: no barrier of its frees stumbles over a dead one. */
static void served(void)
{
	for (int i = 0; i < 3; i++)
		is_kept(5 * MIB);
	work();
}

static int begin(void **state)
{
	OK(cu.cuCtxSetCurrent(fx.ctx));
	work(); /* what is made once is there */
	return copy_begin(state);
}
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, copy_end)

/* ---- by count ---- */

static void the_last_detach_ends_a_context(void **state)
{
	(void)state;
	CUcontext ctx, same;
	if (!attach || !detach)
		copy_skip("no cuCtxAttach");
	uint64_t before = kept(), allocs = sim.live_allocs ? sim.live_allocs() : 0;
	for (int i = 0; i < MANY; i++) {
		OK(cu.cuCtxCreate_v2(&ctx, 0, 0));
		for (int uses = 0; uses < i % 4; uses++)
			OK(attach(&same, 0));
		work();
		for (int uses = 0; uses < i % 4; uses++) {
			OK(detach(ctx));
			is_kept(MIB); /* it is there still, and what it kept */
		}
		OK(detach(ctx));
		OK(cu.cuCtxSetCurrent(fx.ctx));
		assert_true(kept() <= before);
		if (sim.live_allocs)
			assert_true(sim.live_allocs() <= allocs);
	}
	served();
}

/* The driver refuses it, and nothing comes of it. */
static void a_detach_that_fails(void **state)
{
	(void)state;
	CUcontext ctx;
	if (!attach || !detach)
		copy_skip("no cuCtxAttach");
	OK(cu.cuCtxCreate_v2(&ctx, 0, 0));
	work();
	OK(cu.cuCtxSetCurrent(fx.ctx));
	assert_int_not_equal(detach(ctx), CUDA_SUCCESS);
	OK(cu.cuCtxSetCurrent(ctx));
	served();
	OK(cu.cuCtxDestroy_v2(ctx));
	OK(cu.cuCtxSetCurrent(fx.ctx));
	served();
}

/* The count goes with the context; the next one may have its handle. */
static void destroyed_while_attached(void **state)
{
	(void)state;
	CUcontext ctx, same;
	if (!attach || !detach)
		copy_skip("no cuCtxAttach");
	for (int i = 0; i < MANY; i++) {
		OK(cu.cuCtxCreate_v2(&ctx, 0, 0));
		OK(attach(&same, 0));
		OK(cu.cuCtxDestroy_v2(ctx));
		OK(cu.cuCtxSetCurrent(fx.ctx));
	}
	uint64_t before = kept();
	OK(cu.cuCtxCreate_v2(&ctx, 0, 0));
	work();
	OK(detach(ctx));
	OK(cu.cuCtxSetCurrent(fx.ctx));
	assert_true(kept() <= before);
	served();
}

/* ---- green ones ---- */

static CUgreenCtx green_new(CUdevice device)
{
	CUdevResource sm;
	CUdevResourceDesc desc;
	CUgreenCtx green = NULL;
	if (!cu.cuGreenCtxCreate || cu.cuDeviceGetDevResource(device, &sm, CU_DEV_RESOURCE_TYPE_SM))
		copy_skip("no green contexts");
	OK(cu.cuDevResourceGenerateDesc(&desc, &sm, 1));
	OK(cu.cuGreenCtxCreate(&green, desc, device, CU_GREEN_CTX_DEFAULT_STREAM));
	return green;
}

static void a_green_context_ends(void **state)
{
	(void)state;
	for (int i = 0; i < MANY; i++) {
		CUcontext ctx;
		CUgreenCtx green = green_new(0);
		OK(cu.cuCtxFromGreenCtx(&ctx, green));
		OK(cu.cuCtxSetCurrent(ctx));
		work();
		OK(cu.cuCtxSetCurrent(fx.ctx));
		work();
		OK(cu.cuGreenCtxDestroy(green));
		OK(cu.cuCtxSetCurrent(fx.ctx));
	}
	served();
	if (fx.devices < 2)
		return;
	CUcontext other;
	OK(cu.cuDevicePrimaryCtxRetain(&other, 1)); /* there is room for it still */
	OK(cu.cuCtxSetCurrent(other));
	served();
	OK(cu.cuDevicePrimaryCtxRelease_v2(1));
	OK(cu.cuCtxSetCurrent(fx.ctx));
}

static void the_primary_context_ends_with_it(void **state)
{
	(void)state;
	if (fx.devices < 2)
		copy_skip("needs two devices");
	uint64_t before = kept(), allocs = sim.live_allocs ? sim.live_allocs() : 0;
	for (int i = 0; i < 5; i++) {
		CUcontext primary;
		unsigned flags;
		int active = 1;
		CUgreenCtx green = green_new(1);
		OK(cu.cuDevicePrimaryCtxRetain(&primary, 1));
		OK(cu.cuCtxSetCurrent(primary));
		device_free(device_new(MIB));
		OK(cu.cuCtxSetCurrent(fx.ctx));
		OK(cu.cuDevicePrimaryCtxRelease_v2(1));
		if (keeps())
			assert_true(kept() >= MIB);
		OK(cu.cuGreenCtxDestroy(green));
		OK(cu.cuDevicePrimaryCtxGetState(1, &flags, &active));
		assert_false(active);
		assert_true(kept() <= before);
		if (sim.live_allocs)
			assert_true(sim.live_allocs() <= allocs);
	}
	served();
}

int main(int argc, char **argv)
{
	(void)argc;
	int result = modes_main(argv);
	if (result >= 0)
		return result;
	devmem_open();
	host = pages_new(MIB, 1);
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	*(void **)&attach = dlsym(lib, "cuCtxAttach");
	*(void **)&detach = dlsym(lib, "cuCtxDetach");
	const struct CMUnitTest tests[] = {
		CASE(the_last_detach_ends_a_context),   CASE(a_detach_that_fails),
		CASE(destroyed_while_attached),         CASE(a_green_context_ends),
		CASE(the_primary_context_ends_with_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* ENV: TURBO_DEVMEM=cache TURBO_DEVMEM_CACHE_MB=64 TURBO_COPY=off SIM_DEVICES=2 BARE */
/*
 * cuMemAlloc and cuMemFree with a cache behind them, and contexts: whose memory is whose, who is waited for,
 * and what a context's end takes along.
 */
#include "common/devmem_fixture.h"
#include <cmocka.h>

#include <stdio.h>

static CUcontext current(void)
{
	CUcontext c = NULL;
	OK(cu.cuCtxGetCurrent(&c));
	return c;
}

static void a_free_finds_the_owning_context(void **state)
{
	(void)state;
	CUcontext other, popped;
	OK(cu.cuCtxCreate_v2(&other, 0, 0));
	OK(cu.cuCtxSetCurrent(fx.ctx));
	CUdeviceptr p = device_new(7 * MIB);
	device_free(p);
	p = device_new(7 * MIB);
	OK(cu.cuCtxSetCurrent(other));
	device_free(p);
	assert_ptr_equal(current(), other);
	/* It is not this context's. */
	CUdeviceptr q = device_new(7 * MIB);
	assert_int_not_equal(p, q);
	OK(cu.cuCtxSetCurrent(fx.ctx));
	CUdeviceptr r = device_new(7 * MIB);
	if (fx.preloaded)
		assert_int_equal(p, r);
	/* Without any. */
	while (cu.cuCtxPopCurrent_v2(&popped) == CUDA_SUCCESS)
		;
	device_free(q);
	device_free(r);
	assert_null(current());
	OK(cu.cuCtxSetCurrent(fx.ctx));
	OK(cu.cuCtxDestroy_v2(other));
	OK(cu.cuCtxSetCurrent(fx.ctx));
}

static void a_context_takes_its_memory_along(void **state)
{
	(void)state;
	uint64_t before = sim.live_allocs ? sim.live_allocs() : 0;
	uint64_t kept = counter("devmem.cache.bytes");
	for (int i = 0; i < 5; i++) {
		CUcontext ctx;
		OK(cu.cuCtxCreate_v2(&ctx, 0, 0));
		for (int n = 0; n < 4; n++)
			device_free(device_new(MIB));
		device_new(3 * MIB); /* the program's still */
		OK(cu.cuCtxDestroy_v2(ctx));
		OK(cu.cuCtxSetCurrent(fx.ctx));
		if (sim.live_allocs)
			assert_int_equal(sim.live_allocs(), before);
		assert_int_equal(counter("devmem.cache.bytes"), kept);
	}
}

/* A primary context has its old address after a reset, and none of its memory. */
static void a_primary_context_is_reset(void **state)
{
	(void)state;
	CUcontext ctx;
	if (fx.devices < 2)
		copy_skip("needs two devices");
	for (int i = 0; i < 6; i++) {
		OK(cu.cuDevicePrimaryCtxRetain(&ctx, 1));
		OK(cu.cuCtxSetCurrent(ctx));
		device_free(device_new(9 * MIB));
		OK(i % 2 ? cu.cuDevicePrimaryCtxReset_v2(1) : cu.cuDevicePrimaryCtxRelease_v2(1));
		if (i % 2)
			OK(cu.cuDevicePrimaryCtxRelease_v2(1));
		OK(cu.cuDevicePrimaryCtxRetain(&ctx, 1));
		OK(cu.cuCtxSetCurrent(ctx));
		CUdeviceptr p = device_new(9 * MIB);
		device_write(p, 9 * MIB, 5);
		DEVICE_IS(p, 9 * MIB, 5);
		device_free(p);
		OK(cu.cuDevicePrimaryCtxRelease_v2(1));
		OK(cu.cuCtxSetCurrent(fx.ctx));
	}
}

/* What is kept on an idle device goes back before the reset would take it. The device has a millisecond to say that
 * it is idle, which the simulator's threads may miss on a busy machine. */
static void a_reset_finds_nothing_kept(void **state)
{
	(void)state;
	CUcontext ctx;
	bool seen = !sim.calls;
	if (fx.devices < 2)
		copy_skip("needs two devices");
	for (int i = 0; i < 30 && (!i || !seen); i++) {
		OK(cu.cuDevicePrimaryCtxRetain(&ctx, 1));
		OK(cu.cuCtxSetCurrent(ctx));
		uint64_t frees = real_frees();
		device_free(device_new(9 * MIB));
		device_free(device_new(5 * MIB));
		if (fx.preloaded)
			assert_int_equal(real_frees(), frees);
		OK(cu.cuDevicePrimaryCtxReset_v2(1));
		seen |= sim.calls && real_frees() == frees + 2;
		OK(cu.cuDevicePrimaryCtxRelease_v2(1));
		OK(cu.cuCtxSetCurrent(fx.ctx));
	}
	assert_true(seen);
}

/* A kernel of a context with access may use the memory still. */
static void a_free_waits_for_peers(void **state)
{
	(void)state;
	CUcontext peer;
	CUstream theirs;
	struct freeing f;
	if (fx.devices < 2)
		copy_skip("needs two devices");
	OK(cu.cuDevicePrimaryCtxRetain(&peer, 1));
	OK(cu.cuCtxSetCurrent(peer));
	CUresult r = cu.cuCtxEnablePeerAccess(fx.ctx, 0);
	if (r != CUDA_SUCCESS) {
		OK(cu.cuCtxSetCurrent(fx.ctx));
		copy_skip("needs peer access");
	}
	OK(cu.cuStreamCreate(&theirs, CU_STREAM_NON_BLOCKING));
	OK(cu.cuCtxSetCurrent(fx.ctx));
	CUdeviceptr p = device_new(6 * MIB);
	busy_begin(theirs);
	freeing_begin(&f, fx.ctx, p);
	sleep_ms(30);
	if (fx.preloaded)
		assert_int_equal(f.done, 0);
	busy_end();
	OK(freeing_end(&f));
	OK(cu.cuCtxSetCurrent(peer));
	OK(cu.cuStreamDestroy_v2(theirs));
	OK(cu.cuCtxSetCurrent(fx.ctx));
	OK(cu.cuDevicePrimaryCtxRelease_v2(1));
	/* Without the peer frees go on. */
	device_free(device_new(6 * MIB));
}

/* A copy in another context of the device names the memory, without peer access. */
static void a_free_waits_for_the_devices_other_contexts(void **state)
{
	(void)state;
	CUcontext other;
	CUstream theirs;
	CUdeviceptr to;
	OK(cu.cuCtxCreate_v2(&other, 0, 0));
	OK(cu.cuStreamCreate(&theirs, CU_STREAM_NON_BLOCKING));
	to = device_new(4 * MIB);
	OK(cu.cuCtxSetCurrent(fx.ctx));
	CUdeviceptr from = device_new(4 * MIB), next;
	device_write(from, 4 * MIB, 1);
	busy_begin(theirs);
	OK(cu.cuMemcpyPeerAsync(to, other, from, fx.ctx, 4 * MIB, theirs));
	struct freeing f;
	freeing_begin(&f, fx.ctx, from);
	sleep_ms(30);
	assert_int_equal(f.done, 0);
	busy_end();
	OK(freeing_end(&f));
	next = device_new(4 * MIB);
	device_write(next, 4 * MIB, 2);
	device_free(next);
	OK(cu.cuCtxSetCurrent(other));
	DEVICE_IS(to, 4 * MIB, 1);
	OK(cu.cuCtxDestroy_v2(other));
	OK(cu.cuCtxSetCurrent(fx.ctx));
}

/* An error, after which all is as before. */
static void a_primary_context_is_not_destroyed(void **state)
{
	(void)state;
	CUdeviceptr p = device_new(11 * MIB);
	device_free(p);
	uint64_t had = counter("devmem.cache.bytes");
	assert_int_not_equal(cu.cuCtxDestroy_v2(fx.ctx), CUDA_SUCCESS);
	OK(cu.cuCtxSetCurrent(fx.ctx));
	assert_int_equal(counter("devmem.cache.bytes"), had);
	CUdeviceptr q = device_new(11 * MIB);
	if (fx.preloaded)
		assert_int_equal(p, q);
	device_free(q);
}

int main(void)
{
	devmem_open();
	const struct CMUnitTest tests[] = {
		EITHER(a_free_finds_the_owning_context),
		EITHER(a_context_takes_its_memory_along),
		EITHER(a_primary_context_is_reset),
		EITHER(a_reset_finds_nothing_kept),
		EITHER(a_free_waits_for_peers),
		EITHER(a_free_waits_for_the_devices_other_contexts),
		EITHER(a_primary_context_is_not_destroyed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

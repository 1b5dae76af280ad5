/*
 * test_sim_ctx_end.c - contexts that are used by count, and green contexts.
 */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* cuCtxAttach, cuCtxDetach */
#include "common/simtest.h"
#include "sim.h"

static CUcontext current(void)
{
	CUcontext ctx = NULL;
	ok(cuCtxGetCurrent(&ctx));
	return ctx;
}

static void the_last_use_ends_a_context(void **state)
{
	(void)state;
	CUcontext ctx, same = NULL;
	CUdeviceptr p;
	ok(cuCtxCreate_v2(&ctx, 0, 0));
	fails(cuCtxAttach(&same, 1), CUDA_ERROR_INVALID_VALUE);
	ok(cuCtxAttach(&same, 0));
	assert_ptr_equal(same, ctx);
	uint64_t before = sim_live_allocs();
	ok(cuMemAlloc_v2(&p, 4096));
	ok(cuCtxDetach(ctx));
	assert_ptr_equal(current(), ctx);
	assert_int_equal(sim_live_allocs(), before + 1);
	ok(cuCtxDetach(ctx));
	assert_int_equal(sim_live_allocs(), before);
	assert_ptr_not_equal(current(), ctx);
	ok(cuCtxSetCurrent(st_ctx));
}

static void only_a_current_context_is_detached(void **state)
{
	(void)state;
	CUcontext ctx;
	ok(cuCtxCreate_v2(&ctx, 0, 0));
	ok(cuCtxSetCurrent(st_ctx));
	fails(cuCtxDetach(ctx), CUDA_ERROR_INVALID_CONTEXT);
	fails(cuCtxDetach(st_ctx), CUDA_ERROR_INVALID_CONTEXT); /* a primary context has no such count */
	ok(cuCtxDestroy_v2(ctx));
	ok(cuCtxSetCurrent(st_ctx));
}

static CUgreenCtx green_new(CUdevice device)
{
	CUdevResource sm;
	CUdevResourceDesc desc;
	CUgreenCtx green;
	ok(cuDeviceGetDevResource(device, &sm, CU_DEV_RESOURCE_TYPE_SM));
	ok(cuDevResourceGenerateDesc(&desc, &sm, 1));
	ok(cuGreenCtxCreate(&green, desc, device, CU_GREEN_CTX_DEFAULT_STREAM));
	return green;
}

static void a_green_context_is_one_until_it_ends(void **state)
{
	(void)state;
	CUcontext ctx, again;
	CUgreenCtx green = green_new(0);
	ok(cuCtxFromGreenCtx(&ctx, green));
	ok(cuCtxFromGreenCtx(&again, green));
	assert_ptr_equal(ctx, again);
	assert_ptr_not_equal(ctx, st_ctx);
	ok(cuCtxSetCurrent(ctx));
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING);
	ok(cuStreamSynchronize(s));
	ok(cuStreamDestroy_v2(s));
	fails(cuCtxDestroy_v2(ctx), CUDA_ERROR_INVALID_CONTEXT);
	ok(cuCtxSetCurrent(st_ctx));
	ok(cuGreenCtxDestroy(green));
	fails(cuCtxPushCurrent_v2(ctx), CUDA_ERROR_INVALID_CONTEXT);
	fails(cuGreenCtxDestroy(green), CUDA_ERROR_INVALID_CONTEXT);
	ok(cuCtxSetCurrent(st_ctx));
}

static void a_green_context_holds_the_primary_one(void **state)
{
	(void)state;
	unsigned flags;
	int active;
	int devices = 0;
	ok(cuDeviceGetCount(&devices));
	if (devices < 2)
		skip();
	CUgreenCtx green = green_new(1);
	ok(cuDevicePrimaryCtxGetState(1, &flags, &active));
	assert_true(active);
	ok(cuGreenCtxDestroy(green));
	ok(cuDevicePrimaryCtxGetState(1, &flags, &active));
	assert_false(active);
	ok(cuCtxSetCurrent(st_ctx));
}

int main(void)
{
	simtest_only_sim();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_use_ends_a_context),
		cmocka_unit_test(only_a_current_context_is_detached),
		cmocka_unit_test(a_green_context_is_one_until_it_ends),
		cmocka_unit_test(a_green_context_holds_the_primary_one),
	};
	return cmocka_run_group_tests(tests, simtest_setup, simtest_teardown);
}

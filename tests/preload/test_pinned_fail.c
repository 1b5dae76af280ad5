/* ENV: TURBO_HOSTMEM=on TURBO_HOSTMEM_CACHE_MB=16 TURBO_COPY=off TURBO_DEVMEM=off TURBO_LOG=none SIM_DEVICES=2 */
/*
 * Every driver call that the cache of pinned memory makes fails once, at each of its turns: the program's calls succeed,
 * or fail with the driver's own error for that very call; later ones work; no thread is left in another context or
 * capture mode; and nothing is left when the context is gone. Needs the simulated driver.
 */
#include "common/pinned_fixture.h"
#include <cmocka.h>

#include <dlfcn.h>
#include <stdio.h>

static const char *const functions[] = {
	"cuCtxGetCurrent",
	"cuCtxGetDevice",
	"cuCtxGetId",
	"cuCtxPopCurrent_v2",
	"cuCtxPushCurrent_v2",
	"cuCtxRecordEvent",
	"cuCtxSynchronize",
	"cuDevicePrimaryCtxGetState",
	"cuDevicePrimaryCtxRelease_v2",
	"cuDevicePrimaryCtxRetain",
	"cuEventCreate",
	"cuEventDestroy_v2",
	"cuEventQuery",
	"cuMemAllocHost_v2",
	"cuMemFreeHost",
	"cuMemHostAlloc",
	"cuThreadExchangeStreamCaptureMode",
};
#define FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

/* What the program asks for itself in the scenario. */
static bool programs_own(const char *function)
{
	return !strcmp(function, "cuMemHostAlloc") || !strcmp(function, "cuMemAllocHost_v2") ||
		   !strcmp(function, "cuMemFreeHost") || !strcmp(function, "cuCtxSynchronize");
}

struct outcome {
	unsigned allocs, frees; /* that failed */
	CUresult code;          /* of the last one */
};

static CUcontext ctx, second;
static CUstream stream, there;
static uint64_t (*host_allocs)(void);

static void note(struct outcome *o, CUresult r, unsigned *which)
{
	if (r == CUDA_SUCCESS)
		return;
	o->code = r;
	++*which;
}

/* Allocations that hit and miss, work here and on another device, frees from elsewhere, more than may be kept: every
 * way through the policy. */
static struct outcome scenario(void)
{
	struct outcome o = {0};
	void *p[8];
	CUdeviceptr dev = device_new(MIB);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 8; i++) {
			size_t bytes = (size_t)(i % 4 + 1) * MIB;
			p[i] = NULL;
			note(&o, i & 1 ? cu.cuMemHostAlloc(&p[i], bytes, 0) : cu.cuMemAllocHost_v2(&p[i], bytes),
				 &o.allocs);
			if (p[i])
				cu.cuMemcpyHtoDAsync_v2(dev, p[i], 4096, stream);
		}
		if (round == 1)
			cu.cuCtxSetCurrent(second);
		for (int i = 0; i < 8; i++)
			if (p[i])
				note(&o, cu.cuMemFreeHost(p[i]), &o.frees);
		cu.cuCtxSetCurrent(ctx);
		note(&o, cu.cuCtxSynchronize(), &o.frees);
	}
	device_free(dev);
	return o;
}

static uint64_t live_before;

static void context_new(void)
{
	OK(cu.cuCtxCreate_v2(&ctx, 0, 0));
	OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

static void context_end(const char *what, int nth)
{
	CUcontext now;
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
	if (mode != CU_STREAM_CAPTURE_MODE_GLOBAL)
		fail_msg("%s call %d: the thread is left in capture mode %d", what, nth, (int)mode);
	OK(cu.cuCtxGetCurrent(&now));
	assert_ptr_equal(now, ctx);
	OK(cu.cuCtxDestroy_v2(ctx));
	OK(cu.cuCtxGetCurrent(&now));
	if (now != fx.ctx)
		fail_msg("%s call %d: the thread is left in another context", what, nth);
	if (host_allocs() != live_before)
		fail_msg("%s call %d: allocations %+lld", what, nth, (long long)(host_allocs() - live_before));
	if (pinned_kept())
		fail_msg("%s call %d: memory is counted as kept", what, nth);
}

static int calls_of(const char *function)
{
	context_new();
	uint64_t before = sim.calls(function);
	struct outcome o = scenario();
	int calls = (int)(sim.calls(function) - before);
	assert_int_equal(o.allocs + o.frees, 0);
	context_end(function, 0);
	return calls;
}

static void fail_once(const char *function, int nth, int code)
{
	context_new();
	sim.fail_set(function, nth, code);
	struct outcome o = scenario();
	sim.fail_clear();
	if ((o.allocs || o.frees) &&
		(!programs_own(function) || o.code != (CUresult)code || o.allocs + o.frees > 1))
		fail_msg("%s call %d fails: %u allocations and %u frees failed, at last with %s", function, nth,
				 o.allocs, o.frees, cuda_dl_error(o.code));
	o = scenario();
	if (o.allocs || o.frees)
		fail_msg("after %s call %d: %s", function, nth, cuda_dl_error(o.code));
	context_end(function, nth);
}

static void each_call_fails_once(void **state)
{
	(void)state;
	unsigned tried = 0;
	for (size_t f = 0; f < FUNCTIONS; f++) {
		int calls = calls_of(functions[f]);
		for (int nth = 1; nth <= calls; nth += nth < 12 ? 1 : nth / 4, tried++)
			fail_once(functions[f], nth, CUDA_ERROR_UNKNOWN);
	}
	print_message("%u failures\n", tried);
	assert_in_range(tried, 50, 100000);
}

/* All calls of a function that only the policy makes fail: everything is the driver's then. */
static void a_function_that_always_fails(void **state)
{
	(void)state;
	for (size_t f = 0; f < FUNCTIONS; f++) {
		/* Nobody can put a thread back without this one. */
		if (programs_own(functions[f]) || !strcmp(functions[f], "cuCtxPopCurrent_v2"))
			continue;
		context_new();
		sim.fail_set(functions[f], 0, CUDA_ERROR_NOT_SUPPORTED);
		struct outcome o = scenario();
		sim.fail_clear();
		if (o.allocs || o.frees)
			fail_msg("%s always fails: %s", functions[f], cuda_dl_error(o.code));
		context_end(functions[f], 0);
	}
}

/* A context that is lost: every call says so, as it does bare. */
static void an_error_that_sticks(void **state)
{
	(void)state;
	void *p, *q;
	context_new();
	pinned_free(pinned_new(2 * MIB, 0));
	p = pinned_new(3 * MIB, 0);
	sim.fail_set("cuCtxSynchronize", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(cu.cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	sim.fail_clear();
	assert_int_equal(cu.cuMemFreeHost(p), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(cu.cuMemHostAlloc(&q, 2 * MIB, 0),
					 CUDA_ERROR_ILLEGAL_ADDRESS); /* it is kept, and no good */
	context_end("sticky", 0);
}

/* The system has no memory: what is kept goes back before the program hears of it. */
static void out_of_memory(void **state)
{
	(void)state;
	context_new();
	pinned_free(pinned_new(4 * MIB, 0));
	assert_int_equal(pinned_kept() >= 4 * MIB, 1);
	for (int times = 1; times <= 2; times++) {
		void *p = NULL;
		sim.fail_set("cuMemHostAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY); /* as rounded */
		OK(cu.cuMemHostAlloc(&p, 9 * MIB + 5, 0));
		sim.fail_clear();
		pinned_free(p);
	}
	void *p = NULL;
	pinned_free(pinned_new(4 * MIB, 0));
	sim.fail_set("cuMemHostAlloc", 0, CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cu.cuMemHostAlloc(&p, 7 * MIB, 0), CUDA_ERROR_OUT_OF_MEMORY);
	sim.fail_clear();
	assert_int_equal(pinned_kept(), 0);
	context_end("out of memory", 0);
}

int main(void)
{
	if (!counters_preloaded())
		return 77;
	devmem_open();
	if (!sim.fail_set) {
		printf("needs the simulated driver\n");
		return 77;
	}
	*(void **)&host_allocs = dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "sim_host_allocs");
	/* Work on another device: its context stays. */
	OK(cu.cuDevicePrimaryCtxRetain(&second, 1));
	OK(cu.cuCtxPushCurrent_v2(second));
	OK(cu.cuStreamCreate(&there, CU_STREAM_NON_BLOCKING));
	OK(cu.cuCtxPopCurrent_v2(&second));
	live_before = host_allocs();
	const struct CMUnitTest tests[] = {
		EITHER(each_call_fails_once),
		EITHER(a_function_that_always_fails),
		EITHER(an_error_that_sticks),
		EITHER(out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

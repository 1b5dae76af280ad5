/* ENV: TURBO_DEVMEM_CACHE_MB=16 TURBO_COPY=off TURBO_LOG=none SIM_DEVICES=2 */
/*
 * Every driver call that the policy makes for allocations and frees fails once, at each of its turns, in
 * modes cache and deferred: the program's calls succeed, or fail with the driver's own error for that
 * very call; later ones work; no thread is left in another context or capture mode; and nothing is left
 * when the context is gone. Needs the simulated driver.
 *
 * The program runs itself once for each mode.
 */
#include "common/devmem_fixture.h"
#include <cmocka.h>

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const functions[] = {
	"cuCtxGetCurrent",
	"cuCtxGetDevice",
	"cuCtxGetId",
	"cuCtxPopCurrent_v2",
	"cuCtxPushCurrent_v2",
	"cuCtxRecordEvent",
	"cuCtxSynchronize",
	"cuDeviceGetUuid",
	"cuDeviceGetUuid_v2",
	"cuDevicePrimaryCtxGetState",
	"cuDevicePrimaryCtxRelease_v2",
	"cuDevicePrimaryCtxRetain",
	"cuDeviceTotalMem_v2",
	"cuEventCreate",
	"cuEventDestroy_v2",
	"cuEventQuery",
	"cuMemAlloc_v2",
	"cuMemFree_v2",
	"cuThreadExchangeStreamCaptureMode",
};
#define FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

/* What the program asks for itself in the scenario. */
static bool programs_own(const char *function)
{
	return !strcmp(function, "cuMemAlloc_v2") || !strcmp(function, "cuMemFree_v2") ||
		   !strcmp(function, "cuCtxSynchronize");
}

struct outcome {
	unsigned allocs, frees; /* that failed */
	CUresult code;          /* of the last one */
	unsigned leaked;        /* frees that failed: the context takes these along */
};

static CUcontext ctx;
static CUstream stream;

static void note(struct outcome *o, CUresult r, unsigned *which)
{
	if (r == CUDA_SUCCESS)
		return;
	o->code = r;
	++*which;
}

/* Allocations of sizes that hit and miss, work that is queued, frees from elsewhere, more than may
 * be kept: every way through the policy. */
static struct outcome scenario(void)
{
	struct outcome o = {0};
	CUdeviceptr p[12];
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 12; i++) {
			p[i] = 0;
			note(&o, cu.cuMemAlloc_v2(&p[i], (size_t)(i % 4 + 1) * MIB), &o.allocs);
			if (p[i])
				cu.cuMemsetD32Async(p[i], (unsigned)i, 1024, stream);
		}
		if (round == 1)
			cu.cuCtxSetCurrent(fx.ctx);
		for (int i = 0; i < 12; i++)
			if (p[i])
				note(&o, cu.cuMemFree_v2(p[i]), &o.frees);
		cu.cuCtxSetCurrent(ctx);
		note(&o, cu.cuCtxSynchronize(), &o.frees);
	}
	return o;
}

static uint64_t live_before, events_before;

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
	if (sim.live_allocs() != live_before || sim.live_events() != events_before)
		fail_msg("%s call %d: allocations %+lld, events %+lld", what, nth,
				 (long long)(sim.live_allocs() - live_before),
				 (long long)(sim.live_events() - events_before));
	if (counter("devmem.cache.bytes") || counter("devmem.deferred.bytes"))
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
		/* Nobody can put a thread back without these two. */
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
	static const char *const fatal[] = {"cuCtxSynchronize", "cuMemAlloc_v2", "cuMemFree_v2"};
	for (unsigned f = 0; f < 3; f++) {
		CUdeviceptr p = 0, q = 0;
		context_new();
		OK(cu.cuMemAlloc_v2(&p, 2 * MIB));
		sim.fail_set(fatal[f], 1, CUDA_ERROR_ILLEGAL_ADDRESS);
		if (f == 0)
			assert_int_equal(cu.cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
		else if (f == 1)
			assert_int_equal(cu.cuMemAlloc_v2(&q, 2 * MIB), CUDA_ERROR_ILLEGAL_ADDRESS);
		else
			OK(cu.cuMemFree_v2(p)); /* it is kept: the driver is not asked */
		sim.fail_clear();
		if (f < 2) {
			assert_int_equal(cu.cuMemFree_v2(p), CUDA_ERROR_ILLEGAL_ADDRESS);
			assert_int_equal(cu.cuMemAlloc_v2(&q, 3 * MIB), CUDA_ERROR_ILLEGAL_ADDRESS);
		}
		context_end(fatal[f], 1);
	}
}

static int run(void)
{
	devmem_open();
	if (!sim.fail_set) {
		printf("needs the simulated driver\n");
		return 77;
	}
	live_before = sim.live_allocs();
	events_before = sim.live_events();
	const struct CMUnitTest tests[] = {
		EITHER(each_call_fails_once),
		EITHER(a_function_that_always_fails),
		EITHER(an_error_that_sticks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	static const char *const modes[] = {"cache", "deferred"};
	int worst = 0;
	if (!counters_preloaded())
		return 77;
	if (argc > 1)
		return run();
	for (unsigned i = 0; i < 2; i++) {
		int status = 0;
		pid_t pid = fork();
		if (pid == 0) {
			setenv("TURBO_DEVMEM", modes[i], 1);
			execl("/proc/self/exe", argv[0], modes[i], (char *)NULL);
			_exit(126);
		}
		waitpid(pid, &status, 0);
		if (status)
			worst = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
	}
	return worst;
}

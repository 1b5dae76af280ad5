/* ENV: TURBO_DEVMEM=off TURBO_COPY_THREADS=2 TURBO_COPY_MIN_KB=64 TURBO_COPY_RING_MB=4 TURBO_LOG=none */
/*
 * Every driver call that the copy policy makes fails once, at each of its turns: the bytes are
 * right all the same, or the program gets the driver's own error for its own call; the next
 * copy works; and nothing is left when the context is gone. Needs the simulated driver.
 */
#include "common/copy_fixture.h"
#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES (5 * MIB)

static const char *const functions[] = {
	"cuCtxGetCurrent",
	"cuCtxGetDevice",
	"cuCtxGetId",
	"cuCtxPopCurrent_v2",
	"cuCtxPushCurrent_v2",
	"cuCtxSynchronize",
	"cuDeviceGetAttribute",
	"cuDevicePrimaryCtxGetState",
	"cuDevicePrimaryCtxRelease_v2",
	"cuDevicePrimaryCtxRetain",
	"cuEventCreate",
	"cuEventDestroy_v2",
	"cuEventQuery",
	"cuEventRecord",
	"cuEventRecord_ptsz",
	"cuMemHostRegister_v2",
	"cuMemHostUnregister",
	"cuMemcpyDtoHAsync_v2",
	"cuMemcpyHtoDAsync_v2",
	"cuMemcpyHtoDAsync_v2_ptsz",
	"cuPointerGetAttributes",
	"cuStreamCreate",
	"cuStreamDestroy_v2",
	"cuStreamGetCtx",
	"cuStreamIsCapturing",
	"cuStreamIsCapturing_ptsz",
	"cuStreamSynchronize",
	"cuStreamWaitEvent",
	"cuStreamWaitEvent_ptsz",
	"cuThreadExchangeStreamCaptureMode",
};
#define FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

/* The program's copies, one kind each way through the policy. */
enum kind { H2D_SYNC, H2D_ASYNC, H2D_ASYNC_PTSZ, H2D_EARLY, H2D_EARLY_PTSZ, D2H_SYNC, D2H_ASYNC, KINDS };
static const char *const entry[KINDS] = {
	"cuMemcpyHtoD_v2",           "cuMemcpyHtoDAsync_v2", "cuMemcpyHtoDAsync_v2_ptsz", "cuMemcpyHtoDAsync_v2",
	"cuMemcpyHtoDAsync_v2_ptsz", "cuMemcpyDtoH_v2",      "cuMemcpyDtoHAsync_v2",
};

static unsigned char *host;
static CUcontext ctx;
static CUdeviceptr d;
static CUstream stream;

static void context_new(void)
{
	OK(cu.cuCtxCreate_v2(&ctx, 0, 0));
	OK(cu.cuMemAlloc_v2(&d, BYTES));
	OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

static void context_end(void)
{
	OK(cu.cuCtxDestroy_v2(ctx));
	OK(cu.cuCtxSetCurrent(fx.ctx));
}

static CUresult copy(enum kind kind, size_t n)
{
	switch (kind) {
	case H2D_SYNC: return cu.cuMemcpyHtoD_v2(d, host, n);
	case H2D_ASYNC:
	case H2D_EARLY: return cu.cuMemcpyHtoDAsync_v2(d, host, n, stream);
	case H2D_ASYNC_PTSZ:
	case H2D_EARLY_PTSZ: return cu.cuMemcpyHtoDAsync_v2_ptsz(d, host, n, stream);
	case D2H_SYNC: return cu.cuMemcpyDtoH_v2(host, d, n);
	default: return cu.cuMemcpyDtoHAsync_v2(host, d, n, stream);
	}
}

static size_t size_of(enum kind kind)
{
	return kind == H2D_EARLY || kind == H2D_EARLY_PTSZ ? EARLY_BYTES : BYTES;
}

/* One copy; the bytes are checked when it succeeds. The failure is armed around the call alone. */
static CUresult copy_checked(enum kind kind, uint32_t seed, const char *function, int nth, int code)
{
	size_t n = size_of(kind);
	bool in = kind < D2H_SYNC;
	pattern_fill(host, n, in ? seed : seed + 1);
	if (!in)
		device_write(d, n, seed);
	if (function)
		sim.fail_set(function, nth, code);
	CUresult r = copy(kind, n);
	sim.fail_clear();
	if (in)
		memset(host, 0, n);
	if (r == CUDA_SUCCESS && in)
		DEVICE_IS(d, n, seed);
	else if (r == CUDA_SUCCESS)
		HOST_IS(host, n, seed);
	return r;
}

/* Nothing of ours is left: only what the fixture has. */
static struct {
	uint64_t events, streams, registrations, allocs;
} clean;

static void note_clean(void)
{
	clean.events = sim.live_events();
	clean.streams = sim.live_streams();
	clean.registrations = sim.host_registrations();
	clean.allocs = sim.live_allocs();
}

static void expect_clean(const char *what, const char *function, int nth)
{
	if (sim.live_events() == clean.events && sim.live_streams() == clean.streams &&
		sim.host_registrations() == clean.registrations && sim.live_allocs() == clean.allocs)
		return;
	fail_msg("%s, %s call %d: events %+lld, streams %+lld, registrations %+lld, allocations %+lld", what,
			 function, nth, (long long)(sim.live_events() - clean.events),
			 (long long)(sim.live_streams() - clean.streams),
			 (long long)(sim.host_registrations() - clean.registrations),
			 (long long)(sim.live_allocs() - clean.allocs));
}

/* Calls of the function that a copy in a fresh context makes. */
static int calls_of(const char *function, enum kind kind)
{
	context_new();
	if (kind >= D2H_SYNC)
		device_write(d, size_of(kind), 1);
	uint64_t before = sim.calls(function);
	OK(copy(kind, size_of(kind)));
	int calls = (int)(sim.calls(function) - before);
	context_end();
	return calls;
}

static void fail_once(const char *function, int nth, enum kind kind, int code)
{
	char what[96];
	snprintf(what, sizeof(what), "%s (%zu bytes)", entry[kind], size_of(kind));
	context_new();
	CUresult r = copy_checked(kind, 1, function, nth, code);
	if (r != CUDA_SUCCESS && (r != (CUresult)code || strcmp(function, entry[kind]) != 0))
		fail_msg("%s, %s call %d fails: the program got %s", what, function, nth, cuda_dl_error(r));
	for (uint32_t i = 0; i < 2; i++) {
		r = copy_checked(kind, 10 + i, NULL, 0, 0);
		if (r != CUDA_SUCCESS)
			fail_msg("%s, after %s call %d failed: the program got %s", what, function, nth,
					 cuda_dl_error(r));
	}
	context_end();
	expect_clean(what, function, nth);
}

/* The turns tried: all of the first few, then some of the many. */
static int next_turn(int nth, int calls)
{
	return nth < 6           ? nth + 1
		   : nth < calls - 1 ? (nth * 2 < calls ? nth * 2 : calls - 1)
		   : calls > nth     ? calls
							 : nth + 1;
}

static void each_call_fails_once(void **state)
{
	(void)state;
	unsigned tried = 0;
	for (size_t f = 0; f < FUNCTIONS; f++)
		for (enum kind kind = 0; kind < KINDS; kind++) {
			int calls = calls_of(functions[f], kind);
			for (int nth = 1; nth <= calls; nth = next_turn(nth, calls), tried++)
				fail_once(functions[f], nth, kind, CUDA_ERROR_UNKNOWN);
		}
	print_message("%u failures\n", tried);
	assert_in_range(tried, 150, 100000);
}

/* The calls that end a ring: the context's end must still give all back. */
static void the_end_of_a_ring_fails(void **state)
{
	(void)state;
	static const char *const ends[] = {"cuCtxPushCurrent_v2",
									   "cuCtxPopCurrent_v2",
									   "cuCtxSynchronize",
									   "cuEventDestroy_v2",
									   "cuStreamDestroy_v2",
									   "cuMemHostUnregister",
									   "cuThreadExchangeStreamCaptureMode"};
	for (size_t f = 0; f < sizeof(ends) / sizeof(ends[0]); f++)
		for (int nth = 0; nth <= 3; nth++) {
			context_new();
			assert_int_equal(copy_checked(H2D_SYNC, 3, NULL, 0, 0), CUDA_SUCCESS);
			sim.fail_set(ends[f], nth, CUDA_ERROR_UNKNOWN);
			CUresult r = cu.cuCtxDestroy_v2(ctx);
			sim.fail_clear();
			OK(r);
			OK(cu.cuCtxSetCurrent(fx.ctx));
			expect_clean("end of a context", ends[f], nth);
		}
}

/* All calls of a function fail: copies are the driver's then. */
static void a_function_that_always_fails(void **state)
{
	(void)state;
	for (size_t f = 0; f < FUNCTIONS; f++)
		for (enum kind kind = 0; kind < KINDS; kind++) {
			if (!strcmp(functions[f], entry[kind]))
				continue; /* then the driver's copy fails as well */
			context_new();
			CUresult r = copy_checked(kind, 5, functions[f], 0, CUDA_ERROR_OUT_OF_MEMORY);
			if (r != CUDA_SUCCESS)
				fail_msg("%s while %s always fails: %s", entry[kind], functions[f], cuda_dl_error(r));
			context_end();
			expect_clean(entry[kind], functions[f], 0);
		}
}

/* An error that kills the context: the program sees it, as it would bare. */
static void an_error_that_sticks(void **state)
{
	(void)state;
	static const char *const fatal[] = {"cuEventQuery",         "cuEventRecord",     "cuMemcpyHtoDAsync_v2",
										"cuMemcpyDtoHAsync_v2", "cuStreamWaitEvent", "cuEventCreate"};
	for (size_t f = 0; f < sizeof(fatal) / sizeof(fatal[0]); f++)
		for (enum kind kind = 0; kind < KINDS; kind++)
			for (int nth = 1; nth <= 9; nth += 4) {
				context_new();
				if (kind >= D2H_SYNC)
					device_write(d, size_of(kind), 1);
				sim.fail_set(fatal[f], nth, CUDA_ERROR_ILLEGAL_ADDRESS);
				uint64_t before = sim.calls(fatal[f]);
				CUresult r = copy(kind, size_of(kind));
				bool fired = sim.calls(fatal[f]) - before >= (uint64_t)nth;
				sim.fail_clear();
				if (r != CUDA_SUCCESS && r != CUDA_ERROR_ILLEGAL_ADDRESS)
					fail_msg("%s: %s", entry[kind], cuda_dl_error(r));
				if (fired)
					assert_int_equal(cu.cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
				/* The next copy says it, too. */
				if (fired)
					assert_int_equal(copy(kind, size_of(kind)), CUDA_ERROR_ILLEGAL_ADDRESS);
				context_end();
				expect_clean(entry[kind], fatal[f], nth);
			}
}

/* ---- no memory for the ring ---- */

/* Not under a sanitizer: it maps memory of its own for any thread at any time, and ends the
 * process when it gets none. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif
#ifndef SANITIZED

static rlim_t address_space(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu", &pages), 1);
	fclose(f);
	return (rlim_t)pages * 4096;
}

static void no_memory_for_a_ring(void **state)
{
	(void)state;
	struct rlimit old, low;
	context_new();
	pattern_fill(host, EARLY_BYTES, 8);
	assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
	low = old;
	/* Enough for the driver's own buffer, not for a ring of 4 MiB. */
	low.rlim_cur = address_space() + 3 * MIB;
	uint64_t staged = copy_staged();
	assert_int_equal(setrlimit(RLIMIT_AS, &low), 0);
	CUresult r = cu.cuMemcpyHtoD_v2(d, host, EARLY_BYTES);
	setrlimit(RLIMIT_AS, &old);
	OK(r);
	DEVICE_IS(d, EARLY_BYTES, 8);
	assert_int_equal(copy_staged(), staged);
	context_end();
	expect_clean("no memory", "mmap", 1);
	/* Another context has one again. */
	context_new();
	assert_int_equal(copy_checked(H2D_SYNC, 9, NULL, 0, 0), CUDA_SUCCESS);
	assert_int_equal(copy_staged() - staged, 1);
	context_end();
}

#endif

/* ---- no threads ---- */

/* libturbo gets no thread while this is set; in a process of its own, where it has none yet. */
static bool refuse_threads;
static unsigned refused;

/* A sanitizer's own, which starts each thread that it has to know; NULL in a plain build. */
int __interceptor_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *)
	__attribute__((weak));

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	Dl_info info;
	if (refuse_threads && dladdr(__builtin_return_address(0), &info) &&
		strstr(info.dli_fname, "libturbo.so")) {
		refused++;
		return EAGAIN;
	}
	real = __interceptor_pthread_create;
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
	return real(thread, attr, start, arg);
}

static int without_threads(void)
{
	copy_open();
	CUdeviceptr p;
	unsigned char *h = pages_new(BYTES, 1);
	if (cu.cuMemAlloc_v2(&p, BYTES))
		return 1;
	refuse_threads = true;
	uint64_t staged = copy_staged();
	for (uint32_t i = 0; i < 4; i++) {
		pattern_fill(h, BYTES, i);
		if (cu.cuMemcpyHtoD_v2(p, h, BYTES))
			return 2;
		memset(h, 0, BYTES);
		if (cu.cuMemcpyDtoH_v2(h, p, BYTES) || pattern_check(h, BYTES, i) != -1)
			return 3;
	}
	return copy_staged() - staged == 8 && refused ? 0 : 4;
}

static int without_threads_status;

/* Callers move all bytes themselves. */
static void no_threads_can_be_started(void **state)
{
	(void)state;
	assert_int_equal(without_threads_status, 0);
}

int main(void)
{
	copy_limit();
	if (!counters_preloaded())
		return 77;
	pid_t pid = fork(); /* before this process has a driver */
	if (pid == 0)
		_exit(without_threads());
	waitpid(pid, &without_threads_status, 0);
	copy_open();
	if (!sim.fail_set) {
		printf("needs the simulated driver\n");
		return 77;
	}
	host = pages_new(BYTES, 0);
	note_clean();
	const struct CMUnitTest tests[] = {
		STAGED(each_call_fails_once),
		STAGED(the_end_of_a_ring_fails),
		STAGED(a_function_that_always_fails),
		EITHER(an_error_that_sticks),
#ifndef SANITIZED
		EITHER(no_memory_for_a_ring),
#endif
		cmocka_unit_test(no_threads_can_be_started),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

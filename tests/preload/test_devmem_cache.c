/* ENV: TURBO_DEVMEM=cache TURBO_DEVMEM_CACHE_MB=64 TURBO_COPY=off SIM_DEVICES=2 BARE */
/*
 * cuMemAlloc and cuMemFree with a cache behind them: the program sees what it sees bare, the
 * wait in cuMemFree included, and the driver sees fewer calls.
 */
#include "common/devmem_fixture.h"
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static CUstream s;

/* ---- hits ---- */

static void freed_memory_comes_back_without_a_call(void **state)
{
	(void)state;
	static const size_t sizes[] = {1, 512, 100 * KIB, MIB, MIB + 1, 3 * MIB, 40 * MIB};
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		device_free(device_new(sizes[i]));
		uint64_t allocs = real_allocs(), frees = real_frees(), before = hits();
		for (int n = 0; n < 5; n++)
			device_free(device_new(sizes[i]));
		if (!fx.preloaded)
			continue;
		assert_int_equal(hits(), before + 5);
		assert_int_equal(real_allocs(), allocs);
		assert_int_equal(real_frees(), frees);
	}
}

/* At most an eighth is given away, and the best fit is taken. */
static void a_block_that_is_much_too_large_stays(void **state)
{
	(void)state;
	CUdeviceptr a = device_new(20 * MIB), b = device_new(18 * MIB), c;
	device_free(a);
	device_free(b);
	uint64_t before = hits();
	c = device_new(13 * MIB);
	if (fx.preloaded)
		assert_int_equal(hits(), before);
	device_free(c);
	c = device_new(17 * MIB);
	if (fx.preloaded)
		assert_int_equal(c, b);
	device_free(c);
}

static void blocks_are_distinct_and_hold_their_bytes(void **state)
{
	(void)state;
	CUdeviceptr p[12];
	for (int round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < 12; i++) {
			p[i] = device_new(64 * KIB + i);
			device_write(p[i], 64 * KIB, 100 * (uint32_t)round + i);
		}
		for (uint32_t i = 0; i < 12; i++)
			DEVICE_IS(p[i], 64 * KIB, 100 * (uint32_t)round + i);
		for (int i = 0; i < 12; i++)
			device_free(p[i]);
	}
}

/* ---- the driver's errors ---- */

static void mistakes_get_the_drivers_own_error(void **state)
{
	(void)state;
	CUdeviceptr p = 0, q = device_new(2 * MIB);
	assert_int_equal(cu.cuMemAlloc_v2(&p, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cu.cuMemAlloc_v2(NULL, 4096), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cu.cuMemAlloc_v2(&p, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cu.cuMemAlloc_v2(&p, (size_t)1 << 45), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(p, 0);
	OK(cu.cuMemFree_v2(0));
	assert_int_equal(cu.cuMemFree_v2(q + 512), CUDA_ERROR_INVALID_VALUE);
	device_free(q);
	if (fx.preloaded) /* the simulator calls it a mistake */
		assert_int_equal(cu.cuMemFree_v2(q), CUDA_ERROR_INVALID_VALUE);
	CUcontext popped;
	OK(cu.cuCtxPopCurrent_v2(&popped));
	assert_int_equal(cu.cuMemAlloc_v2(&p, 4096), CUDA_ERROR_INVALID_CONTEXT);
	OK(cu.cuCtxPushCurrent_v2(popped));
}

static void other_kinds_of_memory_are_the_drivers(void **state)
{
	(void)state;
	CUdeviceptr m, a;
	OK(cu.cuMemAllocManaged(&m, 2 * MIB, CU_MEM_ATTACH_GLOBAL));
	OK(cu.cuMemAllocAsync(&a, 2 * MIB, s));
	OK(cu.cuStreamSynchronize(s));
	uint64_t frees = real_frees();
	device_free(m);
	device_free(a);
	if (sim.calls)
		assert_int_equal(real_frees(), frees + 2);
}

static void errno_stays(void **state)
{
	(void)state;
	errno = 4711;
	for (int i = 0; i < 3; i++)
		device_free(device_new(5 * MIB));
	free_bytes();
	OK(cu.cuCtxSynchronize());
	assert_int_equal(errno, 4711);
}

/* ---- the wait ---- */

static void a_free_waits_for_the_context(void **state)
{
	(void)state;
	for (int cached = 0; cached < 2; cached++) {
		struct freeing f;
		CUdeviceptr p = device_new(6 * MIB);
		busy_begin(s);
		freeing_begin(&f, cached ? fx.ctx : NULL, p);
		sleep_ms(30);
		assert_int_equal(f.done, 0);
		/* Freed is freed, also while the first call waits. */
		if (fx.preloaded)
			assert_int_equal(cu.cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
		busy_end();
		OK(freeing_end(&f));
	}
}

static void another_threads_launches_are_not_held_up(void **state)
{
	(void)state;
	CUstream other;
	struct freeing f;
	CUdeviceptr p = device_new(6 * MIB), q = device_new(4096);
	if (!fx.preloaded) {
		device_free(p);
		device_free(q);
		return; /* the driver's cuMemFree holds them up */
	}
	OK(cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	busy_begin(s);
	freeing_begin(&f, fx.ctx, p);
	sleep_ms(20);
	OK(cu.cuMemsetD32Async(q, 1, 1024, other));
	OK(cu.cuStreamSynchronize(other));
	assert_int_equal(f.done, 0);
	busy_end();
	OK(freeing_end(&f));
	device_free(q);
	OK(cu.cuStreamDestroy_v2(other));
}

/* ---- captures, host functions, children ---- */

static void a_capture_is_left_alone(void **state)
{
	(void)state;
	static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
												CU_STREAM_CAPTURE_MODE_RELAXED};
	for (unsigned i = 0; i < 2; i++) {
		CUgraph graph;
		CUdeviceptr p = device_new(2 * MIB), q = device_new(4096), mine;
		struct freeing f;
		device_free(device_new(3 * MIB));
		OK(cu.cuStreamBeginCapture_v2(s, modes[i]));
		OK(cu.cuMemsetD32Async(q, 1, 1024, s));
		freeing_begin(&f, fx.ctx, p); /* on another thread, to which this capture is nothing */
		OK(freeing_end(&f));
		if (i == 1) { /* allowed on this one, too */
			mine = device_new(3 * MIB);
			device_free(mine);
		}
		OK(cu.cuStreamEndCapture(s, &graph));
		OK(cu.cuGraphDestroy(graph));
		device_free(q);
	}
}

static CUdeviceptr in_callback;
static CUresult callback_result;

static void free_in_callback(void *unused)
{
	(void)unused;
	callback_result = cu.cuMemFree_v2(in_callback);
}

static void a_host_function_may_not_free(void **state)
{
	(void)state;
	in_callback = device_new(2 * MIB);
	OK(cu.cuLaunchHostFunc(s, free_in_callback, NULL));
	OK(cu.cuStreamSynchronize(s));
	assert_int_equal(callback_result, CUDA_ERROR_NOT_PERMITTED);
	device_free(in_callback); /* it is the program's still */
}

static void a_child_gets_the_drivers_own_error(void **state)
{
	(void)state;
	CUdeviceptr p = device_new(2 * MIB), q;
	device_free(device_new(4 * MIB));
	uint64_t before = sim.calls_in_child ? sim.calls_in_child() : 0;
	pid_t pid = fork();
	if (pid == 0) {
		CUresult freed = cu.cuMemFree_v2(p), got = cu.cuMemAlloc_v2(&q, 4 * MIB);
		_exit(freed != CUDA_SUCCESS && got != CUDA_SUCCESS ? 42 : 1);
	}
	int status;
	waitpid(pid, &status, 0);
	assert_int_equal(WEXITSTATUS(status), 42);
	if (sim.calls_in_child)
		assert_int_equal(sim.calls_in_child() - before, 2);
	device_free(p);
}

/* ---- how much is kept ---- */

static void what_is_kept_counts_as_free(void **state)
{
	(void)state;
	size_t before = free_bytes();
	CUdeviceptr p = device_new(20 * MIB);
	assert_int_equal(free_bytes(), before - 20 * MIB);
	device_free(p);
	assert_int_equal(free_bytes(), before);
}

static void no_more_is_kept_than_may_be(void **state)
{
	(void)state;
	CUdeviceptr p[40];
	for (int i = 0; i < 40; i++)
		p[i] = device_new(4 * MIB);
	for (int i = 0; i < 40; i++) {
		device_free(p[i]);
		assert_in_range(counter("devmem.cache.bytes"), 0, 64 * MIB);
	}
	if (fx.preloaded)
		assert_in_range(counter("devmem.cache.bytes"), 60 * MIB, 64 * MIB);
	uint64_t frees = real_frees();
	device_free(device_new(65 * MIB)); /* can never be kept */
	if (sim.calls)
		assert_int_equal(real_frees(), frees + 1);
}

static uint64_t kept(void)
{
	return counter("devmem.cache.bytes");
}

static void idle_memory_goes_back(void **state)
{
	(void)state;
	device_free(device_new(8 * MIB));
	if (fx.preloaded)
		assert_true(kept() > 0);
	assert_int_equal(becomes(kept, 0, 6000), 0);
}

/* A free on any thread holds up every launch until the device is idle. */
static void nothing_goes_back_while_the_device_works(void **state)
{
	(void)state;
	CUstream other;
	CUdeviceptr q = device_new(4096);
	OK(cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	device_free(device_new(8 * MIB));
	if (dsim.reset)
		dsim.reset();
	busy_begin(s);
	for (int i = 0; i < 400; i++) {
		OK(cu.cuMemsetD32Async(q, 1, 1024, other));
		OK(cu.cuStreamSynchronize(other));
		sleep_ms(10);
	}
	if (dsim.launch_delay_ns_max)
		assert_in_range(dsim.launch_delay_ns_max(), 0, 1000000);
	if (dsim.free_waits)
		assert_int_equal(dsim.free_waits(), 0);
	if (fx.preloaded)
		assert_true(kept() > 0);
	busy_end();
	OK(cu.cuStreamSynchronize(s));
	device_free(q);
	OK(cu.cuStreamDestroy_v2(other));
}

int main(void)
{
	devmem_open();
	OK(cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	const struct CMUnitTest tests[] = {
		EITHER(freed_memory_comes_back_without_a_call),
		EITHER(a_block_that_is_much_too_large_stays),
		EITHER(blocks_are_distinct_and_hold_their_bytes),
		EITHER(mistakes_get_the_drivers_own_error),
		EITHER(other_kinds_of_memory_are_the_drivers),
		EITHER(errno_stays),
		EITHER(a_free_waits_for_the_context),
		EITHER(another_threads_launches_are_not_held_up),
		EITHER(a_capture_is_left_alone),
		EITHER(a_host_function_may_not_free),
		EITHER(a_child_gets_the_drivers_own_error),
		EITHER(what_is_kept_counts_as_free),
		EITHER(no_more_is_kept_than_may_be),
		EITHER(idle_memory_goes_back),
		EITHER(nothing_goes_back_while_the_device_works),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* ENV: TURBO_HOSTMEM=on TURBO_HOSTMEM_CACHE_MB=64 TURBO_COPY=off SIM_DEVICES=2 BARE */
/*
 * cuMemHostAlloc, cuMemAllocHost and cuMemFreeHost with a cache behind them: the program sees what it sees bare, the
 * wait in cuMemFreeHost included, and the driver sees fewer calls.
 */
#include "common/pinned_fixture.h"
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
	static const size_t sizes[] = {MIB, MIB + 1, 3 * MIB + 5, 40 * MIB};
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		pinned_free(pinned_new(sizes[i], 0));
		uint64_t allocs = pinned_real_allocs(), frees = pinned_real_frees(), before = pinned_hits();
		for (int n = 0; n < 5; n++) {
			unsigned char *p = pinned_new(sizes[i], 0);
			assert_int_equal((uintptr_t)p % 4096, 0);
			p[0] = p[sizes[i] - 1] = (unsigned char)n;
			pinned_free(p);
		}
		if (!fx.preloaded)
			continue;
		assert_int_equal(pinned_hits(), before + 5);
		assert_int_equal(pinned_real_allocs(), allocs);
		assert_int_equal(pinned_real_frees(), frees);
	}
}

static void small_blocks_are_the_drivers(void **state)
{
	(void)state;
	uint64_t frees = pinned_real_frees();
	for (int i = 0; i < 3; i++)
		pinned_free(pinned_new(64 * KIB, 0));
	if (sim.calls)
		assert_int_equal(pinned_real_frees(), frees + 3);
}

/* The driver says these of memory; so whoever asks must get what he asked for. */
static void flags_are_what_was_asked_for(void **state)
{
	(void)state;
	static const unsigned all[] = {0, CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP,
								   CU_MEMHOSTALLOC_WRITECOMBINED | CU_MEMHOSTALLOC_PORTABLE};
	unsigned first[5], again;
	void *p;
	for (int round = 0; round < 2; round++)
		for (unsigned i = 0; i < 5; i++) {
			if (i < 4)
				p = pinned_new(2 * MIB, all[i]);
			else
				OK(cu.cuMemAllocHost_v2(&p, 2 * MIB));
			OK(cu.cuMemHostGetFlags(round ? &again : &first[i], p));
			if (round)
				assert_int_equal(again, first[i]);
			pinned_free(p);
		}
}

static void a_block_that_is_much_too_large_stays(void **state)
{
	(void)state;
	void *a = pinned_new(20 * MIB, 0), *b = pinned_new(17 * MIB, 0);
	pinned_free(a);
	pinned_free(b);
	uint64_t before = pinned_hits();
	pinned_free(pinned_new(13 * MIB, 0));
	if (fx.preloaded)
		assert_int_equal(pinned_hits(), before);
	void *c = pinned_new(16 * MIB + 1, 0);
	if (fx.preloaded)
		assert_ptr_equal(c, b);
	pinned_free(c);
}

static void blocks_are_distinct_and_hold_their_bytes(void **state)
{
	(void)state;
	unsigned char *p[8];
	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < 8; i++) {
			p[i] = pinned_new(MIB + i, i & CU_MEMHOSTALLOC_PORTABLE);
			pattern_fill(p[i], MIB + i, 100 * round + i);
		}
		for (uint32_t i = 0; i < 8; i++)
			HOST_IS(p[i], MIB + i, 100 * round + i);
		for (int i = 0; i < 8; i++)
			pinned_free(p[i]);
	}
}

/* ---- what the program is told ---- */

static void freed_is_unknown(void **state)
{
	(void)state;
	unsigned char *p = pinned_new(4 * MIB, 0), local[64];
	struct pinned_said unknown = pinned_ask(local), said = pinned_ask(p);
	assert_int_equal(said.flags, CUDA_SUCCESS);
	assert_int_equal(said.device, CUDA_SUCCESS);
	pinned_free(p);
	for (size_t off = 0; off < 4 * MIB; off += MIB + 8) {
		said = pinned_ask(p + off);
		assert_memory_equal(&said, &unknown, sizeof(said));
	}
	assert_int_equal(cu.cuMemFreeHost(p), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cu.cuMemFreeHost(p + 4096), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cu.cuMemHostUnregister(p), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	unsigned one = 1;
	assert_int_equal(
		cu.cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, (CUdeviceptr)(uintptr_t)p),
		CUDA_ERROR_INVALID_VALUE);
}

static uint64_t attribute(const void *p, CUpointer_attribute which)
{
	uint64_t value = 0;
	OK(cu.cuPointerGetAttribute(&value, which, (CUdeviceptr)(uintptr_t)p));
	return value;
}

static void a_new_owner_is_told_of_his_own_block(void **state)
{
	(void)state;
	uint64_t ids[4];
	for (size_t i = 0; i < 4; i++) {
		size_t bytes = 8 * MIB - 1000 * i;
		unsigned char *p = pinned_new(bytes, 0);
		CUdeviceptr at;
		assert_int_equal(attribute(p, CU_POINTER_ATTRIBUTE_RANGE_SIZE), bytes);
		assert_int_equal(attribute(p + bytes - 1, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR), (uintptr_t)p);
		assert_int_equal(attribute(p, CU_POINTER_ATTRIBUTE_CONTEXT), (uintptr_t)fx.ctx);
		assert_int_equal((unsigned)attribute(p, CU_POINTER_ATTRIBUTE_MEMORY_TYPE), CU_MEMORYTYPE_HOST);
		OK(cu.cuMemHostGetDevicePointer_v2(&at, p + 5, 0));
		assert_int_equal(at, (uintptr_t)p + 5);
		ids[i] = attribute(p, CU_POINTER_ATTRIBUTE_BUFFER_ID);
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(ids[i], ids[k]);
		pinned_free(p);
	}
}

static void mistakes_get_the_drivers_own_error(void **state)
{
	(void)state;
	void *p = NULL, *q = pinned_new(2 * MIB, 0);
	assert_int_equal(cu.cuMemHostAlloc(NULL, 2 * MIB, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cu.cuMemHostAlloc(&p, 2 * MIB, 64), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cu.cuMemHostAlloc(&p, 2 * MIB, 0x80000000u), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cu.cuMemHostAlloc(&p, (size_t)1 << 60, 0), CUDA_ERROR_OUT_OF_MEMORY);
	assert_null(p);
	OK(cu.cuMemFreeHost(NULL));
	assert_int_equal(cu.cuMemFreeHost((char *)q + 4096), CUDA_ERROR_INVALID_VALUE);
	pinned_free(q);
	CUcontext popped;
	OK(cu.cuCtxPopCurrent_v2(&popped));
	assert_int_equal(cu.cuMemHostAlloc(&p, 2 * MIB, 0), CUDA_ERROR_INVALID_CONTEXT);
	OK(cu.cuCtxPushCurrent_v2(popped));
}

static void errno_stays(void **state)
{
	(void)state;
	errno = 4711;
	for (int i = 0; i < 3; i++)
		pinned_free(pinned_new(5 * MIB, 0));
	OK(cu.cuCtxSynchronize());
	assert_int_equal(errno, 4711);
}

/* ---- the wait ---- */

static void *looked_at;

static uint64_t flags_known(void)
{
	unsigned flags;
	return cu.cuMemHostGetFlags(&flags, looked_at) == CUDA_SUCCESS;
}

static void a_free_waits_for_the_device(void **state)
{
	(void)state;
	for (int with_context = 0; with_context < 2; with_context++) {
		struct pinned_freeing f;
		void *p = pinned_new(6 * MIB, 0);
		looked_at = p;
		busy_begin(s);
		pinned_freeing_begin(&f, with_context ? fx.ctx : NULL, p);
		/* Freed is freed, also while the first call waits. */
		if (fx.preloaded) {
			assert_int_equal(becomes(flags_known, 0, 20000), 0);
			assert_int_equal(cu.cuMemFreeHost(p), CUDA_ERROR_INVALID_VALUE);
		}
		sleep_ms(30);
		assert_int_equal(f.done, 0);
		busy_end();
		OK(pinned_freeing_end(&f));
	}
}

static void another_threads_launches_are_not_held_up(void **state)
{
	(void)state;
	CUstream other;
	struct pinned_freeing f;
	void *p = pinned_new(6 * MIB, 0);
	CUdeviceptr q = device_new(4096);
	if (!fx.preloaded) {
		pinned_free(p);
		device_free(q);
		return; /* the driver's cuMemFreeHost holds them up */
	}
	OK(cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	busy_begin(s);
	looked_at = p;
	pinned_freeing_begin(&f, fx.ctx, p);
	assert_int_equal(becomes(flags_known, 0, 20000), 0);
	OK(cu.cuMemsetD32Async(q, 1, 1024, other));
	OK(cu.cuStreamSynchronize(other));
	assert_int_equal(f.done, 0);
	busy_end();
	OK(pinned_freeing_end(&f));
	device_free(q);
	OK(cu.cuStreamDestroy_v2(other));
}

/* Pinned memory is every device's. The driver waits for the owner's alone; so what another one may still read is not
 * handed out before. */
static void another_device_may_still_use_it(void **state)
{
	(void)state;
	CUcontext second;
	CUstream there;
	if (fx.devices < 2)
		copy_skip("one device");
	OK(cu.cuDevicePrimaryCtxRetain(&second, 1));
	OK(cu.cuCtxPushCurrent_v2(second));
	OK(cu.cuStreamCreate(&there, CU_STREAM_NON_BLOCKING));
	OK(cu.cuCtxPopCurrent_v2(&second));
	void *p = pinned_new(7 * MIB, 0), *q;
	busy_begin(there);
	pinned_free(p); /* does not wait for device 1 */
	q = pinned_new(7 * MIB, 0);
	if (fx.preloaded)
		assert_ptr_not_equal(p, q);
	busy_end();
	OK(cu.cuCtxPushCurrent_v2(second));
	OK(cu.cuCtxSynchronize());
	OK(cu.cuCtxPopCurrent_v2(&second));
	uint64_t before = pinned_hits();
	void *r = pinned_new(7 * MIB, 0);
	if (fx.preloaded) {
		assert_int_equal(pinned_hits(), before + 1);
		assert_ptr_equal(r, p);
	}
	pinned_free(q);
	pinned_free(r);
	OK(cu.cuStreamDestroy_v2(there));
	OK(cu.cuDevicePrimaryCtxRelease_v2(1));
}

/* ---- captures, host functions, children ---- */

static void a_capture_is_left_alone(void **state)
{
	(void)state;
	static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
												CU_STREAM_CAPTURE_MODE_RELAXED};
	CUdeviceptr q = device_new(4096);
	for (unsigned i = 0; i < 2; i++) {
		CUgraph graph;
		void *p = pinned_new(2 * MIB, 0);
		struct pinned_freeing f;
		pinned_free(pinned_new(3 * MIB, 0));
		OK(cu.cuStreamBeginCapture_v2(s, modes[i]));
		OK(cu.cuMemsetD32Async(q, 1, 1024, s));
		pinned_freeing_begin(&f, fx.ctx, p); /* on another thread, to which this capture is nothing */
		OK(pinned_freeing_end(&f));
		if (i == 1) /* allowed on this one, too */
			pinned_free(pinned_new(3 * MIB, 0));
		OK(cu.cuStreamEndCapture(s, &graph));
		OK(cu.cuGraphDestroy(graph));
	}
	device_free(q);
}

static void *in_callback;
static CUresult callback_results[2];

static void use_in_callback(void *unused)
{
	(void)unused;
	void *p;
	callback_results[0] = cu.cuMemFreeHost(in_callback);
	callback_results[1] = cu.cuMemHostAlloc(&p, 2 * MIB, 0);
}

static void a_host_function_may_do_neither(void **state)
{
	(void)state;
	pinned_free(pinned_new(2 * MIB, 0));
	in_callback = pinned_new(4 * MIB, 0);
	OK(cu.cuLaunchHostFunc(s, use_in_callback, NULL));
	OK(cu.cuStreamSynchronize(s));
	assert_int_equal(callback_results[0], CUDA_ERROR_NOT_PERMITTED);
	assert_int_equal(callback_results[1], CUDA_ERROR_NOT_PERMITTED);
	pinned_free(in_callback); /* it is the program's still */
}

static void a_child_gets_the_drivers_own_error(void **state)
{
	(void)state;
	void *p = pinned_new(2 * MIB, 0), *q;
	pinned_free(pinned_new(4 * MIB, 0));
	uint64_t before = sim.calls_in_child ? sim.calls_in_child() : 0;
	pid_t pid = fork();
	if (pid == 0) {
		CUresult freed = cu.cuMemFreeHost(p), got = cu.cuMemHostAlloc(&q, 4 * MIB, 0);
		_exit(freed != CUDA_SUCCESS && got != CUDA_SUCCESS ? 42 : 1);
	}
	int status;
	waitpid(pid, &status, 0);
	assert_int_equal(WEXITSTATUS(status), 42);
	if (sim.calls_in_child)
		assert_int_equal(sim.calls_in_child() - before, 2);
	pinned_free(p);
}

/* ---- contexts ---- */

static void blocks_are_of_their_context(void **state)
{
	(void)state;
	CUcontext mine, popped;
	pinned_free(pinned_new(9 * MIB, 0));
	for (int i = 0; i < 2; i++) {
		OK(cu.cuCtxCreate_v2(&mine, 0, 0));
		void *p = pinned_new(9 * MIB, 0), *q;
		assert_int_equal(attribute(p, CU_POINTER_ATTRIBUTE_CONTEXT), (uintptr_t)mine);
		pinned_free(p);
		q = pinned_new(9 * MIB, 0);
		assert_int_equal(attribute(q, CU_POINTER_ATTRIBUTE_CONTEXT), (uintptr_t)mine);
		/* Its memory goes with it. */
		OK(cu.cuCtxDestroy_v2(mine));
		OK(cu.cuCtxSetCurrent(fx.ctx));
	}
	void *p = pinned_new(9 * MIB, 0);
	assert_int_equal(attribute(p, CU_POINTER_ATTRIBUTE_CONTEXT), (uintptr_t)fx.ctx);
	pinned_free(p);
	(void)popped;
}

static void a_reset_takes_all_along(void **state)
{
	(void)state;
	CUcontext second;
	void *p;
	if (fx.devices < 2)
		copy_skip("one device");
	for (int i = 0; i < 2; i++) {
		OK(cu.cuDevicePrimaryCtxRetain(&second, 1));
		OK(cu.cuCtxPushCurrent_v2(second));
		pinned_free(pinned_new(3 * MIB, 0));
		p = pinned_new(3 * MIB, 0);
		pattern_fill(p, 3 * MIB, 1);
		pinned_free(p);
		OK(cu.cuCtxPopCurrent_v2(&second));
		OK(cu.cuDevicePrimaryCtxReset_v2(1));
		assert_int_equal(cu.cuMemFreeHost(p), CUDA_ERROR_INVALID_VALUE);
		cu.cuDevicePrimaryCtxRelease_v2(1);
	}
}

/* ---- how much is kept ---- */

static void no_more_is_kept_than_may_be(void **state)
{
	(void)state;
	void *p[40];
	for (int i = 0; i < 40; i++)
		p[i] = pinned_new(4 * MIB, 0);
	for (int i = 0; i < 40; i++) {
		pinned_free(p[i]);
		assert_in_range(pinned_kept(), 0, 64 * MIB);
	}
	if (fx.preloaded)
		assert_in_range(pinned_kept(), 60 * MIB, 64 * MIB);
	uint64_t frees = pinned_real_frees();
	pinned_free(pinned_new(65 * MIB, 0)); /* can never be kept */
	if (sim.calls)
		assert_int_equal(pinned_real_frees(), frees + 1);
}

static void idle_memory_goes_back(void **state)
{
	(void)state;
	pinned_free(pinned_new(8 * MIB, 0));
	if (fx.preloaded)
		assert_true(pinned_kept() > 0);
	assert_int_equal(becomes(pinned_kept, 0, 60000), 0);
}

/* A free on any thread holds up every launch until the device is idle. */
static void nothing_goes_back_while_the_device_works(void **state)
{
	(void)state;
	CUstream other;
	CUdeviceptr q = device_new(4096);
	OK(cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	pinned_free(pinned_new(8 * MIB, 0));
	busy_begin(s);
	if (dsim.reset)
		dsim.reset();
	for (int i = 0; i < 70; i++) {
		OK(cu.cuMemsetD32Async(q, 1, 1024, other));
		OK(cu.cuStreamSynchronize(other));
		sleep_ms(100);
	}
	if (dsim.free_waits)
		assert_int_equal(dsim.free_waits(), 0);
	if (fx.preloaded)
		assert_true(pinned_kept() > 0);
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
		EITHER(small_blocks_are_the_drivers),
		EITHER(flags_are_what_was_asked_for),
		EITHER(a_block_that_is_much_too_large_stays),
		EITHER(blocks_are_distinct_and_hold_their_bytes),
		EITHER(freed_is_unknown),
		EITHER(a_new_owner_is_told_of_his_own_block),
		EITHER(mistakes_get_the_drivers_own_error),
		EITHER(errno_stays),
		EITHER(a_free_waits_for_the_device),
		EITHER(another_threads_launches_are_not_held_up),
		EITHER(another_device_may_still_use_it),
		EITHER(a_capture_is_left_alone),
		EITHER(a_host_function_may_do_neither),
		EITHER(a_child_gets_the_drivers_own_error),
		EITHER(blocks_are_of_their_context),
		EITHER(a_reset_takes_all_along),
		EITHER(no_more_is_kept_than_may_be),
		EITHER(idle_memory_goes_back),
		EITHER(nothing_goes_back_while_the_device_works),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* ENV: TURBO_DEVMEM=stream TURBO_COPY=off SIM_JITTER_US=50 BARE */
/*
 * Streams, threads and contexts that end: what was freed on them is handed out again when the
 * device is done with it, and not before.
 */
#include "common/stream_fixture.h"
#include <cmocka.h>

#include <dlfcn.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES (4 * MIB)
#define WORDS (BYTES / 4)

static void stream_is_destroyed_with_work(void **state)
{
	CUstream s = stream_new();
	(void)state;
	for (uint32_t i = 0; i < 30; i++) {
		CUstream gone = stream_new();
		CUdeviceptr p = alloc_on(gone, BYTES);
		OK(launch_spin(gone, 3));
		OK(launch_fill(gone, p, WORDS, 2 * i));
		free_on(gone, p);
		OK(cu.cuStreamDestroy_v2(gone));
		CUdeviceptr q = alloc_on(s, BYTES);
		OK(launch_fill(s, q, WORDS, 2 * i + 1));
		assert_int_equal(device_differs_word(q, BYTES, 2 * i + 1), -1);
		free_on(s, q);
	}
	OK(cu.cuStreamDestroy_v2(s));
}

/* A block outlives its stream. */
static void block_outlives_its_stream(void **state)
{
	CUstream gone = stream_new(), s = stream_new();
	(void)state;
	CUdeviceptr p = alloc_on(gone, BYTES);
	OK(launch_fill(gone, p, WORDS, 4));
	OK(cu.cuStreamDestroy_v2(gone));
	assert_int_equal(device_differs_word(p, BYTES, 4), -1);
	free_on(s, p);
	OK(cu.cuStreamDestroy_v2(s));
}

/* Thousands of streams, each used once: their memory is used again, and nothing piles up. */
static void one_shot_streams(void **state)
{
	uint64_t peak = 0;
	(void)state;
	OK(cu.cuCtxSynchronize());
	uint64_t events = sim.live_events ? sim.live_events() : 0;
	for (unsigned i = 0; i < 3000; i++) {
		CUstream s = stream_new();
		CUdeviceptr p = alloc_on(s, BYTES);
		OK(launch_fill(s, p, 64, i));
		free_on(s, p);
		OK(cu.cuStreamDestroy_v2(s));
		if (i % 64 == 63)
			OK(cu.cuCtxSynchronize());
		uint64_t now = pool_number(default_pool(0), CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
		peak = now > peak ? now : peak;
	}
	assert_true(peak < 100 * BYTES);
	if (sim.live_events)
		assert_true(sim.live_events() - events < 100);
}

static void *own_stream(void *arg)
{
	uint32_t n = (uint32_t)(uintptr_t)arg;
	CUdeviceptr p[4] = {0};
	if (cu.cuCtxSetCurrent(fx.ctx))
		return "context";
	for (uint32_t i = 0; i < 40; i++) {
		CUdeviceptr *at = &p[i % 4];
		if (*at && cu.cuMemFreeAsync_ptsz(*at, NULL))
			return "free";
		if (cu.cuMemAllocAsync_ptsz(at, BYTES, NULL))
			return "alloc";
		if (launch_fill_ptsz(NULL, *at, WORDS, n * 1000 + i))
			return "launch";
		if (i % 8 == 7 && device_differs_word(*at, BYTES, n * 1000 + i) != -1)
			return "another thread wrote into a live block";
	}
	for (unsigned i = 0; i < 4; i++)
		if (cu.cuMemFreeAsync(p[i], CU_STREAM_PER_THREAD))
			return "last free";
	return NULL; /* the stream has work, the thread is gone */
}

static void per_thread_streams(void **state)
{
	pthread_t t[8];
	void *wrong;
	(void)state;
	for (unsigned round = 0; round < 3; round++) {
		for (uintptr_t i = 0; i < 8; i++)
			assert_int_equal(pthread_create(&t[i], NULL, own_stream, (void *)(i + 1)), 0);
		for (unsigned i = 0; i < 8; i++) {
			assert_int_equal(pthread_join(t[i], &wrong), 0);
			if (wrong)
				fail_msg("%s", (char *)wrong);
		}
	}
}

static void *touch(void *arg)
{
	CUdeviceptr p;
	if (cu.cuCtxSetCurrent(fx.ctx) || cu.cuMemAllocAsync_ptsz(&p, BYTES, NULL) ||
		cu.cuMemFreeAsync_ptsz(p, NULL))
		return "failed";
	return arg;
}

/* Threads that come and go with their default streams: their memory does not pile up. */
static void threads_one_after_the_other(void **state)
{
	pthread_t t;
	void *wrong;
	(void)state;
	for (unsigned i = 0; i < 400; i++) {
		assert_int_equal(pthread_create(&t, NULL, touch, NULL), 0);
		assert_int_equal(pthread_join(t, &wrong), 0);
		assert_null(wrong);
		if (i % 16 == 15) /* the device may be slower than the threads */
			OK(cu.cuCtxSynchronize());
	}
	assert_true(pool_number(default_pool(0), CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) < 40 * BYTES);
}

static void context_is_destroyed(void **state)
{
	(void)state;
	CUdeviceptr kept = alloc_on(NULL, BYTES);
	OK(launch_fill(NULL, kept, WORDS, 11));
	OK(cu.cuCtxSynchronize());
	for (uint32_t i = 0; i < 10; i++) {
		CUcontext ctx;
		OK(cu.cuCtxCreate_v2(&ctx, 0, 0));
		CUstream s = stream_new();
		CUdeviceptr p = alloc_on(s, BYTES), q = alloc_on(NULL, BYTES);
		OK(cu.cuMemsetD32Async(p, i, WORDS, s));
		OK(cu.cuMemsetD32Async(q, i, WORDS, NULL));
		free_on(s, p);
		free_on(NULL, q);
		OK(cu.cuCtxDestroy_v2(ctx));
		OK(cu.cuCtxSetCurrent(fx.ctx));
		free_on(NULL, alloc_on(NULL, BYTES));
		/* In another stream's order now, and the other context's work is over. */
		p = alloc_on(NULL, 2 * BYTES);
		OK(launch_fill(NULL, p, 2 * WORDS, 100 + i));
		assert_int_equal(device_differs_word(p, 2 * BYTES, 100 + i), -1);
		free_on(NULL, p);
	}
	assert_int_equal(device_differs_word(kept, BYTES, 11), -1);
	free_on(NULL, kept);
	assert_true(pool_number(default_pool(0), CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) < 40 * BYTES);
}

/* In a child, where kernels of this process's context do not matter. */
static int reset_in_child(void)
{
	CUcontext ctx;
	CUdeviceptr p;
	CUstream s;
	if (cuda_dl_open())
		return 2;
	for (unsigned i = 0; i < 5; i++) {
		if (cu.cuDevicePrimaryCtxRetain(&ctx, 0) || cu.cuCtxSetCurrent(ctx) || cu.cuStreamCreate(&s, 1))
			return 3;
		for (unsigned k = 0; k < 20; k++)
			if (cu.cuMemAllocAsync(&p, BYTES, k % 2 ? s : NULL) ||
				cu.cuMemsetD32Async(p, k, WORDS, k % 2 ? s : NULL) ||
				(k % 3 && cu.cuMemFreeAsync(p, k % 2 ? s : NULL)))
				return 4;
		if (i % 2 ? cu.cuDevicePrimaryCtxRelease_v2(0) : cu.cuDevicePrimaryCtxReset_v2(0))
			return 5;
	}
	uint64_t (*errors)(void);
	*(void **)&errors = dlsym(RTLD_DEFAULT, "sim_errors");
	if (!errors)
		*(void **)&errors = dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "sim_errors");
	return errors && errors() ? 6 : 0;
}

static void fork_child_is_the_drivers(void **state)
{
	(void)state;
	CUdeviceptr p = alloc_on(NULL, BYTES);
	uint64_t calls = sim.calls_in_child ? sim.calls_in_child() : 0;
	pid_t pid = fork();
	if (pid == 0) {
		CUdeviceptr q;
		alarm(20);
		_exit(cu.cuMemAllocAsync(&q, BYTES, NULL) == CUDA_SUCCESS ||
			  cu.cuMemFreeAsync(p, NULL) == CUDA_SUCCESS);
	}
	int status = -1;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (sim.calls_in_child) { /* the program's own two */
		assert_int_equal(status, 0);
		assert_int_equal(sim.calls_in_child() - calls, 2);
	}
	free_on(NULL, p);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "reset"))
		return reset_in_child();
	stream_open();
	copy_limit();
	const struct CMUnitTest tests[] = {
		SERVED(stream_is_destroyed_with_work),
		SERVED(block_outlives_its_stream),
		SERVED(one_shot_streams),
		SERVED(per_thread_streams),
		SERVED(threads_one_after_the_other),
		SERVED(context_is_destroyed),
		SERVED(fork_child_is_the_drivers),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	pid_t pid;
	int status = 0;
	char *again[] = {argv[0], "reset", NULL};
	if (posix_spawn(&pid, argv[0], NULL, NULL, again, environ) || waitpid(pid, &status, 0) != pid || status)
		printf("a device that is reset: wait status %x\n", (unsigned)status);
	return failed || status;
}

/* ENV: TURBO_COPY=off TURBO_LOG=none SIM_DEVICES=2 SIM_MEM_MB=256 SIM_CTX_MB=2 SIM_JITTER_US=50 */
/*
 * A program that never asks for more device memory than there is does not hear that there is none, though
 * libturbo keeps what it has freed: whichever call needs the memory, while captures are live, and however its
 * threads take turns. And no more is kept than may be.
 *
 * The program runs itself once bare and once for each mode. Needs the simulated driver.
 */
#include "common/devmem_fixture.h"
#include <cmocka.h>

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCKS 128

static CUstream s;
static CUdeviceptr filler[BLOCKS];
static unsigned fillers;

/* The device is full, then 40 MiB are freed in pieces that fit nothing, with work queued before. */
static void fill_and_free(void)
{
	for (fillers = 0; fillers < BLOCKS && cu.cuMemAlloc_v2(&filler[fillers], 2 * MIB) == CUDA_SUCCESS;
		 fillers++)
		;
	assert_in_range(fillers, 60, BLOCKS - 1);
	OK(cu.cuMemsetD32Async(filler[0], 1, 1024, s));
	for (int i = 0; i < 20; i++)
		OK(cu.cuMemFree_v2(filler[--fillers]));
}

static void free_fillers(void)
{
	while (fillers)
		OK(cu.cuMemFree_v2(filler[--fillers]));
	OK(cu.cuStreamSynchronize(s));
}

static void plain(void)
{
	CUdeviceptr p;
	OK(cu.cuMemAlloc_v2(&p, 39 * MIB));
	OK(cu.cuMemFree_v2(p));
}

static void pitched(void)
{
	CUdeviceptr p;
	size_t pitch;
	OK(cu.cuMemAllocPitch_v2(&p, &pitch, 1 * MIB, 39, 4));
	OK(cu.cuMemFree_v2(p));
}

static void managed(void)
{
	CUdeviceptr p;
	OK(cu.cuMemAllocManaged(&p, 39 * MIB, CU_MEM_ATTACH_GLOBAL));
	OK(cu.cuMemFree_v2(p));
}

static void stream_ordered(void)
{
	CUdeviceptr p;
	CUmemoryPool pool;
	OK(cu.cuMemAllocAsync(&p, 32 * MIB, s));
	OK(cu.cuMemFreeAsync(p, s));
	OK(cu.cuStreamSynchronize(s));
	OK(cu.cuDeviceGetDefaultMemPool(&pool, 0));
	OK(cu.cuMemPoolTrimTo(pool, 0));
}

static void of_a_pool(void)
{
	CUdeviceptr p;
	CUmemoryPool pool;
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
							.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	OK(cu.cuMemPoolCreate(&pool, &props));
	OK(cu.cuMemAllocFromPoolAsync(&p, 32 * MIB, pool, s));
	OK(cu.cuMemFreeAsync(p, s));
	OK(cu.cuStreamSynchronize(s));
	OK(cu.cuMemPoolDestroy(pool));
}

static void physical(void)
{
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
								.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	OK(cu.cuMemCreate(&handle, 38 * MIB, &prop, 0));
	OK(cu.cuMemRelease(handle));
}

/* It takes SIM_CTX_MB. The rest goes to a kind of memory that nobody gives up. */
static void a_context(void)
{
	CUcontext ctx;
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
								.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	OK(cu.cuMemCreate(&handle, 38 * MIB, &prop, 0));
	OK(cu.cuMemFree_v2(filler[--fillers])); /* kept now */
	OK(cu.cuCtxCreate_v2(&ctx, 0, 0));
	OK(cu.cuCtxDestroy_v2(ctx));
	OK(cu.cuCtxSetCurrent(fx.ctx));
	OK(cu.cuMemRelease(handle));
}

static void every_call_gets_what_was_freed(void **state)
{
	(void)state;
	static void (*const calls[])(void) = {plain,     pitched,  managed,  stream_ordered,
										  of_a_pool, physical, a_context};
	for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		fill_and_free();
		calls[i]();
		free_fillers();
	}
}

/* What was freed is known to be no longer used: under `deferred` nobody looks while a capture is live. */
static void all_passed(void)
{
	for (int ms = 0; ms < 2000 && fx.preloaded && counter("devmem.deferred.bytes"); ms++) {
		OK(cu.cuCtxSynchronize());
		sleep_ms(1);
	}
}

static void a_capture_gets_what_was_freed(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		CUgraph graph;
		CUstream capturing;
		OK(cu.cuStreamCreate(&capturing, CU_STREAM_NON_BLOCKING));
		fill_and_free();
		all_passed();
		OK(cu.cuStreamBeginCapture_v2(capturing, CU_STREAM_CAPTURE_MODE_RELAXED));
		OK(cu.cuMemsetD32Async(filler[0], 1, 1024, capturing));
		if (i)
			plain();
		else
			physical();
		OK(cu.cuStreamEndCapture(capturing, &graph));
		OK(cu.cuGraphDestroy(graph));
		OK(cu.cuStreamDestroy_v2(capturing));
		free_fillers();
	}
}

/* ---- threads ---- */

#define THREADS 4
#define HELD 64

static size_t share;
static _Atomic unsigned failed;
static _Atomic int over;

static void *stay_within_share(void *arg)
{
	uint64_t random = (uintptr_t)arg;
	CUdeviceptr p[HELD];
	size_t bytes[HELD], held = 0;
	unsigned n = 0;
	cu.cuCtxSetCurrent(fx.ctx);
	while (!over) {
		size_t want = (1 + random_below(&random, 12)) * 2 * MIB;
		while (n && (held + want > share || n == HELD)) {
			unsigned i = (unsigned)random_below(&random, n);
			failed += cu.cuMemFree_v2(p[i]) != CUDA_SUCCESS;
			held -= bytes[i];
			p[i] = p[--n];
			bytes[i] = bytes[n];
		}
		if (cu.cuMemAlloc_v2(&p[n], want) != CUDA_SUCCESS) {
			failed++;
			continue;
		}
		cu.cuMemsetD32Async(p[n], 1, 256, s);
		held += want;
		bytes[n++] = want;
	}
	while (n)
		cu.cuMemFree_v2(p[--n]);
	return NULL;
}

static void threads_share_a_full_device(void **state)
{
	(void)state;
	pthread_t thread[THREADS];
	size_t per = free_bytes() / THREADS;
	share = per / (2 * MIB) * 2 * MIB;
	over = 0;
	failed = 0;
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, stay_within_share, (void *)(i + 1)), 0);
	sleep_ms(2500);
	over = 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(failed, 0);
}

/* A block that is larger than asked for cannot be had back: all of them together are little. */
static void what_is_given_away_is_little(void **state)
{
	(void)state;
	CUdeviceptr p[BLOCKS], rest;
	unsigned n = 0;
	while (n < BLOCKS && cu.cuMemAlloc_v2(&p[n], 20 * MIB) == CUDA_SUCCESS)
		n++;
	for (unsigned i = 0; i < n; i++) {
		OK(cu.cuMemFree_v2(p[i]));
		OK(cu.cuMemAlloc_v2(&p[i], 18 * MIB));
	}
	OK(cu.cuMemAlloc_v2(&rest, (n - 1) * 2 * MIB));
	OK(cu.cuMemFree_v2(rest));
	while (n)
		OK(cu.cuMemFree_v2(p[--n]));
}

/* Sizes that never come again, in a program that never rests: once it has asked for more, what has passed is within the bound. */
static void no_more_is_kept_than_may_be(void **state)
{
	(void)state;
	for (unsigned i = 1; i < 60; i++) {
		CUdeviceptr p = device_new(i * 2 * MIB);
		OK(cu.cuMemsetD32Async(p, 1, 1024, s));
		assert_in_range(counter("devmem.cache.bytes"), 0, 64 * MIB);
		OK(cu.cuMemFree_v2(p));
		all_passed();
	}
}

static int run(void)
{
	devmem_open();
	if (!sim.calls) {
		printf("needs the simulated driver\n");
		return 77;
	}
	OK(cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	const struct CMUnitTest tests[] = {
		EITHER(every_call_gets_what_was_freed), EITHER(a_capture_gets_what_was_freed),
		EITHER(threads_share_a_full_device),    EITHER(what_is_given_away_is_little),
		EITHER(no_more_is_kept_than_may_be),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	static const char *const modes[] = {"off", "cache", "deferred", "stream"};
	int worst = 0;
	if (argc > 1)
		return run();
	if (!counters_preloaded())
		return 77;
	for (unsigned i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		int status = 0;
		pid_t pid = fork();
		if (pid == 0) {
			setenv("TURBO_DEVMEM", modes[i], 1);
			setenv("TURBO_DEVMEM_CACHE_MB", "64", 1);
			execl("/proc/self/exe", argv[0], modes[i], (char *)NULL);
			_exit(126);
		}
		waitpid(pid, &status, 0);
		print_message("TURBO_DEVMEM=%s: status %d\n", modes[i], status);
		if (status)
			worst = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
	}
	return worst;
}

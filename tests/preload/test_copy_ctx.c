/* ENV: TURBO_DEVMEM=off TURBO_COPY_THREADS=2 TURBO_COPY_MIN_KB=64 TURBO_COPY_RING_MB=4 BARE */
/*
 * Contexts that come and go: each gets a ring of its own and gives everything back, and a
 * thousand copies leave nothing behind.
 */
#include "common/copy_fixture.h"
#include <cmocka.h>

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define BYTES (3 * MIB)

static unsigned char *host;

/* What exists in the driver, when it is the simulated one. */
struct live {
	uint64_t events, streams, registrations, allocs;
};

static struct live live_now(void)
{
	struct live l = {0};
	if (sim.live_events)
		l = (struct live){sim.live_events(), sim.live_streams(), sim.host_registrations(), sim.live_allocs()};
	return l;
}

static void live_is(struct live want)
{
	struct live l = live_now();
	assert_int_equal(l.events, want.events);
	assert_int_equal(l.streams, want.streams);
	assert_int_equal(l.registrations, want.registrations);
	assert_int_equal(l.allocs, want.allocs);
}

/* One copy each way in the current context. */
static void copies_work(uint32_t seed, bool must_stage)
{
	CUdeviceptr d = device_new(BYTES);
	uint64_t staged = copy_staged();
	pattern_fill(host, BYTES, seed);
	OK(cu.cuMemcpyHtoD_v2(d, host, BYTES));
	memset(host, 0, BYTES);
	OK(cu.cuMemcpyDtoH_v2(host, d, BYTES));
	HOST_IS(host, BYTES, seed);
	if (fx.preloaded && must_stage)
		assert_int_equal(copy_staged() - staged, 2);
	device_free(d);
}

static unsigned long resident_kib(void)
{
	unsigned long size, resident = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu %lu", &size, &resident), 2);
	fclose(f);
	return resident * 4;
}

static unsigned entries(const char *dir)
{
	unsigned n = 0;
	DIR *d = opendir(dir);
	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void contexts_one_after_the_other(void **state)
{
	(void)state;
	struct live before = live_now();
	unsigned long resident = 0;
	for (uint32_t i = 0; i < 40; i++) {
		CUcontext ctx;
		OK(cu.cuCtxCreate_v2(&ctx, 0, 0));
		copies_work(i, true);
		OK(cu.cuCtxDestroy_v2(ctx));
		OK(cu.cuCtxSetCurrent(fx.ctx));
		live_is(before);
		if (i == 10)
			resident = resident_kib();
	}
	/* A ring that stayed would be 4 MiB of each. Sanitizers keep freed memory. */
	if (!fx.san)
		assert_in_range(resident_kib(), 0, resident + 20 * 1024);
}

static void sleep_a_while(void *arg)
{
	(void)arg;
	sleep_ms(5);
}

/* A copy that may still be on its way when its context ends. */
static void a_context_with_work_in_it(void **state)
{
	(void)state;
	struct live before = live_now();
	for (uint32_t i = 0; i < 10; i++) {
		CUcontext ctx;
		CUstream s;
		CUdeviceptr d;
		OK(cu.cuCtxCreate_v2(&ctx, 0, 0));
		OK(cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
		OK(cu.cuMemAlloc_v2(&d, BYTES));
		OK(cu.cuLaunchHostFunc(s, sleep_a_while, NULL));
		OK(cu.cuMemcpyHtoDAsync_v2(d, host, i % 2 ? BYTES : EARLY_BYTES, s));
		OK(cu.cuCtxDestroy_v2(ctx));
		OK(cu.cuCtxSetCurrent(fx.ctx));
		live_is(before);
	}
	copies_work(1, true);
}

static void several_contexts_of_one_device(void **state)
{
	(void)state;
	struct live before = live_now();
	CUcontext ctx[3];
	for (int i = 0; i < 3; i++)
		OK(cu.cuCtxCreate_v2(&ctx[i], 0, 0));
	for (uint32_t i = 0; i < 12; i++) {
		OK(cu.cuCtxSetCurrent(ctx[i % 3]));
		copies_work(i, true);
	}
	/* Destroyed while another one is current. */
	OK(cu.cuCtxSetCurrent(fx.ctx));
	for (int i = 0; i < 3; i++) {
		OK(cu.cuCtxDestroy_v2(ctx[i]));
		copies_work(20 + (uint32_t)i, true);
	}
	live_is(before);
	/* Creating pushed each of them onto this thread's stack. */
	CUcontext popped;
	while (cu.cuCtxPopCurrent_v2(&popped) == CUDA_SUCCESS)
		;
	OK(cu.cuCtxSetCurrent(fx.ctx));
}

/* More contexts than there are rings: copies still work in all of them. */
static void more_contexts_than_rings(void **state)
{
	(void)state;
	enum { MANY = 40 };
	static CUcontext ctx[MANY];
	struct live before = live_now();
	for (int i = 0; i < MANY; i++) {
		CUcontext popped;
		OK(cu.cuCtxCreate_v2(&ctx[i], 0, 0));
		OK(cu.cuCtxPopCurrent_v2(&popped));
	}
	for (int i = 0; i < MANY; i++) {
		OK(cu.cuCtxSetCurrent(ctx[i]));
		copies_work((uint32_t)i, false);
	}
	OK(cu.cuCtxSetCurrent(fx.ctx));
	for (int i = 0; i < MANY; i++)
		OK(cu.cuCtxDestroy_v2(ctx[i]));
	live_is(before);
	CUcontext again;
	OK(cu.cuCtxCreate_v2(&again, 0, 0));
	copies_work(99, true);
	OK(cu.cuCtxDestroy_v2(again));
	OK(cu.cuCtxSetCurrent(fx.ctx));
}

/* Primary context of another device: reset, and released for good. */
static void a_primary_context_is_reset(void **state)
{
	(void)state;
	if (fx.devices < 2)
		copy_skip("needs two devices");
	struct live before = live_now();
	for (uint32_t i = 0; i < 6; i++) {
		CUcontext ctx;
		OK(cu.cuDevicePrimaryCtxRetain(&ctx, 1));
		OK(cu.cuCtxSetCurrent(ctx));
		copies_work(i, true);
		OK(i % 2 ? cu.cuDevicePrimaryCtxReset_v2(1) : cu.cuDevicePrimaryCtxRelease_v2(1));
		OK(cu.cuCtxSetCurrent(fx.ctx));
		live_is(before);
		copies_work(10 + i, true);
		/* A reset leaves the references. */
		if (i % 2)
			OK(cu.cuDevicePrimaryCtxRelease_v2(1));
	}
}

/* Retained twice, released once: it lives on, and so does its ring. */
static void a_primary_context_that_is_still_held(void **state)
{
	(void)state;
	CUcontext again;
	OK(cu.cuDevicePrimaryCtxRetain(&again, 0));
	assert_ptr_equal(again, fx.ctx);
	copies_work(1, true);
	uint64_t built = counter("copy.ring.bytes");
	OK(cu.cuDevicePrimaryCtxRelease_v2(0));
	copies_work(2, true);
	assert_int_equal(counter("copy.ring.bytes"), built);
	/* libturbo holds no reference of its own. */
	unsigned flags;
	int active;
	OK(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
	assert_int_equal(active, 1);
}

static _Atomic int stop;
static char thread_wrong[80];

static void *copy_main(void *arg)
{
	(void)arg;
	unsigned char *h = pages_new(BYTES, 3);
	CUdeviceptr d;
	if (cu.cuCtxSetCurrent(fx.ctx) || cu.cuMemAlloc_v2(&d, BYTES))
		return NULL;
	for (uint32_t i = 0; !stop; i++) {
		pattern_fill(h, BYTES, i);
		CUresult in = cu.cuMemcpyHtoD_v2(d, h, BYTES);
		memset(h, 0, BYTES);
		CUresult out = cu.cuMemcpyDtoH_v2(h, d, BYTES);
		if (in || out || pattern_check(h, BYTES, i) != -1) {
			snprintf(thread_wrong, sizeof(thread_wrong), "round %u: in %d, out %d", i, in, out);
			break;
		}
	}
	cu.cuMemFree_v2(d);
	pages_free(h, BYTES);
	return NULL;
}

static void contexts_end_while_others_copy(void **state)
{
	(void)state;
	pthread_t thread[2];
	stop = 0;
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, copy_main, NULL), 0);
	for (uint32_t i = 0; i < 20; i++) {
		CUcontext ctx;
		OK(cu.cuCtxCreate_v2(&ctx, 0, 0));
		copies_work(i, false);
		OK(cu.cuCtxDestroy_v2(ctx));
		OK(cu.cuCtxSetCurrent(fx.ctx));
	}
	stop = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	if (thread_wrong[0])
		fail_msg("%s", thread_wrong);
}

static void a_thousand_copies_leave_nothing(void **state)
{
	(void)state;
	CUdeviceptr d = device_new(EARLY_BYTES);
	struct live before = {0};
	unsigned long resident = 0;
	unsigned threads = 0, descriptors = 0;
	for (uint32_t i = 0; i < 1100; i++) {
		size_t n = i % 4 ? 64 * KIB + i : EARLY_BYTES;
		OK(i % 2 ? cu.cuMemcpyHtoD_v2(d, host, n) : cu.cuMemcpyDtoH_v2(host, d, n));
		if (i == 100) {
			before = live_now();
			resident = resident_kib();
			threads = entries("/proc/self/task");
			descriptors = entries("/proc/self/fd");
		}
	}
	live_is(before);
	assert_int_equal(entries("/proc/self/task"), threads);
	assert_int_equal(entries("/proc/self/fd"), descriptors);
	if (!fx.san)
		assert_in_range(resident_kib(), 0, resident + 2048);
	device_free(d);
}

int main(void)
{
	copy_limit();
	copy_open();
	host = pages_new(BYTES, 0);
	const struct CMUnitTest tests[] = {
		STAGED(contexts_one_after_the_other),   STAGED(a_context_with_work_in_it),
		STAGED(several_contexts_of_one_device), STAGED(more_contexts_than_rings),
		STAGED(a_primary_context_is_reset),     STAGED(a_primary_context_that_is_still_held),
		STAGED(contexts_end_while_others_copy), STAGED(a_thousand_copies_leave_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

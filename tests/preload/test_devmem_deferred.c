/* ENV: TURBO_DEVMEM=deferred TURBO_DEVMEM_CACHE_MB=128 TURBO_COPY=off SIM_DEVICES=2 SIM_MEM_MB=512 */
/*
 * cuMemFree that does not wait: memory comes back when the device is done with it, not before,
 * and the device's memory is never used up by what is on its way back.
 */
#include "common/devmem_fixture.h"
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static CUcontext ctx;
static CUstream s;

static uint64_t pending(void)
{
	return counter("devmem.deferred.bytes");
}

static uint64_t kept(void)
{
	return counter("devmem.cache.bytes");
}

static uint64_t kept_in_all(void)
{
	return kept() + pending();
}

/* A synchronisation records what is open; the device reports it soon after. */
static void all_passed(void)
{
	for (int ms = 0; ms < 2000 && pending(); ms++) {
		OK(cu.cuCtxSynchronize());
		sleep_ms(1);
	}
	assert_int_equal(pending(), 0);
}

static uint64_t records(void)
{
	return sim.calls ? sim.calls("cuCtxRecordEvent") : 0;
}

/* Each test has a context of its own, in which nothing is kept yet. */
static int begin(void **state)
{
	OK(cu.cuCtxCreate_v2(&ctx, 0, 0));
	OK(cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	assert_int_equal(kept_in_all(), 0);
	return copy_begin(state);
}

static int end(void **state)
{
	int r = copy_end(state);
	OK(cu.cuCtxDestroy_v2(ctx));
	return r;
}
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)

static void a_free_returns_at_once(void **state)
{
	(void)state;
	CUdeviceptr p = device_new(6 * MIB), q;
	uint64_t frees = real_frees();
	busy_begin(s);
	uint64_t since = now_ns();
	device_free(p);
	assert_in_range(now_ns() - since, 0, 2000000000ull);
	/* Freed is freed; and it is not handed out while the stream may use it. */
	assert_int_equal(real_frees(), frees);
	assert_int_equal(cu.cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	frees = real_frees();
	for (int i = 0; i < 4; i++) {
		q = device_new(6 * MIB);
		assert_int_not_equal(p, q);
		device_free(q);
	}
	assert_int_equal(real_frees(), frees);
	assert_true(pending() >= 30 * MIB);
	assert_int_equal(kept(), 0);
	busy_end();
	all_passed();
	uint64_t before = hits();
	device_free(device_new(6 * MIB));
	assert_int_equal(hits(), before + 1);
	assert_int_equal(real_frees(), frees);
}

static void memory_comes_back_when_the_stream_has_passed(void **state)
{
	(void)state;
	CUdeviceptr p = device_new(6 * MIB), q;
	busy_begin(s);
	device_free(p);
	q = device_new(6 * MIB); /* closes the batch */
	busy_end();
	OK(cu.cuStreamSynchronize(s)); /* which tells nobody of the fence */
	sleep_ms(20);
	device_free(q);
	assert_int_equal(device_new(6 * MIB), p);
	device_free(p);
}

/* 64 frees, or 64 MiB, to an event. */
static void frees_are_batched(void **state)
{
	(void)state;
	static CUdeviceptr p[256];
	for (int i = 0; i < 256; i++)
		p[i] = device_new(4096);
	busy_begin(s);
	uint64_t before = records();
	for (int i = 0; i < 256; i++)
		device_free(p[i]);
	uint64_t after = records();
	busy_end();
	if (sim.calls)
		assert_in_range(after - before, 4, 6);
	/* A few large ones. */
	for (int i = 0; i < 4; i++)
		p[i] = device_new(32 * MIB);
	busy_begin(s);
	before = records();
	for (int i = 0; i < 4; i++)
		device_free(p[i]);
	after = records();
	busy_end();
	if (sim.calls)
		assert_in_range(after - before, 2, 3);
}

/* A warm program makes no driver call but the events. */
static void a_warm_program_allocates_without_the_driver(void **state)
{
	(void)state;
	CUdeviceptr p[32];
	uint64_t allocs = 0;
	for (int round = 0; round < 40; round++) {
		for (int i = 0; i < 32; i++) {
			p[i] = device_new((size_t)(i + 1) * 64 * KIB);
			OK(cu.cuMemsetD32Async(p[i], (unsigned)round, 1024, s));
		}
		for (int i = 0; i < 32; i++)
			device_free(p[i]);
		OK(cu.cuStreamSynchronize(s));
		if (round == 20)
			allocs = real_allocs();
	}
	if (sim.calls)
		assert_in_range(real_allocs() - allocs, 0, 32);
}

/* ---- captures ---- */

static void frees_are_parked_while_a_capture_is_live(void **state)
{
	(void)state;
	static CUdeviceptr p[100];
	CUgraph graph;
	CUdeviceptr q = device_new(4096);
	for (int i = 0; i < 100; i++)
		p[i] = device_new(64 * KIB);
	OK(cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cu.cuMemsetD32Async(q, 1, 1024, s));
	uint64_t frees = real_frees(), before = records();
	for (int i = 0; i < 100; i++)
		device_free(p[i]);
	sleep_ms(600); /* the keeper's hands are bound, too */
	if (sim.calls) {
		assert_int_equal(real_frees(), frees);
		assert_int_equal(records(), before);
	}
	OK(cu.cuStreamEndCapture(s, &graph));
	OK(cu.cuGraphDestroy(graph));
	device_free(q);
	uint64_t had = hits();
	all_passed();
	for (int i = 0; i < 100; i++)
		p[i] = device_new(64 * KIB);
	assert_int_equal(hits() - had, 100);
	for (int i = 0; i < 100; i++)
		device_free(p[i]);
}

/* ---- memory runs short ---- */

static void *let_go_later(void *unused)
{
	(void)unused;
	sleep_ms(200);
	busy_end();
	return NULL;
}

/* What is on its way back is waited for rather than the program told that there is no more. */
static void an_allocation_waits_for_freed_memory(void **state)
{
	(void)state;
	pthread_t thread;
	CUdeviceptr p[4], q;
	for (int i = 0; i < 4; i++)
		p[i] = device_new(100 * MIB);
	busy_begin(s);
	for (int i = 0; i < 4; i++)
		device_free(p[i]);
	pthread_create(&thread, NULL, let_go_later, NULL);
	q = device_new(300 * MIB);
	pthread_join(thread, NULL);
	assert_true(counter("devmem.released.pressure") >= 200 * MIB);
	device_free(q);
}

/* With more pending than may be kept an allocation takes the one that fits, after a wait. */
static void more_than_may_be_kept_holds_allocations_back(void **state)
{
	(void)state;
	pthread_t thread;
	CUdeviceptr p[8];
	for (int i = 0; i < 8; i++)
		p[i] = device_new(20 * MIB);
	busy_begin(s);
	for (int i = 0; i < 8; i++)
		device_free(p[i]);
	assert_true(pending() >= 160 * MIB);
	uint64_t allocs = real_allocs(), waits = counter("devmem.deferred.waits");
	pthread_create(&thread, NULL, let_go_later, NULL);
	CUdeviceptr q = device_new(20 * MIB);
	pthread_join(thread, NULL);
	if (sim.calls)
		assert_int_equal(real_allocs(), allocs);
	assert_int_equal(counter("devmem.deferred.waits"), waits + 1);
	device_free(q);
}

/* A kernel that never ends does not hang an allocation. */
static void a_wait_is_bounded(void **state)
{
	(void)state;
	CUdeviceptr p[8];
	for (int i = 0; i < 8; i++)
		p[i] = device_new(20 * MIB);
	busy_begin(s);
	for (int i = 0; i < 8; i++)
		device_free(p[i]);
	uint64_t since = now_ns();
	CUdeviceptr q = device_new(20 * MIB);
	assert_in_range(now_ns() - since, 500000000ull, 10000000000ull);
	busy_end();
	device_free(q);
}

static void what_is_on_its_way_back_counts_as_free(void **state)
{
	(void)state;
	size_t before = free_bytes();
	CUdeviceptr p = device_new(20 * MIB);
	assert_int_equal(free_bytes(), before - 20 * MIB);
	busy_begin(s);
	device_free(p);
	assert_int_equal(free_bytes(), before);
	busy_end();
	all_passed();
	assert_int_equal(free_bytes(), before);
}

/* The program makes no call any more: the keeper closes the batch, and gives it back. */
static void idle_memory_goes_back(void **state)
{
	(void)state;
	device_free(device_new(8 * MIB));
	assert_int_equal(pending(), 8 * MIB);
	assert_int_equal(becomes(kept_in_all, 0, 8000), 0);
}

/* ---- contexts ---- */

static void a_context_takes_its_memory_along(void **state)
{
	(void)state;
	uint64_t allocs = sim.live_allocs ? sim.live_allocs() : 0,
			 events = sim.live_events ? sim.live_events() : 0;
	for (int i = 0; i < 5; i++) {
		CUcontext other;
		CUstream theirs;
		OK(cu.cuCtxCreate_v2(&other, 0, 0));
		OK(cu.cuStreamCreate(&theirs, CU_STREAM_NON_BLOCKING));
		for (int n = 0; n < 40; n++)
			device_free(device_new(MIB));
		busy_begin(theirs);
		for (int n = 0; n < 10; n++)
			device_free(device_new((size_t)(n + 2) * MIB));
		busy_end();
		OK(cu.cuCtxDestroy_v2(other));
		OK(cu.cuCtxSetCurrent(ctx));
		if (sim.live_allocs)
			assert_int_equal(sim.live_allocs(), allocs);
		if (sim.live_events)
			assert_int_equal(sim.live_events(), events);
		assert_int_equal(kept_in_all(), 0);
	}
}

/* A context with access to the memory ends while a fence of it is ahead. */
static void a_peer_ends_before_its_fence(void **state)
{
	(void)state;
	CUcontext peer;
	if (fx.devices < 2)
		copy_skip("needs two devices");
	for (int i = 0; i < 4; i++) {
		CUstream theirs;
		OK(cu.cuCtxCreate_v2(&peer, 0, 1));
		CUresult r = cu.cuCtxEnablePeerAccess(ctx, 0);
		OK(cu.cuStreamCreate(&theirs, CU_STREAM_NON_BLOCKING));
		OK(cu.cuCtxSetCurrent(ctx));
		CUdeviceptr p = device_new(6 * MIB), q;
		busy_begin(theirs);
		device_free(p);
		q = device_new(6 * MIB); /* a fence on both */
		if (r == CUDA_SUCCESS && fx.preloaded)
			assert_int_not_equal(p, q);
		device_free(q);
		busy_end();
		OK(cu.cuCtxDestroy_v2(peer));
		OK(cu.cuCtxSetCurrent(ctx));
		all_passed();
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
	device_free(in_callback);
}

int main(void)
{
	if (!counters_preloaded())
		return 77;
	devmem_open();
	const struct CMUnitTest tests[] = {
		CASE(a_free_returns_at_once),
		CASE(memory_comes_back_when_the_stream_has_passed),
		CASE(frees_are_batched),
		CASE(a_warm_program_allocates_without_the_driver),
		CASE(frees_are_parked_while_a_capture_is_live),
		CASE(an_allocation_waits_for_freed_memory),
		CASE(more_than_may_be_kept_holds_allocations_back),
		CASE(a_wait_is_bounded),
		CASE(what_is_on_its_way_back_counts_as_free),
		CASE(idle_memory_goes_back),
		CASE(a_context_takes_its_memory_along),
		CASE(a_peer_ends_before_its_fence),
		CASE(a_host_function_may_not_free),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

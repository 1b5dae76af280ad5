/* ENV: TURBO_DEVMEM_CACHE_MB=64 TURBO_COPY=off TURBO_LOG=none SIM_DEVICES=2 SIM_MEM_MB=512 BARE */
/*
 * A context whose work has failed: once the program has been told so, every allocation and every free says it, in
 * every mode, as without libturbo. What was freed before is neither lost nor waited for, and no other context is
 * disturbed. Needs the simulated driver.
 */
#include "common/devmem_fixture.h"
#include "common/modes.h"
#include <cmocka.h>

#include <stdio.h>

#define FAULT CUDA_ERROR_ILLEGAL_ADDRESS
#define REFUSED(call) assert_int_equal(call, FAULT)

static CUcontext ctx;
static CUstream s;
static uint64_t live_before;

static int begin(void **state)
{
	live_before = sim.live_allocs();
	OK(cu.cuCtxCreate_v2(&ctx, 0, 0));
	OK(cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	return copy_begin(state);
}

static int end(void **state)
{
	OK(cu.cuCtxDestroy_v2(ctx));
	OK(cu.cuCtxSetCurrent(fx.ctx));
	assert_int_equal(sim.live_allocs(), live_before);
	assert_int_equal(counter("devmem.cache.bytes") + counter("devmem.deferred.bytes"), 0);
	return copy_end(state);
}
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)

/* ---- how the program is told ---- */

static CUresult by_context(void)
{
	return cu.cuCtxSynchronize();
}

static CUresult by_stream(void)
{
	return cu.cuStreamSynchronize(s);
}

static CUresult by_copy(void)
{
	static char host[MIB];
	return cu.cuMemcpyDtoH_v2(host, 4096, sizeof(host));
}

static CUresult by_alloc(void)
{
	CUdeviceptr p;
	return cu.cuMemAlloc_v2(&p, 30 * MIB);
}

static CUresult by_event(void)
{
	CUevent e;
	OK(cu.cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	return cu.cuEventSynchronize(e);
}

static const struct way {
	const char *symbol;
	CUresult (*call)(void);
	bool passed_on; /* libturbo does not look at the answer: under `deferred` a free may succeed still */
} ways[] = {
	{"cuCtxSynchronize", by_context, false}, {"cuStreamSynchronize", by_stream, false},
	{"cuEventSynchronize", by_event, false}, {"cuMemAlloc_v2", by_alloc, false},
	{"cuMemcpyDtoH_v2", by_copy, true},
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static void fail_and_tell(const struct way *w)
{
	sim.fail_set(w->symbol, 1, FAULT);
	CUresult r = w->call();
	sim.fail_clear();
	if (r != FAULT)
		fail_msg("%s says %s", w->symbol, cuda_dl_error(r));
}

/* The second has what would serve it kept, the third was allocated before. */
static void refused_from_now_on(const struct way *w)
{
	CUdeviceptr p = device_new(2 * MIB), q = device_new(2 * MIB), x;
	device_free(device_new(4 * MIB));
	fail_and_tell(w);
	REFUSED(cu.cuMemFree_v2(p));
	REFUSED(cu.cuMemAlloc_v2(&x, 4 * MIB));
	REFUSED(cu.cuMemFree_v2(q));
	REFUSED(cu.cuMemFree_v2(p));
	REFUSED(cu.cuMemAlloc_v2(&x, 4 * MIB));
}

static void told_by_the_context(void **state)
{
	(void)state;
	refused_from_now_on(&ways[0]);
}

static void told_by_a_stream(void **state)
{
	(void)state;
	refused_from_now_on(&ways[1]);
}

static void told_by_an_event(void **state)
{
	(void)state;
	refused_from_now_on(&ways[2]);
}

static void told_by_an_allocation(void **state)
{
	(void)state;
	refused_from_now_on(&ways[3]);
}

/* ---- what was freed before ---- */

/* A dead context may hold on to it until it ends, but nobody waits for that; then it is there. */
static void what_was_freed_before(void **state)
{
	(void)state;
	CUcontext other;
	CUdeviceptr p[3], q, x = 0;
	for (size_t way = 0; way < WAYS; way++) {
		for (int i = 0; i < 3; i++)
			p[i] = device_new(100 * MIB);
		q = device_new(MIB);
		for (int i = 0; i < 3; i++)
			device_free(p[i]);
		fail_and_tell(&ways[way]);
		for (int i = 0; i < 100 && !ways[way].passed_on; i++)
			REFUSED(cu.cuMemFree_v2(q));
		OK(cu.cuCtxCreate_v2(&other, 0, 0));
		uint64_t since = now_ns();
		if (cu.cuMemAlloc_v2(&x, 300 * MIB) == CUDA_SUCCESS)
			device_free(x);
		assert_in_range(now_ns() - since, 0, 10000000000ull);
		sleep_ms(way ? 0 : 600); /* the keeper comes by */
		OK(cu.cuCtxDestroy_v2(ctx));
		OK(cu.cuCtxSetCurrent(other));
		device_free(device_new(400 * MIB));
		ctx = other;
		OK(cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	}
}

/* ---- the others ---- */

static void a_neighbour_works_on(void **state)
{
	(void)state;
	CUcontext other;
	OK(cu.cuCtxCreate_v2(&other, 0, 0));
	CUdeviceptr p = device_new(20 * MIB);
	device_free(device_new(300 * MIB));
	OK(cu.cuCtxSetCurrent(ctx));
	CUdeviceptr q = device_new(MIB);
	fail_and_tell(&ways[0]);
	REFUSED(cu.cuMemFree_v2(q));
	OK(cu.cuCtxSetCurrent(other));
	for (int i = 0; i < 5; i++) {
		device_free(p);
		device_free(device_new(400 * MIB)); /* all that was freed is there */
		p = device_new(20 * MIB);
	}
	OK(cu.cuCtxDestroy_v2(other));
	OK(cu.cuCtxSetCurrent(ctx));
}

/* The other device's context is asked once, and goes on as before. */
static void another_device_works_on(void **state)
{
	(void)state;
	CUcontext other;
	OK(cu.cuCtxCreate_v2(&other, 0, 1));
	device_free(device_new(4 * MIB));
	OK(cu.cuCtxSetCurrent(ctx));
	fail_and_tell(&ways[1]);
	OK(cu.cuCtxSetCurrent(other));
	device_free(device_new(4 * MIB));
	uint64_t before = hits(), frees = real_frees();
	device_free(device_new(4 * MIB));
	const char *mode = getenv("TURBO_DEVMEM");
	if (mode && strcmp(mode, "off")) {
		assert_int_equal(hits(), before + 1);
		assert_int_equal(real_frees(), frees);
	}
	OK(cu.cuCtxDestroy_v2(other));
	OK(cu.cuCtxSetCurrent(ctx));
}

int main(int argc, char **argv)
{
	(void)argc;
	int result = modes_main(argv);
	if (result >= 0)
		return result;
	devmem_open();
	if (!sim.fail_set) {
		printf("needs the simulated driver\n");
		return 77;
	}
	const struct CMUnitTest tests[] = {
		CASE(told_by_the_context),     CASE(told_by_a_stream),      CASE(told_by_an_event),
		CASE(told_by_an_allocation),   CASE(what_was_freed_before), CASE(a_neighbour_works_on),
		CASE(another_device_works_on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

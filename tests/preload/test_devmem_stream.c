/* ENV: TURBO_DEVMEM=stream TURBO_COPY=off SIM_JITTER_US=50 BARE */
/*
 * Stream-ordered memory: a block is handed out again as early as its stream's order allows, and
 * never earlier; what the driver refuses is refused.
 */
#include "common/stream_fixture.h"
#include <cmocka.h>

#include <pthread.h>
#include <unistd.h>

#define BYTES (3 * MIB)
#define WORDS (BYTES / 4)

static CUstream s1, s2;

static int set_up(void **state)
{
	s1 = stream_new();
	s2 = stream_new();
	return stream_begin(state);
}

static int tear_down(void **state)
{
	flag_raise();
	flag_reset();
	OK(cu.cuStreamDestroy_v2(s1));
	OK(cu.cuStreamDestroy_v2(s2));
	return stream_end(state);
}
#define STREAMS(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

static void same_stream_gets_it_at_once(void **state)
{
	(void)state;
	OK(launch_spin_flag(s1));
	CUdeviceptr p = alloc_on(s1, BYTES);
	OK(launch_fill(s1, p, WORDS, 1));
	free_on(s1, p);
	CUdeviceptr q = alloc_on(s1, BYTES);
	if (fx.preloaded)
		assert_int_equal(q, p);
	OK(launch_fill(s1, q, WORDS, 2));
	flag_raise();
	assert_int_equal(device_differs_word(q, BYTES, 2), -1);
	free_on(s1, q);
}

static void other_stream_never_gets_it_early(void **state)
{
	(void)state;
	CUdeviceptr p = alloc_on(s1, BYTES);
	for (uint32_t i = 1; i <= 20; i++) {
		OK(launch_spin(s1, 5));
		OK(launch_fill(s1, p, WORDS, i * 2));
		free_on(s1, p);
		CUdeviceptr q = alloc_on(s2, BYTES);
		OK(launch_fill(s2, q, WORDS, i * 2 + 1));
		assert_int_equal(device_differs_word(q, BYTES, i * 2 + 1), -1);
		OK(cu.cuStreamSynchronize(s2));
		p = q;
		CUstream s = s1;
		s1 = s2;
		s2 = s;
	}
	free_on(s1, p);
}

static void program_orders_streams_itself(void **state)
{
	CUevent event;
	(void)state;
	OK(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	for (uint32_t i = 0; i < 20; i++) {
		CUdeviceptr p = alloc_on(s1, BYTES);
		OK(launch_spin(s1, 1));
		OK(launch_fill(s1, p, WORDS, 7 * i));
		OK(cu.cuEventRecord(event, s1));
		OK(cu.cuStreamWaitEvent(s2, event, 0));
		OK(launch_add(s2, p, WORDS, 1));
		CUdeviceptr q = alloc_on(s2, BYTES);
		OK(launch_copy(s2, q, p, BYTES));
		free_on(s2, p); /* allocated on the other one */
		CUdeviceptr r = alloc_on(s2, BYTES);
		OK(launch_fill(s2, r, WORDS, 5));
		assert_int_equal(device_differs_word(q, BYTES, 7 * i + 1), -1);
		free_on(s2, q);
		free_on(s2, r);
	}
	OK(cu.cuEventDestroy_v2(event));
}

/* A stream that may not be made to wait is not: what it gets is free already. */
static void no_wait_without_leave(void **state)
{
	int no = 0, yes = 1;
	CUmemoryPool pool = default_pool(0);
	(void)state;
	OK(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &no));
	CUdeviceptr p = alloc_on(s1, BYTES);
	OK(launch_spin_flag(s1));
	free_on(s1, p);
	CUdeviceptr q = alloc_on(s2, BYTES);
	OK(launch_fill(s2, q, WORDS, 3));
	OK(cu.cuStreamSynchronize(s2)); /* comes back although s1 spins */
	assert_int_not_equal(q, p);
	flag_raise();
	free_on(s2, q);
	OK(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &yes));
}

static void warm_pairs_make_no_driver_call(void **state)
{
	static const size_t sizes[] = {512, 4 * KIB, 100 * KIB, MIB, 2 * MIB, 9 * MIB, 40 * MIB};
	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		uint64_t before = sim_total ? sim_total() : 0;
		for (unsigned i = 0; i < 700; i++) {
			free_on(s1, alloc_on(s1, sizes[i % 7]));
			if (!fx.preloaded)
				OK(cu.cuStreamSynchronize(s1)); /* the simulator's own pool keeps nothing */
		}
		if (fx.preloaded && sim_total && round)
			assert_int_equal(sim_total() - before, 0);
	}
	/* A default stream's handle alone does not name it. */
	for (unsigned round = 0; round < 2; round++) {
		uint64_t before = sim_total ? sim_total() - sim.calls("cuStreamGetId") : 0;
		for (unsigned i = 0; i < 700; i++) {
			free_on(NULL, alloc_on(NULL, sizes[i % 7]));
			if (!fx.preloaded)
				OK(cu.cuCtxSynchronize());
		}
		if (fx.preloaded && sim_total && round)
			assert_int_equal(sim_total() - sim.calls("cuStreamGetId") - before, 0);
	}
}

static void many_sizes_keep_their_bytes(void **state)
{
	enum { N = 200 };
	CUdeviceptr p[N];
	(void)state;
	for (unsigned i = 0; i < N; i++) {
		p[i] = alloc_on(s1, 4 * (1 + i * 977));
		OK(launch_fill(s1, p[i], 1 + i * 977, i));
	}
	for (unsigned i = 1; i < N; i += 2)
		free_on(s1, p[i]);
	for (unsigned i = 1; i < N; i += 2) {
		p[i] = alloc_on(s1, 4 * (1 + (N - i) * 977));
		OK(launch_fill(s1, p[i], 1 + (N - i) * 977, i));
	}
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(device_differs_word(p[i], 4 * (1 + (i % 2 ? N - i : i) * 977), i), -1);
	for (unsigned i = 0; i < N; i++)
		free_on(s1, p[i]);
}

/* cuMemFree returns when nothing uses the block any more. */
static void plain_free_waits(void **state)
{
	(void)state;
	CUdeviceptr p = alloc_on(s1, BYTES);
	OK(launch_spin(s1, 30));
	OK(launch_fill(s1, p, WORDS, 9));
	if (!fx.preloaded) /* the driver does not wait */
		OK(cu.cuStreamSynchronize(s1));
	OK(cu.cuMemFree_v2(p));
	assert_int_equal(cu.cuStreamQuery(s1), CUDA_SUCCESS);
	CUdeviceptr q = alloc_on(s2, BYTES);
	OK(launch_fill(s2, q, WORDS, 10));
	assert_int_equal(device_differs_word(q, BYTES, 10), -1);
	free_on(s2, q);
}

static void mistakes_get_the_drivers_error(void **state)
{
	CUdeviceptr p = alloc_on(s1, BYTES), none = 0;
	(void)state;
	assert_int_equal(cu.cuMemFreeAsync(p + 512, s1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cu.cuMemFree_v2(p + 512), CUDA_ERROR_INVALID_VALUE);
	free_on(s1, p);
	OK(cu.cuCtxSynchronize());
	if (fx.preloaded || !sim.errors) { /* bare, the simulator reports it as a mistake */
		assert_int_equal(cu.cuMemFreeAsync(p, s1), CUDA_ERROR_INVALID_VALUE);
		assert_int_equal(cu.cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	}
	OK(cu.cuMemAllocAsync(&none, 0, s1)); /* unlike cuMemAlloc: no memory, and no error */
	assert_int_equal(cu.cuMemAllocAsync(NULL, 512, s1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cu.cuMemAllocAsync(&none, (size_t)1 << 50, s1), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cu.cuMemAllocFromPoolAsync(&none, 512, NULL, s1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(none, 0);
	free_on(s1, alloc_on(s1, BYTES));
}

/* Memory that cuMemAlloc gave may be freed in stream order, as the driver allows. */
static void memory_of_other_kinds_is_the_drivers(void **state)
{
	(void)state;
	CUdeviceptr p = device_new(BYTES);
	CUresult r = cu.cuMemFreeAsync(p, s1);
	if (r != CUDA_SUCCESS)
		device_free(p);
	free_on(s1, alloc_on(s1, BYTES));
}

static void *free_it(void *p)
{
	OK(cu.cuCtxSetCurrent(fx.ctx));
	free_on(s1, *(CUdeviceptr *)p);
	return NULL;
}

static void another_thread_frees(void **state)
{
	pthread_t t;
	(void)state;
	for (uint32_t i = 0; i < 50; i++) {
		CUdeviceptr p = alloc_on(s1, BYTES);
		OK(launch_fill(s1, p, WORDS, i));
		assert_int_equal(pthread_create(&t, NULL, free_it, &p), 0);
		assert_int_equal(pthread_join(t, NULL), 0);
	}
}

int main(void)
{
	stream_open();
	copy_limit();
	const struct CMUnitTest tests[] = {
		STREAMS(same_stream_gets_it_at_once),
		STREAMS(other_stream_never_gets_it_early),
		STREAMS(program_orders_streams_itself),
		STREAMS(no_wait_without_leave),
		STREAMS(warm_pairs_make_no_driver_call),
		STREAMS(many_sizes_keep_their_bytes),
		STREAMS(plain_free_waits),
		STREAMS(mistakes_get_the_drivers_error),
		STREAMS(memory_of_other_kinds_is_the_drivers),
		STREAMS(another_thread_frees),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

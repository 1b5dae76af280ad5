/* ENV: TURBO_DEVMEM=stream TURBO_COPY=off BARE */
/*
 * Captures: what is allocated on a capturing stream belongs to the graph, and other streams allocate and
 * free meanwhile without breaking the capture, whatever its mode.
 */
#include "common/stream_fixture.h"
#include <cmocka.h>

#include <pthread.h>

#define BYTES (2 * MIB)
#define WORDS (BYTES / 4)

static const CUstreamCaptureMode modes[] = {
	CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED};

static CUstream s, s2;

static int set_up(void **state)
{
	s = stream_new();
	s2 = stream_new();
	return stream_begin(state);
}

static int tear_down(void **state)
{
	OK(cu.cuCtxSynchronize());
	OK(cu.cuStreamDestroy_v2(s));
	OK(cu.cuStreamDestroy_v2(s2));
	return stream_end(state);
}

/* Ends the capture on `from` and launches the graph twice; true when there was one. */
static void end_and_launch(CUstream from)
{
	CUgraph graph;
	CUgraphExec exec;
	OK(cu.cuStreamEndCapture(from, &graph));
	assert_non_null(graph);
	OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (unsigned i = 0; i < 2; i++)
		OK(cu.cuGraphLaunch(exec, from));
	OK(cu.cuStreamSynchronize(from));
	OK(cu.cuGraphExecDestroy(exec));
	OK(cu.cuGraphDestroy(graph));
}

static void captured_memory_is_the_graphs(void **state)
{
	(void)state;
	CUdeviceptr out = alloc_on(s, BYTES);
	for (unsigned m = 0; m < 3; m++) {
		uint64_t served = counter("devmem.stream.served");
		OK(cu.cuStreamBeginCapture_v2(s, modes[m]));
		CUdeviceptr p = alloc_on(s, BYTES);
		OK(launch_fill(s, p, WORDS, 10 + m));
		OK(launch_copy(s, out, p, BYTES));
		free_on(s, p);
		assert_int_equal(counter("devmem.stream.served"), served);
		end_and_launch(s);
		assert_int_equal(device_differs_word(out, BYTES, 10 + m), -1);
	}
	free_on(s, out);
}

/* A stream that joined the capture through an event. */
static void joined_stream_captures_too(void **state)
{
	CUevent fork, join;
	(void)state;
	OK(cu.cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
	OK(cu.cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
	CUdeviceptr out = alloc_on(s, BYTES);
	uint64_t served = counter("devmem.stream.served");
	OK(cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cu.cuEventRecord(fork, s));
	OK(cu.cuStreamWaitEvent(s2, fork, 0));
	CUdeviceptr p = alloc_on(s2, BYTES);
	OK(launch_fill(s2, p, WORDS, 3));
	OK(launch_copy(s2, out, p, BYTES));
	free_on(s2, p);
	OK(cu.cuEventRecord(join, s2));
	OK(cu.cuStreamWaitEvent(s, join, 0));
	assert_int_equal(counter("devmem.stream.served"), served);
	end_and_launch(s);
	assert_int_equal(device_differs_word(out, BYTES, 3), -1);
	free_on(s, out);
	OK(cu.cuEventDestroy_v2(fork));
	OK(cu.cuEventDestroy_v2(join));
}

/* Allocations of new sizes (new memory has to be mapped) and frees in another stream, by the thread
 * that captures. The simulator breaks the capture at any call that the driver forbids. */
static void other_streams_go_on(void **state)
{
	(void)state;
	CUdeviceptr pending = alloc_on(s2, 3 * BYTES);
	/* Bare, only the relaxed mode allows it. */
	for (unsigned m = fx.preloaded ? 0 : 2; m < 3; m++) {
		CUdeviceptr p[6], out = alloc_on(s, BYTES);
		OK(cu.cuStreamBeginCapture_v2(s, modes[m]));
		OK(launch_fill(s, out, WORDS, m));
		for (unsigned i = 0; i < 6; i++) {
			p[i] = alloc_on(i % 2 ? s2 : CU_STREAM_PER_THREAD, BYTES * (i + m + 1) + 512 * i);
			OK(launch_fill(i % 2 ? s2 : CU_STREAM_PER_THREAD, p[i], 1000, i));
		}
		free_on(s2, pending);
		for (unsigned i = 0; i < 6; i++)
			free_on(i % 2 ? s2 : CU_STREAM_PER_THREAD, p[i]);
		pending = alloc_on(s2, 3 * BYTES);
		end_and_launch(s);
		assert_int_equal(device_differs_word(out, BYTES, m), -1);
		free_on(s, out);
	}
	free_on(s2, pending);
}

static bool stop;

static void *churn(void *arg)
{
	CUstream own;
	CUdeviceptr p[8] = {0};
	uint64_t random = (uintptr_t)arg, n = 0;
	if (cu.cuCtxSetCurrent(fx.ctx) || cu.cuStreamCreate(&own, CU_STREAM_NON_BLOCKING))
		return "open";
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED) || n < 200) {
		CUdeviceptr *at = &p[random_below(&random, 8)];
		if (*at && cu.cuMemFreeAsync(*at, own))
			return "free";
		if (cu.cuMemAllocAsync(at, 512 + random_below(&random, 8 * MIB), own) ||
			launch_fill(own, *at, 100, 1))
			return "alloc";
		if (++n % 64 == 0 && cu.cuStreamSynchronize(own))
			return "synchronise";
	}
	for (unsigned i = 0; i < 8; i++)
		if (p[i] && cu.cuMemFreeAsync(p[i], own))
			return "last free";
	return cu.cuStreamDestroy_v2(own) ? "destroy" : NULL;
}

/* Streams of other threads allocate, steal, map and are destroyed while this one captures again and again. */
static void other_threads_go_on(void **state)
{
	pthread_t t[2];
	void *wrong;
	(void)state;
	stop = false;
	for (uintptr_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&t[i], NULL, churn, (void *)(i + 1)), 0);
	for (unsigned i = 0; i < 60; i++) {
		CUdeviceptr out = alloc_on(s, BYTES);
		/* Thread-local: the other threads may synchronise. */
		OK(cu.cuStreamBeginCapture_v2(s, modes[1 + i % 2]));
		OK(launch_fill(s, out, WORDS, i));
		CUdeviceptr p = alloc_on(s, BYTES);
		OK(launch_fill(s, p, WORDS, i));
		free_on(s, p);
		end_and_launch(s);
		free_on(s, out);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(pthread_join(t[i], &wrong), 0);
		if (wrong)
			fail_msg("%s", (char *)wrong);
	}
}

/* A stream is destroyed during a capture, when nothing can be recorded on it. */
static void stream_ends_during_a_capture(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 10; i++) {
		CUstream gone = stream_new();
		CUdeviceptr p = alloc_on(gone, BYTES);
		OK(launch_spin(gone, 3));
		OK(launch_fill(gone, p, WORDS, 1));
		OK(cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
		free_on(gone, p);
		OK(cu.cuStreamDestroy_v2(gone));
		CUdeviceptr q = alloc_on(s2, BYTES);
		OK(launch_fill(s2, q, WORDS, 2));
		CUgraph graph;
		OK(cu.cuStreamEndCapture(s, &graph));
		OK(cu.cuGraphDestroy(graph));
		CUdeviceptr r = alloc_on(s2, BYTES);
		OK(launch_fill(s2, r, WORDS, 3));
		assert_int_equal(device_differs_word(q, BYTES, 2), -1);
		assert_int_equal(device_differs_word(r, BYTES, 3), -1);
		free_on(s2, q);
		free_on(s2, r);
	}
}

/* Memory from outside cannot be freed by a node: the driver says so and the block lives on. */
static void frees_on_a_capturing_stream(void **state)
{
	CUgraph graph = NULL;
	(void)state;
	CUdeviceptr p = alloc_on(s, BYTES);
	OK(launch_fill(s, p, WORDS, 8));
	OK(cu.cuStreamSynchronize(s));
	OK(cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	assert_int_equal(cu.cuMemFreeAsync(p, s), CUDA_ERROR_INVALID_VALUE);
	if (cu.cuStreamEndCapture(s, &graph) == CUDA_SUCCESS)
		OK(cu.cuGraphDestroy(graph));
	assert_int_equal(device_differs_word(p, BYTES, 8), -1);
	free_on(s, p);
	copy_begin(state); /* the simulator calls it a mistake, too */
}

/* cuMemFree in relaxed mode: nothing can be waited for, so nobody gets the block yet. */
static void plain_free_during_a_capture(void **state)
{
	CUgraph graph;
	cuuint64_t used = pool_number(default_pool(0), CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		CUdeviceptr p = alloc_on(s2, BYTES);
		OK(launch_spin(s2, 2));
		OK(launch_fill(s2, p, WORDS, 1));
		OK(cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
		CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
		OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
		if (fx.preloaded)
			OK(cu.cuMemFree_v2(p));
		OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
		OK(cu.cuStreamEndCapture(s, &graph));
		OK(cu.cuGraphDestroy(graph));
		if (!fx.preloaded) { /* the driver does not wait */
			OK(cu.cuStreamSynchronize(s2));
			OK(cu.cuMemFree_v2(p));
		}
		CUdeviceptr q = alloc_on(s2, BYTES);
		OK(launch_fill(s2, q, WORDS, 2));
		assert_int_equal(device_differs_word(q, BYTES, 2), -1);
		OK(cu.cuMemFree_v2(q));
	}
	OK(cu.cuCtxSynchronize());
	if (fx.preloaded) /* the driver counts what cuMemFree freed for good */
		assert_int_equal(pool_number(default_pool(0), CU_MEMPOOL_ATTR_USED_MEM_CURRENT), used);
}

int main(void)
{
	stream_open();
	copy_limit();
#define CAPTURE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		CAPTURE(captured_memory_is_the_graphs), CAPTURE(joined_stream_captures_too),
		CAPTURE(other_streams_go_on),           CAPTURE(other_threads_go_on),
		CAPTURE(stream_ends_during_a_capture),  CAPTURE(frees_on_a_capturing_stream),
		CAPTURE(plain_free_during_a_capture),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_sim_capture.c - stream capture: what it records, and what breaks it.
 */
#include <pthread.h>

#include "common/simtest.h"

static CUdeviceptr dev;
static CUstream stream, second;
static CUevent old_event;
static unsigned char *page, *pinned;

static int setup(void **state)
{
	if (simtest_setup(state))
		return -1;
	dev = st_device(8 << 20);
	stream = st_stream(CU_STREAM_NON_BLOCKING);
	second = st_stream(CU_STREAM_NON_BLOCKING);
	old_event = st_event();
	page = malloc(8 << 20);
	pinned = st_pinned(4096);
	memset(page, 0, 8 << 20);
	return cuEventRecord(old_event, second) || cuCtxSynchronize() ? -1 : 0;
}

static int teardown(void **state)
{
	free(page);
	return cuStreamDestroy_v2(stream) || cuStreamDestroy_v2(second) || cuEventDestroy_v2(old_event) ||
				   cuMemFreeHost(pinned) || cuMemFree_v2(dev)
			   ? -1
			   : simtest_teardown(state);
}

static CUstreamCaptureStatus status(CUstream s)
{
	CUstreamCaptureStatus now;
	ok(cuStreamIsCapturing(s, &now));
	return now;
}

static CUgraphExec end_and_instantiate(CUstream s)
{
	CUgraph graph = NULL;
	CUgraphExec exec = NULL;
	ok(cuStreamEndCapture(s, &graph));
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(cuGraphDestroy(graph));
	return exec;
}

static void replays_read_the_source_again(void **state)
{
	(void)state;
	memset(page, 3, 64);
	ok(cuMemsetD8_v2(dev, 0, 64));
	ok(cuCtxSynchronize());
	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(cuMemcpyHtoDAsync_v2(dev, page, 64, stream)); /* pageable */
	ok(cuMemcpyHtoDAsync_v2(dev + 64, pinned, 64, stream));
	st_add(dev, 1, 1, stream);
	assert_int_equal(status(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
	CUgraphExec exec = end_and_instantiate(stream);
	assert_int_equal(st_byte(dev), 0); /* nothing ran yet */
	for (int i = 4; i < 7; i++) {
		memset(page, i, 64);
		memset(pinned, i + 10, 64);
		ok(cuGraphLaunch(exec, stream));
		ok(cuStreamSynchronize(stream));
		assert_int_equal(st_byte(dev), i + 1);
		assert_int_equal(st_byte(dev + 1), i);
		assert_int_equal(st_byte(dev + 64), i + 10);
	}
	ok(cuGraphExecDestroy(exec));
}

static void streams_join_through_events(void **state)
{
	(void)state;
	CUevent e = st_event();
	CUgraph graph;
	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(cuMemsetD8Async(dev, 1, 16, stream));
	ok(cuEventRecord(e, stream));
	ok(cuStreamWaitEvent(second, e, 0));
	assert_int_equal(status(second), CU_STREAM_CAPTURE_STATUS_ACTIVE);
	ok(cuMemsetD8Async(dev + 16, 2, 16, second));
	ok(cuEventRecord(e, second));
	ok(cuStreamWaitEvent(stream, e, 0));
	CUgraphExec exec = end_and_instantiate(stream);
	assert_int_equal(status(second), CU_STREAM_CAPTURE_STATUS_NONE);
	ok(cuGraphLaunch(exec, second));
	ok(cuStreamSynchronize(second));
	assert_int_equal(st_byte(dev), 1);
	assert_int_equal(st_byte(dev + 16), 2);
	ok(cuGraphExecDestroy(exec));
	/* The same without joining back. */
	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(cuEventRecord(e, stream));
	ok(cuStreamWaitEvent(second, e, 0));
	ok(cuMemsetD8Async(dev, 1, 16, second));
	fails(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
	ok(cuEventDestroy_v2(e));
}

/* Runs a call during a capture in that mode; true when it was refused and broke the capture. */
typedef CUresult call_fn(void);

static bool breaks(call_fn *call, CUstreamCaptureMode mode)
{
	CUgraph graph = NULL;
	ok(cuStreamBeginCapture_v2(stream, mode));
	CUresult result = call();
	bool broken = status(stream) == CU_STREAM_CAPTURE_STATUS_INVALIDATED;
	if (broken) {
		assert_int_equal(result, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
		fails(cuMemsetD8Async(dev, 0, 16, stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
		fails(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
		assert_null(graph);
	} else {
		ok(result);
		ok(cuStreamEndCapture(stream, &graph));
		ok(cuGraphDestroy(graph));
	}
	assert_int_equal(status(stream), CU_STREAM_CAPTURE_STATUS_NONE);
	return broken;
}

static CUdeviceptr made, ordered;
static CUresult alloc(void)
{
	return cuMemAlloc_v2(&made, 64);
}
static CUresult alloc_ordered(void)
{
	return cuMemAllocAsync(&ordered, 64, second);
}
static CUresult free_ordered(void)
{
	return cuMemFreeAsync(ordered, second);
}
static CUresult query_event(void)
{
	return cuEventQuery(old_event);
}
static CUresult wait_event(void)
{
	return cuEventSynchronize(old_event);
}
static CUresult query_other(void)
{
	return cuStreamQuery(second);
}
static CUresult wait_other(void)
{
	return cuStreamSynchronize(second);
}
static CUresult host_register(void)
{
	return cuMemHostRegister_v2(page, 4096, 0);
}
static CUresult wait_context(void)
{
	return cuCtxSynchronize();
}
static CUresult record_context(void)
{
	return cuCtxRecordEvent(st_ctx, old_event);
}
static CUresult wait_captured(void)
{
	return cuStreamSynchronize(stream);
}
static CUresult sync_copy(void)
{
	return cuMemcpyHtoD_v2(dev, page, 4096);
}
static CUresult other_copy(void)
{
	return cuMemcpyHtoDAsync_v2(dev, page, 4 << 20, second);
}
static CUresult make_event(void)
{
	CUevent e;
	CUresult r = cuEventCreate(&e, 0);
	return r ? r : cuEventDestroy_v2(e);
}

static void unsafe_calls(void **state)
{
	(void)state;
	/* The last two have their effect in the third round, each once. */
	call_fn *unsafe[] = {alloc,      query_event,   wait_event,    query_other,
						 wait_other, host_register, alloc_ordered, free_ordered};
	call_fn *always[] = {wait_context, record_context, wait_captured};
	/* Synchronous copies are not among them: the legacy stream does not touch this one. */
	call_fn *safe[] = {sync_copy, other_copy, make_event};
	for (size_t i = 0; i < sizeof unsafe / sizeof unsafe[0]; i++) {
		assert_true(breaks(unsafe[i], CU_STREAM_CAPTURE_MODE_GLOBAL));
		assert_true(breaks(unsafe[i], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
		assert_false(breaks(unsafe[i], CU_STREAM_CAPTURE_MODE_RELAXED));
	}
	ok(cuMemFree_v2(made));
	ok(cuMemHostUnregister(page));
	for (size_t i = 0; i < 3; i++) {
		assert_true(breaks(always[i], CU_STREAM_CAPTURE_MODE_GLOBAL));
		assert_true(breaks(always[i], CU_STREAM_CAPTURE_MODE_RELAXED));
		assert_false(breaks(safe[i], CU_STREAM_CAPTURE_MODE_GLOBAL));
	}
	ok(cuEventRecord(old_event, second));
	ok(cuStreamSynchronize(second));
}

struct other_thread {
	CUstreamCaptureMode mode;
	CUresult alloc, end;
};

static void *in_other_thread(void *arg)
{
	struct other_thread *o = arg;
	CUdeviceptr p = 0;
	CUgraph graph;
	ok(cuCtxSetCurrent(st_ctx));
	ok(cuThreadExchangeStreamCaptureMode(&o->mode));
	o->alloc = cuMemAlloc_v2(&p, 64);
	if (p)
		made = p;
	o->end = cuStreamEndCapture(stream, &graph);
	return NULL;
}

static void other_threads(void **state)
{
	(void)state;
	const struct {
		CUstreamCaptureMode capture, thread;
		bool refused;
	} cases[] = {
		{CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL, true},
		{CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, false},
		{CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED, false},
		{CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_GLOBAL, false},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct other_thread o = {.mode = cases[i].thread};
		CUgraph graph = NULL;
		pthread_t t;
		ok(cuStreamBeginCapture_v2(stream, cases[i].capture));
		assert_int_equal(pthread_create(&t, NULL, in_other_thread, &o), 0);
		pthread_join(t, NULL);
		fails(o.alloc, cases[i].refused ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS);
		fails(o.end, cases[i].refused ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
									  : CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
		fails(cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE); /* it is over */
		if (!cases[i].refused)
			ok(cuMemFree_v2(made));
	}
}

static void legacy_stream_breaks_a_blocking_capture(void **state)
{
	(void)state;
	CUstream s = st_stream(0);
	CUgraph graph = NULL;
	ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	fails(cuMemsetD8Async(dev, 0, 16, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	fails(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	fails(cuMemcpyHtoD_v2(dev, page, 64), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	fails(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	/* Asking is an error too, but breaks nothing. */
	CUstreamCaptureStatus now;
	ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	fails(cuStreamIsCapturing(NULL, &now), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	ok(cuStreamEndCapture(s, &graph));
	ok(cuGraphDestroy(graph));
	ok(cuStreamDestroy_v2(s));
}

static void mistakes(void **state)
{
	(void)state;
	CUgraph graph = NULL;
	CUevent e = st_event();
	fails(cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
	fails(cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_RELAXED),
		  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	fails(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_ERROR_ILLEGAL_STATE);
	ok(cuEventRecord(e, stream));
	fails(cuEventQuery(e), CUDA_ERROR_CAPTURED_EVENT);
	fails(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	ok(cuEventRecord(e, second));
	ok(cuEventSynchronize(e));
	/* Waiting for work outside. */
	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	fails(cuStreamWaitEvent(stream, e, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
	fails(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	/* Two captures meet. */
	ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	ok(cuStreamBeginCapture_v2(second, CU_STREAM_CAPTURE_MODE_RELAXED));
	ok(cuEventRecord(e, stream));
	fails(cuStreamWaitEvent(second, e, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
	fails(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	fails(cuStreamEndCapture(second, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	ok(cuEventDestroy_v2(e));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replays_read_the_source_again),
		cmocka_unit_test(streams_join_through_events),
		cmocka_unit_test(unsafe_calls),
		cmocka_unit_test(other_threads),
		cmocka_unit_test(legacy_stream_breaks_a_blocking_capture),
		cmocka_unit_test(mistakes),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}

/* ENV: TURBO_COPY_THREADS=2 TURBO_COPY_MIN_KB=64 TURBO_COPY_RING_MB=8 BARE */
/*
 * Stream captures: copies inside one become nodes as they do bare, and copies of another thread
 * neither break a capture nor are refused because of it.
 */
#include "common/copy_fixture.h"
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define BYTES (3 * MIB)

static const CUstreamCaptureMode modes[] = {
	CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED};
static CUstream s, s2;
static CUdeviceptr a, b;
static unsigned char *host;

/* Ends the capture on `from`, runs the graph with new bytes in `host`, and looks for them in
 * `dst`: a node reads its source at each launch. */
static void end_and_replay(CUstream from, CUdeviceptr dst, uint32_t seed)
{
	CUgraph graph;
	CUgraphExec exec;
	OK(cu.cuStreamEndCapture(from, &graph));
	OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (uint32_t i = 0; i < 2; i++) {
		pattern_fill(host, BYTES, seed + i);
		OK(cu.cuGraphLaunch(exec, s));
		int64_t bad = device_differs(dst, BYTES, seed + i);
		if (bad != -1)
			fail_msg("replay %u, seed %u: byte %lld", i, seed, (long long)bad);
	}
	OK(cu.cuGraphExecDestroy(exec));
	OK(cu.cuGraphDestroy(graph));
}

static void copies_become_nodes(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		uint64_t staged = copy_staged();
		pattern_fill(host, BYTES, 500);
		OK(cu.cuMemsetD8_v2(a, 0, BYTES));
		OK(cu.cuCtxSynchronize());
		OK(cu.cuStreamBeginCapture_v2(s, modes[i]));
		OK(cu.cuMemcpyHtoDAsync_v2(a, host, BYTES, s));
		OK(launch_copy(s, b, a, BYTES));
		assert_int_equal(copy_staged(), staged);
		end_and_replay(s, b, 10 * i);
		/* Out of the device, too. */
		CUgraph graph;
		CUgraphExec exec;
		OK(cu.cuStreamBeginCapture_v2(s, modes[i]));
		OK(cu.cuMemcpyDtoHAsync_v2(host, a, BYTES, s));
		OK(cu.cuStreamEndCapture(s, &graph));
		OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
		device_write(a, BYTES, 70 + i);
		OK(cu.cuGraphLaunch(exec, s));
		OK(cu.cuStreamSynchronize(s));
		HOST_IS(host, BYTES, 70 + i);
		OK(cu.cuGraphExecDestroy(exec));
		OK(cu.cuGraphDestroy(graph));
	}
}

/* The per-thread default stream, by the older begin and the per-thread ABI. */
static void other_ways_to_begin(void **state)
{
	(void)state;
	CUgraph graph;
	OK(cu.cuStreamBeginCapture(s));
	OK(cu.cuMemcpyHtoDAsync_v2(a, host, BYTES, s));
	end_and_replay(s, a, 30);
	OK(cu.cuStreamBeginCapture_v2_ptsz(NULL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	OK(cu.cuMemcpyHtoDAsync_v2_ptsz(a, host, BYTES, NULL));
	OK(cu.cuStreamEndCapture_ptsz(NULL, &graph));
	OK(cu.cuGraphDestroy(graph));
	OK(cu.cuStreamBeginCapture_v2(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	OK(cu.cuMemcpyHtoDAsync_v2(a, host, BYTES, CU_STREAM_PER_THREAD));
	end_and_replay(CU_STREAM_PER_THREAD, a, 31);
}

/* A stream that joined by an event captures as well. */
static void a_stream_that_joined(void **state)
{
	(void)state;
	CUevent fork, join;
	OK(cu.cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
	OK(cu.cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
	OK(cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cu.cuEventRecord(fork, s));
	OK(cu.cuStreamWaitEvent(s2, fork, 0));
	OK(cu.cuMemcpyHtoDAsync_v2(a, host, BYTES, s2));
	OK(cu.cuEventRecord(join, s2));
	OK(cu.cuStreamWaitEvent(s, join, 0));
	end_and_replay(s, a, 40);
	OK(cu.cuEventDestroy_v2(fork));
	OK(cu.cuEventDestroy_v2(join));
}

/* A begin that is refused leaves the capture that is there. */
static void a_refused_begin_changes_nothing(void **state)
{
	(void)state;
	OK(cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	assert_int_not_equal(cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
	OK(cu.cuMemcpyHtoDAsync_v2(a, host, BYTES, s));
	end_and_replay(s, a, 50);
}

static void *end_main(void *arg)
{
	CUgraph graph;
	if (cu.cuCtxSetCurrent(fx.ctx) == CUDA_SUCCESS)
		*(CUresult *)arg = cu.cuStreamEndCapture(s, &graph);
	return NULL;
}

/* Whatever the driver makes of it (it ends the capture), the next copy is the driver's while
 * the capture is live and nobody's afterwards. */
static void an_end_by_the_wrong_thread(void **state)
{
	(void)state;
	pthread_t thread;
	CUresult r = CUDA_SUCCESS;
	CUstreamCaptureStatus status;
	uint64_t staged = copy_staged();
	OK(cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	assert_int_equal(pthread_create(&thread, NULL, end_main, &r), 0);
	pthread_join(thread, NULL);
	assert_int_equal(r, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
	OK(cu.cuStreamIsCapturing(s, &status));
	pattern_fill(host, BYTES, 60);
	OK(cu.cuMemcpyHtoDAsync_v2(a, host, BYTES, s));
	if (status != CU_STREAM_CAPTURE_STATUS_NONE) {
		assert_int_equal(copy_staged(), staged);
		end_and_replay(s, a, 60);
	} else {
		DEVICE_IS(a, BYTES, 60);
		if (fx.preloaded)
			assert_int_equal(copy_staged() - staged, 1);
	}
}

/* However a capture ends, copies are staged again afterwards. */
static void staged_again(uint32_t seed)
{
	uint64_t staged = copy_staged();
	pattern_fill(host, BYTES, seed);
	OK(cu.cuMemcpyHtoD_v2(a, host, BYTES));
	DEVICE_IS(a, BYTES, seed);
	if (fx.preloaded)
		assert_int_equal(copy_staged() - staged, 1);
}

static void staged_again_after_any_end(void **state)
{
	(void)state;
	CUgraph graph;
	staged_again(1);
	OK(cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cu.cuStreamEndCapture(s, &graph));
	OK(cu.cuGraphDestroy(graph));
	staged_again(2);
	/* A stream destroyed while it captures. */
	CUstream gone;
	OK(cu.cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING));
	OK(cu.cuStreamBeginCapture_v2(gone, CU_STREAM_CAPTURE_MODE_RELAXED));
	cu.cuStreamDestroy_v2(gone);
	staged_again(3);
	/* A capture that is broken, then ended. */
	OK(cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	assert_int_not_equal(cu.cuStreamQuery(s), CUDA_SUCCESS);
	assert_int_equal(cu.cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	staged_again(4);
	/* A begin that fails for good. */
	assert_int_not_equal(cu.cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
	staged_again(5);
}

/* More captures at a time than anybody lists, begun and ended, or refused. */
static void staged_again_after_many_captures(void **state)
{
	(void)state;
	enum { MANY = 150 };
	CUstream streams[MANY];
	CUgraph graph;
	for (unsigned i = 0; i < MANY; i++) {
		OK(cu.cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
		OK(cu.cuStreamBeginCapture_v2(streams[i], CU_STREAM_CAPTURE_MODE_RELAXED));
	}
	assert_int_not_equal(cu.cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
	uint64_t staged = copy_staged();
	for (unsigned i = 0; i < MANY; i++) {
		OK(cu.cuMemcpyHtoDAsync_v2(a, host, BYTES, s));
		OK(cu.cuStreamEndCapture(streams[i], &graph));
		OK(cu.cuGraphDestroy(graph));
		OK(cu.cuStreamDestroy_v2(streams[i]));
	}
	assert_int_equal(copy_staged(), staged);
	staged_again(20);
}

/* A context that cannot end takes no capture with it, also not one that was begun by a thread
 * without a context. */
static void no_context_is_gone(void **state)
{
	(void)state;
	CUgraph graph;
	OK(cu.cuCtxSetCurrent(NULL));
	CUresult r = cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED);
	OK(cu.cuCtxSetCurrent(fx.ctx));
	if (r != CUDA_SUCCESS)
		copy_skip("the driver begins no capture without a context");
	assert_int_not_equal(cu.cuCtxDestroy_v2(NULL), CUDA_SUCCESS);
	OK(cu.cuMemcpyHtoDAsync_v2(a, host, BYTES, s2));
	OK(cu.cuStreamEndCapture(s, &graph));
	OK(cu.cuGraphDestroy(graph));
}

/* A context that ends with a capture live in it. */
static void staged_again_after_a_context_is_gone(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		CUcontext ctx;
		CUstream gone;
		OK(cu.cuCtxCreate_v2(&ctx, 0, 0));
		OK(cu.cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING));
		OK(cu.cuStreamBeginCapture_v2(gone, modes[i]));
		OK(cu.cuCtxDestroy_v2(ctx));
		OK(cu.cuCtxSetCurrent(fx.ctx));
		staged_again(i + 10);
	}
}

/* ---- another thread captures ---- */

static _Atomic int stop;
static char capture_wrong[120];
static _Atomic unsigned captures_made;

/* Captures, instantiates and launches a graph again and again; any error means that a copy of
 * another thread broke it. */
static void *capture_main(void *arg)
{
	CUstreamCaptureMode mode = *(const CUstreamCaptureMode *)arg;
	CUdeviceptr p;
	CUstream own;
	if (cu.cuCtxSetCurrent(fx.ctx) || cu.cuStreamCreate(&own, CU_STREAM_NON_BLOCKING) ||
		cu.cuMemAlloc_v2(&p, 4096))
		return NULL;
	while (!stop && !capture_wrong[0]) {
		CUgraph graph = NULL;
		CUresult begin = cu.cuStreamBeginCapture_v2(own, mode),
				 fill = launch_fill(own, p, 1024, captures_made);
		if (captures_made % 3 == 0)
			usleep(300);
		CUresult end = cu.cuStreamEndCapture(own, &graph);
		if (begin || fill || end || cu.cuGraphDestroy(graph))
			snprintf(capture_wrong, sizeof(capture_wrong), "capture %u, mode %d: begin %d, launch %d, end %d",
					 captures_made, mode, begin, fill, end);
		captures_made++;
		if (captures_made % 4 == 0)
			usleep(400); /* time for copies to be staged between captures */
	}
	cu.cuMemFree_v2(p);
	cu.cuStreamDestroy_v2(own);
	return NULL;
}

static void capture_elsewhere(CUstreamCaptureMode mode)
{
	pthread_t thread;
	unsigned char *back = pages_new(BYTES, 0);
	/* Nothing but asynchronous calls: a synchronous one may not be made bare either. */
	stop = 0;
	captures_made = 0;
	capture_wrong[0] = 0;
	assert_int_equal(pthread_create(&thread, NULL, capture_main, &mode), 0);
	int64_t bad = -1;
	CUresult r = CUDA_SUCCESS;
	for (uint32_t i = 0;
		 (i < 60 || captures_made < 60) && bad == -1 && r == CUDA_SUCCESS && !capture_wrong[0]; i++) {
		size_t n = i % 3 ? BYTES : 512 * KIB;
		pattern_fill(host, n, i);
		r = cu.cuMemcpyHtoDAsync_v2(a, host, n, s);
		memset(host, 0, n);
		if (r == CUDA_SUCCESS)
			r = cu.cuMemcpyDtoHAsync_v2(back, a, n, s);
		bad = pattern_check(back, n, i);
	}
	stop = 1;
	pthread_join(thread, NULL);
	if (capture_wrong[0])
		fail_msg("%s", capture_wrong);
	OK(r);
	assert_int_equal(bad, -1);
	pages_free(back, BYTES);
}

static void global_in_another_thread(void **state)
{
	(void)state;
	capture_elsewhere(CU_STREAM_CAPTURE_MODE_GLOBAL);
}

static void thread_local_in_another_thread(void **state)
{
	(void)state;
	capture_elsewhere(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

static void relaxed_in_another_thread(void **state)
{
	(void)state;
	capture_elsewhere(CU_STREAM_CAPTURE_MODE_RELAXED);
}

/* The first copy of a context builds its ring; it must not break a capture either. A capture of
 * another thread begins at any moment of it. */
static void the_first_copy_of_a_context(void **state)
{
	(void)state;
	CUstreamCaptureMode mode, theirs = CU_STREAM_CAPTURE_MODE_GLOBAL,
							  relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
	pthread_t thread;
	stop = 0;
	captures_made = 0;
	capture_wrong[0] = 0;
	/* This thread's own set-up may not break the other's captures either. */
	OK(cu.cuThreadExchangeStreamCaptureMode(&relaxed));
	assert_int_equal(pthread_create(&thread, NULL, capture_main, &theirs), 0);
	for (uint32_t i = 0; i < 30 && !capture_wrong[0]; i++) {
		CUcontext ctx;
		CUdeviceptr d;
		OK(cu.cuCtxCreate_v2(&ctx, 0, 0));
		OK(cu.cuMemAlloc_v2(&d, BYTES));
		mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
		OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
		CUresult r = cu.cuMemcpyHtoDAsync_v2(d, host, BYTES, CU_STREAM_PER_THREAD);
		OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
		assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
		OK(r);
		/* And the end of the context, which gives the ring back. */
		mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
		OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
		r = cu.cuCtxDestroy_v2(ctx);
		OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
		OK(r);
		OK(cu.cuCtxSetCurrent(fx.ctx));
	}
	stop = 1;
	pthread_join(thread, NULL);
	OK(cu.cuThreadExchangeStreamCaptureMode(&relaxed));
	if (capture_wrong[0])
		fail_msg("%s", capture_wrong);
}

int main(void)
{
	copy_limit();
	copy_open();
	if (cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) || cu.cuStreamCreate(&s2, CU_STREAM_NON_BLOCKING) ||
		cu.cuMemAlloc_v2(&a, BYTES) || cu.cuMemAlloc_v2(&b, BYTES))
		return 1;
	host = pages_new(BYTES, 1);
	const struct CMUnitTest tests[] = {
		PASSED(copies_become_nodes),
		PASSED(other_ways_to_begin),
		PASSED(a_stream_that_joined),
		PASSED(a_refused_begin_changes_nothing),
		EITHER(an_end_by_the_wrong_thread),
		STAGED(staged_again_after_any_end),
		STAGED(staged_again_after_many_captures),
		PASSED(no_context_is_gone),
		STAGED(staged_again_after_a_context_is_gone),
		STAGED(global_in_another_thread),
		STAGED(thread_local_in_another_thread),
		STAGED(relaxed_in_another_thread),
		EITHER(the_first_copy_of_a_context),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

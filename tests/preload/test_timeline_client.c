/* LINK: cuda cupti   ENV: TURBO_TIMELINE=kernel TURBO_TIMELINE_MB=4 TURBO_LOG=warn   SAN: thread   BARE
 *
 * test_timeline_client.c - a profiler inside the program records what it would without libturbo's timeline:
 * before it, in between, again and again, and it never gets anything that is not its own.
 */
#define __CUDA_API_VERSION_INTERNAL /* every symbol under its own name */
#include <cuda.h>

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/counters.h"
#include "common/timeline_dir.h"
#include "test_timeline_client.h"
#include "tests/gpu/kernels_ptx.h"

#define ok(call) assert_int_equal((call), CUDA_SUCCESS)
#define STREAMS 3
#define STEPS 40
#define NODES 6
#define GRAPH_STEPS 10 /* every so many-th step launches the graph */
#define PROFILED 5     /* grids tell kernels of sessions from others */
#define UNPROFILED 7
#define WORDS 256
#define THREADS 2
#define SLEEP_US 100000
#define AGAIN_S 8 /* within this time after a session libturbo records again */

static CUcontext ctx;
static CUfunction fill32;
static CUstream stream[STREAMS];
static CUdeviceptr dev;
static void *pinned;
static CUgraphExec graph;
static bool stop; /* atomic */

static void launch(CUstream s, unsigned grid)
{
	uint64_t words = WORDS;
	uint32_t value = 1;
	void *args[] = {&dev, &words, &value};
	ok(cuLaunchKernel(fill32, grid, 1, 1, 32, 1, 1, 0, s, args, NULL));
}

static CUgraphExec graph_make(void)
{
	CUgraph g = NULL;
	CUgraphExec exec = NULL;
	ok(cuStreamBeginCapture_v2(stream[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	for (int i = 0; i < NODES; i++)
		launch(stream[0], PROFILED);
	ok(cuStreamEndCapture(stream[0], &g));
	ok(cuGraphInstantiateWithFlags(&exec, g, 0));
	ok(cuGraphDestroy(g));
	return exec;
}

static int setup(void **state)
{
	CUmodule module;
	(void)state;
	client_subscribe(); /* as torch.profiler does when it is loaded, before CUDA is used */
	client_unsubscribe();
	ok(cuInit(0));
	ok(cuDevicePrimaryCtxRetain(&ctx, 0));
	ok(cuCtxSetCurrent(ctx));
	ok(cuModuleLoadData(&module, kernels_ptx));
	ok(cuModuleGetFunction(&fill32, module, "fill32"));
	for (int i = 0; i < STREAMS; i++)
		ok(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
	ok(cuMemAlloc_v2(&dev, WORDS * 4 + STEPS));
	ok(cuMemHostAlloc(&pinned, WORDS * 4 + STEPS, 0));
	graph = graph_make();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ok(cuGraphExecDestroy(graph));
	ok(cuMemFreeHost(pinned));
	ok(cuMemFree_v2(dev));
	for (int i = 0; i < STREAMS; i++)
		ok(cuStreamDestroy_v2(stream[i]));
	ok(cuDevicePrimaryCtxRelease_v2(0));
	return 0;
}

/* What a session records. */
static void work(void)
{
	for (int i = 0; i < STEPS; i++) {
		CUstream s = stream[i % STREAMS];
		assert_int_equal(cupti.cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0,
																	  (uint64_t)i + 1),
						 CUPTI_SUCCESS);
		launch(s, PROFILED);
		assert_int_equal(
			cupti.cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, NULL),
			CUPTI_SUCCESS);
		ok(cuMemcpyHtoDAsync_v2(dev, pinned, WORDS * 4 + (size_t)i, s));
		ok(cuMemsetD8Async(dev, 0, 64, s));
		if (i % GRAPH_STEPS == 0)
			ok(cuGraphLaunch(graph, s));
	}
	for (int i = 0; i < STREAMS; i++)
		ok(cuStreamSynchronize(stream[i]));
}

/* A graph that was launched before CUPTI was detached must not be launched after. */
static void graph_remake(void)
{
	ok(cuGraphExecDestroy(graph));
	graph = graph_make();
}

static void other_work(void)
{
	for (int i = 0; i < 200; i++)
		launch(stream[i % STREAMS], UNPROFILED);
	ok(cuCtxSynchronize());
}

/* Preloaded: libturbo records, so that what follows interrupts it. Its kinds show in the simulated CUPTI; a real
 * one is given the time. */
static void recording_again(void)
{
	int (*enabled)(uint32_t) = NULL;
	if (!counters_preloaded())
		return;
	*(void **)&enabled = dlsym(RTLD_DEFAULT, "sim_cupti_enabled");
	for (int i = 0; i < AGAIN_S * 20; i++) {
		if (enabled && enabled(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL))
			return;
		launch(stream[0], UNPROFILED);
		usleep(50000);
	}
	assert_null(enabled);
}

static void session_is_whole(void)
{
	const int nodes = STEPS / GRAPH_STEPS * NODES;
	assert_int_equal(session.strangers, 0);
	assert_int_equal(session.missing, 0);
	assert_int_equal(session.dropped, 0);
	assert_int_equal(client_of_grid(PROFILED), STEPS + nodes);
	assert_int_equal(client_in_graphs(), nodes);
	assert_int_equal(client_doubles(), 0);
	assert_int_equal(session.empty, 0);
	assert_int_equal(session.orphans, 0);
	assert_int_equal(session.disordered, 0);
	assert_int_equal(session.copies, STEPS);
	assert_int_equal(session.copied_bytes, STEPS * WORDS * 4 + STEPS * (STEPS - 1) / 2);
	assert_int_equal(session.memsets, STEPS);
	assert_int_equal(session.external_sum, STEPS * (STEPS + 1) / 2);
	assert_int_equal(session.externals, STEPS);
}

static void one_session(void)
{
	client_start();
	work();
	client_stop();
	session_is_whole();
	assert_int_equal(client_of_grid(UNPROFILED), 0);
	assert_int_equal(session.launches, STEPS);
	assert_int_equal(session.callbacks, STEPS);
	assert_int_equal(session.waits, STREAMS);
}

static void from_the_start(void **state)
{
	(void)state;
	client_subscribe();
	one_session();
	client_unsubscribe();
}

static void again_and_again(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		other_work();
		if (i == 10)
			recording_again();
		client_subscribe();
		one_session();
		client_unsubscribe();
	}
}

static void with_a_lasting_subscription(void **state)
{
	(void)state;
	client_subscribe();
	for (int i = 0; i < 5; i++) {
		other_work();
		if (i == 3)
			recording_again(); /* torch.profiler's subscription lasts */
		one_session();
		usleep(SLEEP_US);
	}
	client_unsubscribe();
}

/* The beginning of a session meets work that is under way. */
static void amid_work_under_way(void **state)
{
	(void)state;
	for (int i = 0; i < 6; i++) {
		if (i == 3)
			recording_again();
		for (int j = 0; j < 100; j++)
			launch(stream[j % STREAMS], UNPROFILED);
		client_subscribe();
		client_start();
		ok(cuCtxSynchronize());
		work();
		client_stop();
		client_unsubscribe();
		session_is_whole();
	}
}

static void *launcher(void *arg)
{
	CUstream s = NULL;
	(void)arg;
	ok(cuCtxSetCurrent(ctx));
	ok(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		launch(s, UNPROFILED);
		usleep(200);
	}
	ok(cuStreamSynchronize(s));
	ok(cuStreamDestroy_v2(s));
	return NULL;
}

static void while_other_threads_launch(void **state)
{
	pthread_t threads[THREADS];
	(void)state;
	__atomic_store_n(&stop, false, __ATOMIC_RELEASE);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, launcher, NULL), 0);
	for (int i = 0; i < 10; i++) {
		if (i % 5 == 0)
			recording_again();
		client_subscribe();
		client_start();
		work();
		ok(cuCtxSynchronize());
		client_stop();
		client_unsubscribe();
		/* A thread may have asked for a buffer since the flush: it comes with the next one. */
		assert_in_range(session.missing, 0, THREADS);
		assert_int_equal(session.strangers, 0);
		assert_int_equal(session.dropped, 0);
		assert_int_equal(client_of_grid(PROFILED), STEPS + STEPS / GRAPH_STEPS * NODES);
		assert_int_equal(session.copies, STEPS);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	client_subscribe();
	one_session();
	client_unsubscribe();
}

static void a_second_profiler_is_refused(void **state)
{
	CUpti_SubscriberHandle other = NULL;
	(void)state;
	client_subscribe();
	assert_int_equal(cupti.cuptiSubscribe(&other, NULL, NULL),
					 CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
	client_unsubscribe();
	assert_int_equal(cupti.cuptiUnsubscribe(other), CUPTI_ERROR_INVALID_PARAMETER);
}

static void kinds_that_stay_enabled(void **state)
{
	(void)state;
	recording_again();
	client_subscribe();
	client_keep_kinds(true);
	one_session();
	usleep(SLEEP_US);
	client_keep_kinds(false);
	one_session();
	client_unsubscribe();
}

static void launch_one(void)
{
	launch(stream[0], UNPROFILED);
}

static void a_teardown_and_a_new_session(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		if (i == 2)
			recording_again();
		client_subscribe();
		one_session();
		client_teardown(launch_one);
		graph_remake();
		other_work();
		usleep(SLEEP_US);
	}
	client_subscribe();
	one_session();
	client_unsubscribe();
}

static void found_by_dlsym(void **state)
{
	(void)state;
	cupti_by_dlsym();
	recording_again();
	client_subscribe();
	one_session();
	client_unsubscribe();
	usleep(SLEEP_US);
	client_subscribe();
	one_session();
	client_teardown(launch_one);
	graph_remake();
	other_work();
	cupti_by_link();
}

/* Last: CUPTI has no way back to its own clock. */
static void with_a_clock_of_its_own(void **state)
{
	(void)state;
	client_use_own_clock();
	for (int i = 0; i < 2; i++) {
		recording_again();
		client_subscribe();
		one_session();
		client_unsubscribe();
		other_work();
	}
}

/* Of either simulator; a real one counts none. */
static uint64_t mistakes(const char *counter)
{
	uint64_t (*count)(void) = NULL;
	*(void **)&count = dlsym(RTLD_DEFAULT, counter);
	return count ? count() : 0;
}

static void nobody_made_a_mistake(void **state)
{
	(void)state;
	assert_int_equal(mistakes("sim_cupti_errors"), 0);
	assert_int_equal(mistakes("sim_errors"), 0);
}

int main(int argc, char **argv)
{
	int status;
	(void)argc;
	if (!timeline_dir_enter(argv, &status))
		return status;
	cupti_by_link();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(from_the_start),
		cmocka_unit_test(again_and_again),
		cmocka_unit_test(with_a_lasting_subscription),
		cmocka_unit_test(amid_work_under_way),
		cmocka_unit_test(while_other_threads_launch),
		cmocka_unit_test(a_second_profiler_is_refused),
		cmocka_unit_test(kinds_that_stay_enabled),
		cmocka_unit_test(a_teardown_and_a_new_session),
		cmocka_unit_test(found_by_dlsym),
		cmocka_unit_test(with_a_clock_of_its_own),
		cmocka_unit_test(nobody_made_a_mistake),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}

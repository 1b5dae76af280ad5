/* LINK: cupti
 *
 * test_sim_cupti_mistakes.c - the simulated CUPTI finds mistakes of its client.
 */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/simtest.h"
#include "sim.h"
#include "sim_cupti.h"
#include "tests/gpu/common/cupti_client.h"

#define cupti_ok(call) assert_int_equal((call), CUPTI_SUCCESS)
#define KERNEL CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL

static const uint32_t kernels[] = {KERNEL, 0};
static CUdeviceptr dev;

static int setup(void **state)
{
	if (simtest_setup(state))
		return -1;
	dev = st_device(4096);
	return 0;
}

static int teardown(void **state)
{
	ok(cuMemFree_v2(dev));
	return simtest_teardown(state);
}

static void launch(int times)
{
	for (int i = 0; i < times; i++)
		st_fill(dev, 1, 1, NULL);
	ok(cuCtxSynchronize());
}

static CUptiResult inside_request, inside_complete;

static void bad_requested(uint8_t **buffer, size_t *size, size_t *max)
{
	*buffer = aligned_alloc(64, 65536);
	*size = 65536;
	*max = 0;
	inside_request = cuptiActivityFlushAll(0);
}

static void bad_completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	(void)context;
	(void)stream;
	(void)size;
	(void)valid;
	inside_complete = cuptiActivityFlushAll(0);
	assert_int_equal(cuptiFinalize(), CUPTI_ERROR_INVALID_OPERATION);
	free(buffer);
}

static void small_requested(uint8_t **buffer, size_t *size, size_t *max)
{
	*buffer = aligned_alloc(64, 64);
	*size = 64;
	*max = 0;
}

static void dirty_requested(uint8_t **buffer, size_t *size, size_t *max)
{
	*buffer = aligned_alloc(64, 4096);
	memset(*buffer, 1, 4096);
	*size = 4096;
	*max = 0;
}

static void plain_completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	(void)context;
	(void)stream;
	(void)size;
	(void)valid;
	free(buffer);
}

/* Mistakes of a run with these callbacks. */
static uint64_t mistakes(CUpti_BuffersCallbackRequestFunc requested,
						 CUpti_BuffersCallbackCompleteFunc completed)
{
	uint64_t before = sim_cupti_errors();
	cupti_ok(cuptiActivityRegisterCallbacks(requested, completed));
	cupti_ok(cuptiActivityEnable(KERNEL));
	launch(1);
	cupti_ok(cuptiActivityFlushAll(1));
	cupti_ok(cuptiActivityDisable(KERNEL));
	return sim_cupti_errors() - before;
}

static void calls_in_buffer_callbacks_are_mistakes(void **state)
{
	(void)state;
	assert_int_equal(mistakes(bad_requested, bad_completed), 3);
	assert_int_equal(inside_request, CUPTI_ERROR_INVALID_OPERATION);
	assert_int_equal(inside_complete, CUPTI_ERROR_INVALID_OPERATION);
}

static void bad_buffers_are_mistakes(void **state)
{
	(void)state;
	uint8_t one = 1, zero = 0;
	size_t size = 1;
	size_t dropped;
	assert_int_equal(mistakes(small_requested, plain_completed), 1);
	cupti_ok(cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped));
	assert_int_equal(dropped, 1);
	assert_int_equal(mistakes(dirty_requested, plain_completed), 0);
	cupti_ok(cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &one));
	assert_int_equal(mistakes(dirty_requested, plain_completed), 1);
	cupti_ok(cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &zero));
}

static void unknown_kinds_are_mistakes(void **state)
{
	(void)state;
	uint64_t before = sim_cupti_errors();
	assert_int_equal(cuptiActivityEnable((CUpti_ActivityKind)60), CUPTI_ERROR_INVALID_KIND);
	assert_int_equal(cuptiActivityDisable((CUpti_ActivityKind)0), CUPTI_ERROR_INVALID_KIND);
	assert_int_equal(sim_cupti_errors() - before, 2);
}

static void detaching_amid_work_is_a_mistake(void **state)
{
	(void)state;
	uint64_t before = sim_cupti_errors();
	cupti_ok(ct_begin(kernels));
	launch(1);
	assert_int_equal(cuptiFinalize(), CUPTI_ERROR_INVALID_OPERATION);
	cupti_ok(ct_end());
	assert_int_equal(sim_cupti_errors() - before, 1);
	assert_int_equal(sim_cupti_attached(), 1);
	cupti_ok(cuptiFinalize()); /* all is flushed and nothing runs */
	assert_int_equal(sim_cupti_attached(), 0);
	assert_int_equal(cuptiActivityFlushAll(0), CUPTI_ERROR_INVALID_OPERATION);
}

static void an_ended_subscription_is_a_mistake(void **state)
{
	(void)state;
	CUpti_SubscriberHandle s = NULL;
	cupti_ok(cuptiSubscribe(&s, NULL, NULL));
	cupti_ok(cuptiUnsubscribe(s));
	uint64_t before = sim_cupti_errors();
	assert_int_equal(cuptiEnableDomain(1, s, CUPTI_CB_DOMAIN_DRIVER_API), CUPTI_ERROR_INVALID_PARAMETER);
	assert_int_equal(sim_cupti_errors() - before, 1);
}

static void a_forked_child_has_no_cupti(void **state)
{
	(void)state;
	uint64_t time;
	int status;
	cupti_ok(cuptiActivityEnable(KERNEL));
	cupti_ok(cuptiActivityDisable(KERNEL));
	pid_t child = fork();
	if (!child)
		_exit(cuptiGetTimestamp(&time) == CUPTI_ERROR_NOT_INITIALIZED && sim_cupti_errors() ? 0 : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void finalized_in_callback(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id,
								  const void *call)
{
	(void)domain;
	(void)id;
	if (((const CUpti_CallbackData *)call)->callbackSite == CUPTI_API_EXIT)
		*(CUptiResult *)user = cuptiFinalize();
}

static void a_graph_does_not_outlive_cupti(void **state)
{
	(void)state;
	CUcontext ctx;
	CUstream s;
	CUgraph graph;
	CUgraphExec exec;
	CUpti_SubscriberHandle subscriber;
	CUptiResult finalized = CUPTI_ERROR_UNKNOWN;
	ok(cuCtxCreate_v2(&ctx, 0, 0));
	s = st_stream(CU_STREAM_NON_BLOCKING);
	ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(cuMemsetD8Async(dev, 0, 16, s));
	ok(cuStreamEndCapture(s, &graph));
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	cupti_ok(cuptiActivityEnable(KERNEL));
	ok(cuGraphLaunch(exec, s));
	ok(cuGraphLaunch(exec, s));
	ok(cuStreamSynchronize(s));
	cupti_ok(cuptiSubscribe(&subscriber, finalized_in_callback, &finalized));
	cupti_ok(cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API));
	ok(cuStreamQuery(s));
	cupti_ok(finalized);
	uint64_t before = sim_errors();
	fails(cuGraphLaunch(exec, s), CUDA_ERROR_LAUNCH_FAILED);
	fails(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
	assert_int_equal(sim_errors() - before, 1);
	ok(cuGraphExecDestroy(exec));
	ok(cuGraphDestroy(graph));
	ok(cuCtxDestroy_v2(ctx));
}

static void a_graph_is_whole_from_the_start(void **state)
{
	(void)state;
	CUcontext ctx;
	CUstream s;
	CUgraph graph;
	CUgraphExec early, late;
	ok(cuCtxCreate_v2(&ctx, 0, 0));
	s = st_stream(CU_STREAM_NON_BLOCKING);
	ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(cuMemsetD8Async(dev, 0, 16, s));
	ok(cuStreamEndCapture(s, &graph));
	ok(cuGraphInstantiateWithFlags(&early, graph, 0));
	cupti_ok(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE));
	ok(cuGraphInstantiateWithFlags(&late, graph, 0));
	ok(cuGraphLaunch(late, s));
	cupti_ok(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE));
	ok(cuGraphLaunch(early, s));
	ok(cuGraphLaunch(late, s));
	ok(cuStreamSynchronize(s));
	cupti_ok(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE));
	uint64_t before = sim_errors();
	fails(cuGraphLaunch(early, s), CUDA_ERROR_LAUNCH_FAILED);
	assert_int_equal(sim_errors() - before, 1);
	cupti_ok(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE));
	ok(cuGraphExecDestroy(early));
	ok(cuGraphExecDestroy(late));
	ok(cuGraphDestroy(graph));
	ok(cuCtxDestroy_v2(ctx));
}

int main(void)
{
	simtest_only_sim();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_in_buffer_callbacks_are_mistakes),
		cmocka_unit_test(bad_buffers_are_mistakes),
		cmocka_unit_test(unknown_kinds_are_mistakes),
		cmocka_unit_test(detaching_amid_work_is_a_mistake),
		cmocka_unit_test(an_ended_subscription_is_a_mistake),
		cmocka_unit_test(a_forked_child_has_no_cupti),
		cmocka_unit_test(a_graph_does_not_outlive_cupti),
		cmocka_unit_test(a_graph_is_whole_from_the_start),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}

/* LINK: cupti
 *
 * test_sim_cupti_calls.c - CUPTI's callbacks, the one subscriber, detaching; graphs and runtime calls.
 */
#include <cupti_driver_cbid.h>
#include <cupti_runtime_cbid.h>
#include <pthread.h>

#include "common/simtest.h"
#include "rt/simrt.h"
#include "tests/gpu/common/cupti_client.h"
#include "tests/gpu/kernels_ptx.h"

#define cupti_ok(call) assert_int_equal((call), CUPTI_SUCCESS)
#define WORDS 256
#define LAUNCH CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel

static const uint32_t kernels[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 0};
static const uint32_t graphs[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_GRAPH_TRACE, 0};
static const uint32_t both_apis[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_RUNTIME,
									 CUPTI_ACTIVITY_KIND_DRIVER, 0};

static struct {
	int enters, exits;
	uint32_t correlation;
	CUcontext context;
	CUresult result;
	const char *name;
	uint64_t data;
	bool finalize;
	CUptiResult finalized;
} seen;

static void on_call(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *arg)
{
	const CUpti_CallbackData *call = arg;
	assert_ptr_equal(user, &seen);
	assert_int_equal(domain, CUPTI_CB_DOMAIN_DRIVER_API);
	(void)id;
	if (call->callbackSite == CUPTI_API_ENTER) {
		seen.enters++;
		seen.correlation = call->correlationId;
		seen.context = call->context;
		seen.name = call->functionName;
		*call->correlationData = 0x1234;
		return;
	}
	seen.exits++;
	assert_int_equal(call->correlationId, seen.correlation);
	seen.data = *call->correlationData;
	seen.result = *(CUresult *)call->functionReturnValue;
	if (seen.finalize)
		seen.finalized = cuptiFinalize();
	seen.finalize = false;
}

static CUpti_SubscriberHandle subscribe(void)
{
	CUpti_SubscriberHandle s = NULL;
	memset(&seen, 0, sizeof seen);
	cupti_ok(cuptiSubscribe(&s, on_call, &seen));
	return s;
}

static void a_call_has_two_callbacks(void **state)
{
	(void)state;
	CUdeviceptr p = st_device(WORDS * 4);
	CUpti_SubscriberHandle s = subscribe();
	cupti_ok(cuptiEnableCallback(1, s, CUPTI_CB_DOMAIN_DRIVER_API, LAUNCH));
	cupti_ok(ct_begin(kernels));
	st_fill(p, WORDS, 1, NULL);
	ok(cuCtxSynchronize());
	assert_int_equal(seen.enters, 1);
	assert_int_equal(seen.exits, 1);
	assert_string_equal(seen.name, "cuLaunchKernel");
	assert_ptr_equal(seen.context, st_ctx);
	assert_int_equal(seen.data, 0x1234);
	assert_int_equal(seen.result, CUDA_SUCCESS);
	cupti_ok(ct_end());
	assert_int_equal(ct_find(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 0)->correlation, seen.correlation);
	fails(cuLaunchKernel(st_fill32, 0, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(seen.result, CUDA_ERROR_INVALID_VALUE);
	uint32_t enabled;
	cupti_ok(cuptiGetCallbackState(&enabled, s, CUPTI_CB_DOMAIN_DRIVER_API, LAUNCH));
	assert_int_not_equal(enabled, 0);
	cupti_ok(cuptiEnableCallback(0, s, CUPTI_CB_DOMAIN_DRIVER_API, LAUNCH));
	st_fill(p, WORDS, 1, NULL);
	assert_int_equal(seen.enters, 2);
	cupti_ok(cuptiUnsubscribe(s));
	ok(cuMemFree_v2(p));
}

static void there_is_one_subscriber(void **state)
{
	(void)state;
	CUpti_SubscriberHandle s = subscribe(), other = NULL;
	assert_int_equal(cuptiSubscribe(&other, on_call, &seen), CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
	cupti_ok(cuptiUnsubscribe(s));
	cupti_ok(cuptiSubscribe(&other, on_call, &seen));
	cupti_ok(cuptiUnsubscribe(other));
}

static void a_refused_subscriber_hears_who_is_there(void **state)
{
	(void)state;
	char old[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN] = "";
	CUpti_SubscriberParams mine = {CUpti_SubscriberParams_STRUCT_SIZE, "a test", NULL, 0};
	CUpti_SubscriberParams others = {CUpti_SubscriberParams_STRUCT_SIZE, "another", old, sizeof old};
	CUpti_SubscriberHandle s = NULL, other = NULL;
	cupti_ok(cuptiSubscribe_v2(&s, on_call, &seen, &mine));
	assert_int_equal(cuptiSubscribe_v2(&other, on_call, &seen, &others),
					 CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
	assert_string_equal(old, "CUPTI for a test");
	cupti_ok(cuptiUnsubscribe(s));
}

static void activities_need_no_subscriber_and_leave_it_free(void **state)
{
	(void)state;
	CUpti_SubscriberHandle s = NULL;
	cupti_ok(ct_begin(kernels));
	cupti_ok(cuptiSubscribe(&s, on_call, &seen));
	cupti_ok(cuptiUnsubscribe(s));
	cupti_ok(ct_end());
}

static CUgraphExec graph_of(CUdeviceptr p, int launches)
{
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING);
	CUgraph graph = NULL;
	CUgraphExec exec = NULL;
	ok(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	for (int i = 0; i < launches; i++)
		st_fill(p, WORDS, 1, s);
	ok(cuStreamEndCapture(s, &graph));
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(cuGraphDestroy(graph));
	ok(cuStreamDestroy_v2(s));
	return exec;
}

static void nodes_of_a_graph_share_its_launch(void **state)
{
	(void)state;
	CUdeviceptr p = st_device(WORDS * 4);
	cupti_ok(ct_begin(kernels));
	CUgraphExec exec = graph_of(p, 24);
	assert_int_equal(ct_count, 0);
	ok(cuGraphLaunch(exec, NULL));
	ok(cuCtxSynchronize());
	cupti_ok(ct_end());
	assert_int_equal(ct_number(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), 24);
	const struct ct_record *first = ct_find(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 0);
	for (int i = 0; i < 24; i++) {
		const struct ct_record *k = ct_find(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, i);
		assert_int_equal(k->correlation, first->correlation);
		assert_int_equal(k->id, first->id);
		assert_int_not_equal(k->id, 0);
		for (int j = 0; j < i; j++)
			assert_int_not_equal(k->node, ct_find(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, j)->node);
	}
	ok(cuGraphExecDestroy(exec));
	ok(cuMemFree_v2(p));
}

static void a_graph_can_be_one_record(void **state)
{
	(void)state;
	CUdeviceptr p = st_device(WORDS * 4);
	cupti_ok(ct_begin(graphs));
	CUgraphExec exec = graph_of(p, 5); /* one that was made before could not be launched */
	ok(cuGraphLaunch(exec, NULL));
	ok(cuGraphLaunch(exec, NULL));
	st_fill(p, WORDS, 1, NULL);
	ok(cuCtxSynchronize());
	cupti_ok(ct_end());
	assert_int_equal(ct_number(CUPTI_ACTIVITY_KIND_GRAPH_TRACE), 2);
	assert_int_equal(ct_number(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), 1);
	const struct ct_record *a = ct_find(CUPTI_ACTIVITY_KIND_GRAPH_TRACE, 0);
	const struct ct_record *b = ct_find(CUPTI_ACTIVITY_KIND_GRAPH_TRACE, 1);
	assert_true(a->start && a->end >= a->start && b->start >= a->end);
	assert_int_not_equal(a->correlation, b->correlation);
	ok(cuGraphExecDestroy(exec));
	ok(cuMemFree_v2(p));
}

static void runtime_calls_share_the_driver_calls_correlation(void **state)
{
	(void)state;
	void *p = NULL;
	uint64_t words = WORDS;
	uint32_t value = 3;
	void *args[] = {&p, &words, &value};
	assert_int_equal(rtMalloc(&p, WORDS * 4), 0);
	assert_int_equal(rtLoad(kernels_ptx), 0);
	cupti_ok(ct_begin(both_apis));
	assert_int_equal(rtLaunch("fill32", 1, NULL, args), 0);
	assert_int_equal(rtDeviceSynchronize(), 0);
	cupti_ok(ct_end());
	const struct ct_record *k = ct_find(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 0), *runtime = NULL;
	const struct ct_record *driver = NULL;
	assert_non_null(k);
	for (int i = 0; i < ct_count; i++) {
		const struct ct_record *r = &ct_records[i];
		if (r->kind == CUPTI_ACTIVITY_KIND_RUNTIME && r->correlation == k->correlation)
			runtime = r;
		if (r->kind == CUPTI_ACTIVITY_KIND_DRIVER && r->correlation == k->correlation && r->id == LAUNCH)
			driver = r;
	}
	assert_non_null(runtime);
	assert_int_equal(runtime->id, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000);
	if (driver)
		assert_true(driver->start >= runtime->start && driver->end <= runtime->end);
	assert_int_equal(rtFree(p), 0);
}

/* The last cases: they take the library down. */
static void detaching_in_a_callback_ends_it_all(void **state)
{
	(void)state;
	CUdeviceptr p = st_device(WORDS * 4);
	CUpti_SubscriberHandle s = subscribe();
	cupti_ok(cuptiEnableCallback(1, s, CUPTI_CB_DOMAIN_DRIVER_API, LAUNCH));
	cupti_ok(ct_begin(kernels));
	st_fill(p, WORDS, 1, NULL);
	ok(cuCtxSynchronize());
	cupti_ok(cuptiActivityFlushAll(1));
	int before = ct_count;
	assert_int_equal(before, 1);
	seen.finalize = true;
	st_fill(p, WORDS, 1, NULL);
	assert_false(seen.finalize);
	assert_int_equal(seen.finalized, CUPTI_SUCCESS);
	before = ct_count;
	seen.enters = 0;
	st_fill(p, WORDS, 1, NULL);
	ok(cuCtxSynchronize());
	assert_int_equal(seen.enters, 0);
	assert_int_equal(ct_count, before);
	ok(cuMemFree_v2(p));
}

static void one_can_attach_again(void **state)
{
	(void)state;
	CUdeviceptr p = st_device(WORDS * 4);
	cupti_ok(ct_begin(kernels));
	st_fill(p, WORDS, 1, NULL);
	ok(cuCtxSynchronize());
	cupti_ok(ct_end());
	assert_int_equal(ct_number(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), 1);
	ok(cuMemFree_v2(p));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_call_has_two_callbacks),
		cmocka_unit_test(there_is_one_subscriber),
		cmocka_unit_test(a_refused_subscriber_hears_who_is_there),
		cmocka_unit_test(activities_need_no_subscriber_and_leave_it_free),
		cmocka_unit_test(nodes_of_a_graph_share_its_launch),
		cmocka_unit_test(a_graph_can_be_one_record),
		cmocka_unit_test(runtime_calls_share_the_driver_calls_correlation),
		cmocka_unit_test(detaching_in_a_callback_ends_it_all),
		cmocka_unit_test(one_can_attach_again),
	};
	return cmocka_run_group_tests(tests, simtest_setup, simtest_teardown);
}

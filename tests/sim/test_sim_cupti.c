/* LINK: cupti
 *
 * test_sim_cupti.c - what CUPTI's activity interface records.
 */
#include <pthread.h>
#include <stdio.h>

#include "common/simtest.h"
#include "tests/gpu/common/cupti_client.h"

#define cupti_ok(call) assert_int_equal((call), CUPTI_SUCCESS)
#define WORDS 1024

static const uint32_t work[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
								CUPTI_ACTIVITY_KIND_MEMSET, 0};
static const uint32_t work_and_calls[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
										  CUPTI_ACTIVITY_KIND_MEMCPY,
										  CUPTI_ACTIVITY_KIND_DRIVER,
										  CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
										  CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
										  0};
static const uint32_t kernels_alone[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 0};

static void kernels_have_shape_place_and_time(void **state)
{
	(void)state;
	CUdeviceptr p = st_device(WORDS * 4);
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING);
	uint64_t words = WORDS, before, after;
	uint32_t value = 1, stream, context, device;
	void *args[] = {&p, &words, &value};
	cupti_ok(ct_begin(work));
	cupti_ok(cuptiGetTimestamp(&before));
	ok(cuLaunchKernel(st_fill32, 2, 3, 4, 32, 2, 1, 128, s, args, NULL));
	ok(cuStreamSynchronize(s));
	cupti_ok(cuptiGetTimestamp(&after));
	cupti_ok(ct_end());
	const struct ct_record *k = ct_find(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 0);
	assert_non_null(k);
	assert_int_equal(ct_number(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), 1);
	assert_string_equal(k->name, "fill32");
	assert_memory_equal(k->grid, ((uint32_t[]){2, 3, 4}), 12);
	assert_memory_equal(k->block, ((uint32_t[]){32, 2, 1}), 12);
	assert_in_range(k->start, before, after);
	assert_in_range(k->end, k->start, after);
	assert_int_not_equal(k->correlation, 0);
	cupti_ok(cuptiGetStreamId(st_ctx, s, &stream));
	cupti_ok(cuptiGetContextId(st_ctx, &context));
	cupti_ok(cuptiGetDeviceId(st_ctx, &device));
	assert_int_equal(k->stream, stream);
	assert_int_equal(k->context, context);
	assert_int_equal(k->device, device);
	ok(cuStreamDestroy_v2(s));
	ok(cuMemFree_v2(p));
}

static void copies_say_direction_memory_and_bytes(void **state)
{
	(void)state;
	enum { BIG = 5 << 20 };
	CUdeviceptr p = st_device(BIG), q = st_device(4096);
	void *pinned = st_pinned(4096), *pageable = calloc(1, BIG);
	cupti_ok(ct_begin(work));
	ok(cuMemcpyHtoD_v2(p, pageable, BIG));
	ok(cuMemcpyHtoDAsync_v2(p, pinned, 4096, NULL));
	ok(cuMemcpyDtoD_v2(q, p, 1000));
	ok(cuMemcpyDtoH_v2(pageable, q, 500));
	ok(cuMemsetD8_v2(q, 7, 300));
	ok(cuCtxSynchronize());
	cupti_ok(ct_end());
	assert_int_equal(ct_number(CUPTI_ACTIVITY_KIND_MEMCPY), 4);
	const struct {
		uint64_t bytes;
		uint8_t copy, from, to;
	} want[] = {
		{BIG, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE,
		 CUPTI_ACTIVITY_MEMORY_KIND_DEVICE},
		{4096, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, CUPTI_ACTIVITY_MEMORY_KIND_PINNED,
		 CUPTI_ACTIVITY_MEMORY_KIND_DEVICE},
		{1000, CUPTI_ACTIVITY_MEMCPY_KIND_DTOD, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE,
		 CUPTI_ACTIVITY_MEMORY_KIND_DEVICE},
		{500, CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE,
		 CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE},
	};
	for (int i = 0; i < 4; i++) {
		const struct ct_record *c = ct_find(CUPTI_ACTIVITY_KIND_MEMCPY, i);
		assert_int_equal(c->bytes, want[i].bytes);
		assert_int_equal(c->copy, want[i].copy);
		assert_int_equal(c->from, want[i].from);
		assert_int_equal(c->to, want[i].to);
		assert_true(c->end >= c->start && c->start);
	}
	assert_int_equal(ct_number(CUPTI_ACTIVITY_KIND_MEMSET), 1);
	assert_int_equal(ct_find(CUPTI_ACTIVITY_KIND_MEMSET, 0)->bytes, 300);
	ok(cuMemFree_v2(p));
	ok(cuMemFree_v2(q));
	ok(cuMemFreeHost(pinned));
	free(pageable);
}

static void calls_join_what_they_started(void **state)
{
	(void)state;
	CUdeviceptr p = st_device(WORDS * 4);
	uint64_t id = 0;
	cupti_ok(ct_begin(work_and_calls));
	cupti_ok(cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, 77));
	st_fill(p, WORDS, 1, NULL);
	cupti_ok(cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &id));
	assert_int_equal(id, 77);
	assert_int_equal(cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &id),
					 CUPTI_ERROR_QUEUE_EMPTY);
	ok(cuCtxSynchronize());
	cupti_ok(ct_end());
	const struct ct_record *k = ct_find(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 0), *launch = NULL;
	assert_non_null(k);
	for (int i = 0; i < ct_count; i++)
		if (ct_records[i].kind == CUPTI_ACTIVITY_KIND_DRIVER && ct_records[i].correlation == k->correlation)
			launch = &ct_records[i];
	assert_non_null(launch);
	const char *name = NULL;
	cupti_ok(cuptiGetCallbackName(CUPTI_CB_DOMAIN_DRIVER_API, launch->id, &name));
	assert_string_equal(name, "cuLaunchKernel");
	assert_true(launch->start <= k->start && launch->start <= launch->end);
	const struct ct_record *x = ct_find(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, 0);
	assert_non_null(x);
	assert_int_equal(x->correlation, k->correlation);
	assert_int_equal(x->bytes, 77);
	const struct ct_record *wait = ct_find(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, 0);
	assert_non_null(wait);
	assert_int_equal(wait->id, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE);
	ok(cuMemFree_v2(p));
}

static void single_calls_can_be_chosen(void **state)
{
	(void)state;
	CUdeviceptr p = st_device(WORDS * 4);
	cupti_ok(ct_begin(kernels_alone));
	cupti_ok(cuptiActivityEnableDriverApi(307, 1)); /* cuLaunchKernel */
	st_fill(p, WORDS, 1, NULL);
	ok(cuCtxSynchronize());
	cupti_ok(cuptiActivityEnableDriverApi(307, 0));
	st_fill(p, WORDS, 1, NULL);
	ok(cuCtxSynchronize());
	cupti_ok(ct_end());
	assert_int_equal(ct_number(CUPTI_ACTIVITY_KIND_DRIVER), 1);
	assert_int_equal(ct_find(CUPTI_ACTIVITY_KIND_DRIVER, 0)->id, 307);
	assert_int_equal(ct_number(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), 2);
	ok(cuMemFree_v2(p));
}

static void disabled_kinds_are_not_recorded(void **state)
{
	(void)state;
	CUdeviceptr p = st_device(WORDS * 4);
	cupti_ok(ct_begin(kernels_alone));
	ok(cuMemsetD8_v2(p, 0, 100));
	st_fill(p, WORDS, 1, NULL);
	ok(cuCtxSynchronize());
	cupti_ok(ct_end());
	int before = ct_count;
	assert_int_equal(before, 1);
	st_fill(p, WORDS, 1, NULL);
	ok(cuCtxSynchronize());
	cupti_ok(cuptiActivityFlushAll(1));
	assert_int_equal(ct_count, before);
	ok(cuMemFree_v2(p));
}

static void a_flush_leaves_what_has_not_run(void **state)
{
	(void)state;
	struct st_gate gate;
	CUdeviceptr p = st_device(WORDS * 4);
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING);
	cupti_ok(ct_begin(kernels_alone));
	st_gate_close(&gate, s);
	cupti_ok(cuptiActivityFlushAll(0));
	assert_int_equal(ct_count, 0);
	st_gate_open(&gate);
	ok(cuStreamSynchronize(s));
	cupti_ok(cuptiActivityFlushAll(0));
	assert_int_equal(ct_count, 1);
	assert_int_not_equal(ct_records[0].end, 0);
	cupti_ok(ct_end());
	st_gate_free(&gate);
	ok(cuStreamDestroy_v2(s));
	ok(cuMemFree_v2(p));
}

static void buffers_are_asked_for_by_the_launching_thread(void **state)
{
	(void)state;
	CUdeviceptr p = st_device(WORDS * 4);
	cupti_ok(ct_begin(kernels_alone));
	for (int i = 0; i < 1000; i++)
		st_fill(p, 1, 1, NULL);
	ok(cuCtxSynchronize());
	cupti_ok(ct_end());
	assert_int_equal(ct_number(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), 1000);
	assert_true(ct_requests > 1);
	assert_int_equal(ct_buffers, ct_requests);
	assert_true(ct_request_thread == (unsigned long)pthread_self());
	assert_true(ct_complete_thread != (unsigned long)pthread_self());
	for (int i = 1; i < ct_count; i++)
		assert_true(ct_records[i].start >= ct_records[i - 1].end); /* one stream */
	ok(cuMemFree_v2(p));
}

static void without_a_buffer_records_are_dropped_and_counted(void **state)
{
	(void)state;
	CUdeviceptr p = st_device(WORDS * 4);
	uint32_t version;
	size_t dropped;
	cupti_ok(cuptiGetVersion(&version));
	if (version < 27) {
		puts("this version crashes");
		skip();
	}
	cupti_ok(cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped));
	cupti_ok(ct_begin(kernels_alone));
	ct_refuse = true;
	for (int i = 0; i < 5; i++)
		st_fill(p, 1, 1, NULL);
	ok(cuCtxSynchronize());
	cupti_ok(ct_end());
	assert_int_equal(ct_count, 0);
	cupti_ok(cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped));
	assert_int_equal(dropped, 5);
	cupti_ok(cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped));
	assert_int_equal(dropped, 0);
	ok(cuMemFree_v2(p));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernels_have_shape_place_and_time),
		cmocka_unit_test(copies_say_direction_memory_and_bytes),
		cmocka_unit_test(calls_join_what_they_started),
		cmocka_unit_test(single_calls_can_be_chosen),
		cmocka_unit_test(disabled_kinds_are_not_recorded),
		cmocka_unit_test(a_flush_leaves_what_has_not_run),
		cmocka_unit_test(buffers_are_asked_for_by_the_launching_thread),
		cmocka_unit_test(without_a_buffer_records_are_dropped_and_counted),
	};
	return cmocka_run_group_tests(tests, simtest_setup, simtest_teardown);
}

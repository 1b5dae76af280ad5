/*
 * test_sim_order.c - order between streams, events, host functions, stream memory values.
 */
#include <pthread.h>

#include "common/simtest.h"

static CUdeviceptr dev;
static CUstream blocking, other, free_stream;

static int setup(void **state)
{
	if (simtest_setup(state))
		return -1;
	dev = st_device(4096);
	blocking = st_stream(0);
	other = st_stream(0);
	free_stream = st_stream(CU_STREAM_NON_BLOCKING);
	return 0;
}

/* With `busy` held, is work that is submitted to `later` afterwards held too? */
static bool follows(CUstream busy, CUstream later)
{
	struct st_gate gate;
	CUevent e = st_event();
	st_gate_close(&gate, busy);
	ok(cuMemsetD8Async(dev, 1, 16, later));
	ok(cuEventRecord(e, later));
	struct timespec nap = {0, 30000000};
	nanosleep(&nap, NULL);
	CUresult state = cuEventQuery(e);
	assert_true(state == CUDA_SUCCESS || state == CUDA_ERROR_NOT_READY);
	st_gate_open(&gate);
	ok(cuEventSynchronize(e));
	ok(cuCtxSynchronize());
	st_gate_free(&gate);
	ok(cuEventDestroy_v2(e));
	return state == CUDA_ERROR_NOT_READY;
}

static void legacy_stream_orders_with_blocking_streams(void **state)
{
	(void)state;
	assert_true(follows(blocking, blocking));
	assert_false(follows(blocking, other));
	assert_true(follows(blocking, NULL));
	assert_true(follows(NULL, blocking));
	assert_true(follows(CU_STREAM_LEGACY, other));
	assert_false(follows(free_stream, NULL));
	assert_false(follows(NULL, free_stream));
	assert_true(follows(CU_STREAM_PER_THREAD, NULL));
	assert_true(follows(NULL, CU_STREAM_PER_THREAD));
	assert_false(follows(CU_STREAM_PER_THREAD, blocking));
}

static CUresult sync_stream(void *s)
{
	return cuStreamSynchronize(s);
}
static CUresult sync_thread_stream(void *s)
{
	return cuStreamSynchronize_ptsz(s);
}

static bool wait_covers(CUstream busy, CUstream waited, CUresult (*call)(void *))
{
	struct st_gate gate;
	CUresult result;
	st_gate_close(&gate, busy);
	bool waited_for = st_waits(&gate, call, waited, &result);
	ok(result);
	ok(cuCtxSynchronize());
	st_gate_free(&gate);
	return waited_for;
}

static void a_host_wait_on_the_legacy_stream_covers_blocking_ones(void **state)
{
	(void)state;
	assert_true(wait_covers(blocking, NULL, sync_stream));
	assert_false(wait_covers(free_stream, NULL, sync_stream));
	assert_false(wait_covers(NULL, blocking, sync_stream));
	assert_false(wait_covers(blocking, NULL, sync_thread_stream));
	assert_true(wait_covers(CU_STREAM_PER_THREAD, NULL, sync_thread_stream));
}

static void *id_in_thread(void *out)
{
	ok(cuCtxSetCurrent(st_ctx));
	ok(cuStreamGetId(CU_STREAM_PER_THREAD, out));
	return NULL;
}

static void each_thread_has_its_default_stream(void **state)
{
	(void)state;
	unsigned long long mine, again, theirs, legacy;
	pthread_t t;
	ok(cuStreamGetId(CU_STREAM_PER_THREAD, &mine));
	ok(cuStreamGetId_ptsz(NULL, &again));
	ok(cuStreamGetId(NULL, &legacy));
	assert_int_equal(pthread_create(&t, NULL, id_in_thread, &theirs), 0);
	pthread_join(t, NULL);
	assert_int_equal(mine, again);
	assert_int_not_equal(mine, legacy);
	assert_int_not_equal(mine, theirs);
}

static void stream_waits_for_event(void **state)
{
	(void)state;
	struct st_gate gate;
	CUevent e = st_event(), done = st_event();
	CUstream second = st_stream(CU_STREAM_NON_BLOCKING);
	st_gate_close(&gate, free_stream);
	st_fill(dev, 4, 5, free_stream);
	ok(cuEventRecord(e, free_stream));
	ok(cuStreamWaitEvent(second, e, 0));
	ok(cuEventRecord(e, blocking)); /* recording again does not move the wait */
	st_add(dev, 4, 2, second);
	ok(cuEventRecord(done, second));
	fails(cuEventQuery(done), CUDA_ERROR_NOT_READY);
	fails(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
	st_gate_open(&gate);
	ok(cuEventSynchronize(done));
	ok(cuStreamQuery(second));
	assert_int_equal(st_byte(dev), 7);
	ok(cuStreamDestroy_v2(second));
	ok(cuEventDestroy_v2(e));
	ok(cuEventDestroy_v2(done));
	st_gate_free(&gate);
}

static void destroyed_streams_and_events_finish_their_work(void **state)
{
	(void)state;
	struct st_gate gate;
	CUstream s = st_stream(CU_STREAM_NON_BLOCKING);
	CUevent e = st_event();
	st_gate_close(&gate, s);
	st_fill(dev, 4, 9, s);
	ok(cuEventRecord(e, s));
	ok(cuStreamWaitEvent(free_stream, e, 0));
	ok(cuStreamDestroy_v2(s));
	ok(cuEventDestroy_v2(e));
	st_add(dev, 4, 1, free_stream);
	st_gate_open(&gate);
	ok(cuStreamSynchronize(free_stream));
	assert_int_equal(st_byte(dev), 10);
	st_gate_free(&gate);
}

static void context_event_covers_every_stream(void **state)
{
	(void)state;
	struct st_gate gate;
	CUevent e = st_event();
	st_gate_close(&gate, free_stream);
	ok(cuCtxRecordEvent(st_ctx, e));
	fails(cuEventQuery(e), CUDA_ERROR_NOT_READY);
	st_gate_open(&gate);
	ok(cuEventSynchronize(e));
	ok(cuStreamQuery(free_stream));
	ok(cuEventDestroy_v2(e));
	st_gate_free(&gate);
}

static void event_times(void **state)
{
	(void)state;
	CUevent a, b, untimed = st_event();
	float ms = -1;
	ok(cuEventCreate(&a, 0));
	ok(cuEventCreate(&b, 0));
	ok(cuEventQuery(a)); /* never recorded: complete */
	fails(cuEventElapsedTime(&ms, a, b), CUDA_ERROR_INVALID_HANDLE);
	uint64_t us = 20000;
	void *args[] = {&us};
	ok(cuEventRecord(a, free_stream));
	ok(cuLaunchKernel(st_spin_us, 1, 1, 1, 1, 1, 1, 0, free_stream, args, NULL));
	ok(cuEventRecord(b, free_stream));
	fails(cuEventElapsedTime(&ms, a, b), CUDA_ERROR_NOT_READY);
	ok(cuEventSynchronize(b));
	ok(cuEventElapsedTime(&ms, a, b));
	assert_true(ms > 15 && ms < 2000);
	ok(cuEventRecord(untimed, free_stream));
	ok(cuEventSynchronize(untimed));
	fails(cuEventElapsedTime(&ms, a, untimed), CUDA_ERROR_INVALID_HANDLE);
	ok(cuEventDestroy_v2(a));
	ok(cuEventDestroy_v2(b));
	ok(cuEventDestroy_v2(untimed));
}

static CUresult seen[3];
static CUevent seen_event;

static void CUDA_CB look(void *arg)
{
	(void)arg;
	CUdeviceptr p;
	CUcontext c;
	seen[0] = cuMemAlloc_v2(&p, 64);
	seen[1] = cuCtxGetCurrent(&c);
	seen[2] = cuEventQuery(seen_event);
}

static void host_functions_may_not_use_the_context(void **state)
{
	(void)state;
	seen_event = st_event();
	ok(cuEventRecord(seen_event, free_stream));
	ok(cuLaunchHostFunc(free_stream, look, NULL));
	ok(cuStreamSynchronize(free_stream));
	assert_int_equal(seen[0], CUDA_ERROR_NOT_PERMITTED);
	assert_int_equal(seen[1], CUDA_ERROR_NOT_PERMITTED);
	assert_int_equal(seen[2], CUDA_SUCCESS);
	ok(cuEventDestroy_v2(seen_event));
}

static void values(void **state)
{
	(void)state;
	CUevent e = st_event();
	ok(cuMemsetD8_v2(dev, 0, 64));
	ok(cuCtxSynchronize());
	ok(cuStreamWaitValue32_v2(free_stream, dev, 3, CU_STREAM_WAIT_VALUE_GEQ));
	ok(cuEventRecord(e, free_stream));
	fails(cuEventQuery(e), CUDA_ERROR_NOT_READY);
	ok(cuStreamWriteValue32_v2(blocking, dev, 4, 0));
	ok(cuEventSynchronize(e));
	CUstreamBatchMemOpParams ops[2];
	memset(ops, 0, sizeof ops);
	ops[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
	ops[0].writeValue.address = dev + 8;
	ops[0].writeValue.value64 = 0x1122334455667788;
	ops[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
	ops[1].waitValue.address = dev + 8;
	ops[1].waitValue.value64 = 0x1122334455667788;
	ops[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
	ok(cuStreamBatchMemOp_v2(free_stream, 2, ops, 0));
	ok(cuStreamSynchronize(free_stream));
	assert_int_equal(st_byte(dev + 8), 0x88);
	ok(cuEventDestroy_v2(e));
}

static void *without_context(void *arg)
{
	(void)arg;
	CUcontext c = st_ctx;
	CUdeviceptr p;
	int type;
	ok(cuCtxGetCurrent(&c));
	assert_null(c);
	ok(cuStreamQuery(free_stream));
	ok(cuMemsetD8Async(dev, 0, 16, free_stream));
	ok(cuStreamSynchronize(free_stream));
	ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, dev));
	fails(cuStreamQuery(NULL), CUDA_ERROR_INVALID_CONTEXT);
	fails(cuMemAlloc_v2(&p, 64), CUDA_ERROR_INVALID_CONTEXT);
	fails(cuMemcpyDtoH_v2(&type, dev, 4), CUDA_ERROR_INVALID_CONTEXT);
	return NULL;
}

static void a_thread_without_context_can_use_handles(void **state)
{
	(void)state;
	pthread_t t;
	assert_int_equal(pthread_create(&t, NULL, without_context, NULL), 0);
	pthread_join(t, NULL);
}

static int teardown(void **state)
{
	return cuStreamDestroy_v2(blocking) || cuStreamDestroy_v2(other) || cuStreamDestroy_v2(free_stream) ||
				   cuMemFree_v2(dev)
			   ? -1
			   : simtest_teardown(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(legacy_stream_orders_with_blocking_streams),
		cmocka_unit_test(a_host_wait_on_the_legacy_stream_covers_blocking_ones),
		cmocka_unit_test(each_thread_has_its_default_stream),
		cmocka_unit_test(stream_waits_for_event),
		cmocka_unit_test(destroyed_streams_and_events_finish_their_work),
		cmocka_unit_test(context_event_covers_every_stream),
		cmocka_unit_test(event_times),
		cmocka_unit_test(host_functions_may_not_use_the_context),
		cmocka_unit_test(values),
		cmocka_unit_test(a_thread_without_context_can_use_handles),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}

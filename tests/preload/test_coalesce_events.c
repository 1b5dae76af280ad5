/* LINK: cuda nccl ENV: TURBO_NCCL_COALESCE=on BARE */
/*
 * test_coalesce_events.c - what a program sees of all-gathers that are held back: events behind them, questions, waits, and
 * time that passes without a call.
 */
#include "common/gather_fixture.h"

#define PLAIN CU_EVENT_DISABLE_TIMING

static void a_loop_is_grouped(void **state)
{
	CUevent e = event_new(PLAIN);
	(void)state;
	gathers(0, 64);
	OK(cuEventRecord(e, stream));
	OK(cuEventSynchronize(e));
	assert_true(all_arrived(0, 64));
	must_group(64);
	if (preloaded() && groups_of(comm).largest < 16)
		fail_msg("the largest group of a loop of 64 has %u", groups_of(comm).largest);
	OK(cuEventDestroy(e));
}

/* As a framework does it: an event and a wait before each, an event behind each. */
static void a_loop_with_events_is_grouped(void **state)
{
	CUstream current = gather_stream(CU_STREAM_NON_BLOCKING);
	CUevent before = event_new(PLAIN), after[40];
	(void)state;
	for (int i = 0; i < 40; i++)
		after[i] = event_new(PLAIN);
	for (int i = 0; i < 40; i++) {
		OK(cuEventRecord(before, current));
		OK(cuStreamWaitEvent(stream, before, 0));
		gather(i);
		OK(cuEventRecord(after[i], stream));
	}
	for (int i = 0; i < 40; i++)
		OK(cuStreamWaitEvent(current, after[i], 0));
	OK(cuStreamSynchronize(current));
	assert_true(all_arrived(0, 40));
	must_group(40);
	for (int i = 0; i < 40; i++)
		OK(cuEventDestroy(after[i]));
	OK(cuEventDestroy(before));
	OK(cuStreamDestroy(current));
}

static void they_come_without_another_call(void **state)
{
	(void)state;
	gathers(0, 5);
	must_arrive(0, 5);
	gathers(5, 1);
	must_arrive(5, 1);
}

static void an_event_behind_is_not_over_early(void **state)
{
	CUevent e = event_new(PLAIN);
	(void)state;
	gate_close(stream);
	gathers(0, 8);
	OK(cuEventRecord(e, stream));
	for (int i = 0; i < 200; i++, usleep(100))
		assert_int_equal(cuEventQuery(e), CUDA_ERROR_NOT_READY);
	gate_open();
	must_event(e);
	assert_true(all_arrived(0, 8));
	OK(cuEventDestroy(e));
}

static void a_stream_is_not_idle_early(void **state)
{
	CUresult r;
	(void)state;
	gate_close(stream);
	gathers(0, 8);
	for (int i = 0; i < 200; i++, usleep(100))
		assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	gate_open();
	while ((r = cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY)
		usleep(200);
	OK(r);
	assert_true(all_arrived(0, 8));
}

/* Every answer at any time: over means arrived. */
static void questions_are_never_ahead(void **state)
{
	CUevent e = event_new(PLAIN);
	(void)state;
	for (int round = 0; round < 200; round++) {
		memset(gather_to(0), 0, 8 * GATHER_BYTES);
		gathers(0, 1 + round % 8);
		OK(cuEventRecord(e, stream));
		CUresult r = round % 2 ? cuEventQuery(e) : cuStreamQuery(stream);
		assert_true(r == CUDA_ERROR_NOT_READY || (r == CUDA_SUCCESS && all_arrived(0, 1 + round % 8)));
		OK(cuEventSynchronize(e));
		assert_true(all_arrived(0, 1 + round % 8));
		OK(cuEventQuery(e));
		OK(cuStreamQuery(stream));
	}
	OK(cuEventDestroy(e));
}

static void a_recorded_again_event_is_the_new_one(void **state)
{
	CUstream other = gather_stream(CU_STREAM_NON_BLOCKING);
	CUevent e = event_new(PLAIN);
	(void)state;
	gathers(0, 4);
	OK(cuEventRecord(e, stream));
	gate_close(other);
	OK(cuEventRecord(e, other)); /* elsewhere, behind the gate */
	OK(cuStreamSynchronize(stream));
	assert_true(all_arrived(0, 4));
	assert_int_equal(cuEventQuery(e), CUDA_ERROR_NOT_READY);
	gathers(4, 4);
	OK(cuEventRecord(e, stream)); /* and back, behind what is held back */
	must_event(e);
	assert_true(all_arrived(4, 4));
	gate_open();
	/* Twice behind the same. */
	gathers(8, 2);
	OK(cuEventRecord(e, stream));
	gathers(10, 2);
	OK(cuEventRecord(e, stream));
	must_event(e);
	assert_true(all_arrived(8, 4));
	OK(cuEventDestroy(e));
	OK(cuStreamDestroy(other));
}

/* The handle may be given to another event at once. */
static void a_destroyed_event_leaves_nothing(void **state)
{
	CUstream other = gather_stream(CU_STREAM_NON_BLOCKING);
	(void)state;
	for (int i = 0; i < 60; i++) {
		CUevent e = event_new(PLAIN), next;
		gather(i);
		OK(cuEventRecord(e, stream));
		OK(cuEventDestroy(e));
		next = event_new(PLAIN);
		OK(cuEventQuery(next)); /* never recorded */
		OK(cuEventRecord(next, other));
		OK(cuEventSynchronize(next));
		OK(cuEventDestroy(next));
	}
	must_arrive(0, 60);
	OK(cuStreamDestroy(other));
}

static void a_wait_of_another_stream_orders(void **state)
{
	CUstream other = gather_stream(CU_STREAM_NON_BLOCKING);
	CUevent e = event_new(PLAIN);
	(void)state;
	gate_close(stream);
	gathers(0, 6);
	OK(cuEventRecord(e, stream));
	OK(cuStreamWaitEvent(other, e, 0));
	OK(cuMemcpyAsync((CUdeviceptr)gather_to(10), (CUdeviceptr)gather_to(5), GATHER_BYTES, other));
	usleep(2000);
	assert_int_equal(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
	gate_open();
	OK(cuStreamSynchronize(other));
	assert_memory_equal(gather_to(10), gather_from(5), GATHER_BYTES);
	OK(cuEventDestroy(e));
	OK(cuStreamDestroy(other));
}

/* A wait that is placed behind held back operations does not hold them up. */
static void a_later_wait_is_not_inherited(void **state)
{
	CUstream other = gather_stream(CU_STREAM_NON_BLOCKING);
	CUevent e = event_new(PLAIN);
	(void)state;
	gate_close(other);
	OK(cuEventRecord(e, other));
	gathers(0, 3);
	OK(cuStreamWaitEvent(stream, e, 0));
	gathers(3, 3);
	must_arrive(0, 3); /* the gate is closed still */
	assert_false(arrived(3) || arrived(4) || arrived(5));
	gate_open();
	must_arrive(3, 3);
	OK(cuEventDestroy(e));
	OK(cuStreamDestroy(other));
}

/* An event that was recorded anew, on all streams at once, is another dependency than it was. */
static void an_event_of_a_context_is_not_the_old_one(void **state)
{
	CUstream other = gather_stream(CU_STREAM_NON_BLOCKING), current = gather_stream(CU_STREAM_NON_BLOCKING);
	CUevent e = event_new(PLAIN);
	(void)state;
	OK(cuEventRecord(e, current));
	OK(cuStreamWaitEvent(stream, e, 0));
	gate_close(other);
	OK(cuCtxRecordEvent(ctx, e));
	gathers(0, 3);
	OK(cuStreamWaitEvent(stream, e, 0));
	gathers(3, 3);
	must_arrive(0, 3); /* the gate is closed still */
	assert_false(arrived(3) || arrived(4) || arrived(5));
	gate_open();
	must_arrive(3, 3);
	OK(cuEventDestroy(e));
	OK(cuStreamDestroy(other));
	OK(cuStreamDestroy(current));
}

static void host_count(void *user)
{
	int *at = user;

	*at = all_arrived(0, 5) ? 1 : -1;
}

static void host_functions_stay_behind(void **state)
{
	static int what;
	(void)state;
	what = 0;
	gathers(0, 5);
	OK(cuLaunchHostFunc(stream, host_count, &what));
	OK(cuStreamSynchronize(stream));
	assert_int_equal(what, 1);
}

static void memory_operations_stay_behind(void **state)
{
	(void)state;
	for (int round = 0; round < 30; round++) {
		gathers(0, 3);
		OK(cuMemcpyAsync((CUdeviceptr)gather_to(20), (CUdeviceptr)gather_to(2), GATHER_BYTES, stream));
		OK(cuMemsetD8Async((CUdeviceptr)gather_to(2), 9, GATHER_BYTES, stream));
		gathers(3, 2);
		OK(cuStreamSynchronize(stream));
		assert_memory_equal(gather_to(20), gather_from(2), GATHER_BYTES);
		assert_int_equal(gather_to(2)[17], 9);
		assert_true(all_arrived(0, 2) && all_arrived(3, 2));
	}
}

/* What the last one has received is what the next one sends. */
static void a_chain_stays_a_chain(void **state)
{
	(void)state;
	for (int round = 0; round < 20; round++) {
		gather(1);
		for (int i = 2; i < 12; i++) {
			memset(gather_to(i), 0, GATHER_BYTES);
			OK(ncclAllGather(gather_to(i - 1), gather_to(i), GATHER_BYTES, ncclUint8, comm, stream));
		}
		OK(cuStreamSynchronize(stream));
		assert_memory_equal(gather_to(11), gather_from(1), GATHER_BYTES);
	}
	/* And into the same place: the last one stays. */
	for (int i = 0; i < 8; i++)
		OK(ncclAllGather(gather_from(i), gather_to(30), GATHER_BYTES, ncclUint8, comm, stream));
	OK(cuStreamSynchronize(stream));
	assert_memory_equal(gather_to(30), gather_from(7), GATHER_BYTES);
}

static void synchronisations_wait_for_all(void **state)
{
	CUdeviceptr p;
	(void)state;
	gathers(0, 7);
	OK(cuCtxSynchronize());
	assert_true(all_arrived(0, 7));
	gathers(10, 7);
	OK(cuStreamSynchronize(stream));
	assert_true(all_arrived(10, 7));
	OK(cuMemAlloc(&p, 4096));
	gathers(20, 7);
	OK(cuMemFree(p));
	assert_true(all_arrived(20, 7));
}

static void a_stream_is_destroyed(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		CUstream s = gather_stream(CU_STREAM_NON_BLOCKING);
		CUevent e = event_new(PLAIN);
		for (int k = 0; k < 3; k++)
			gather_on(k, comm, s);
		OK(cuEventRecord(e, s));
		OK(cuStreamDestroy(s));
		must_event(e);
		assert_true(all_arrived(0, 3));
		OK(cuEventDestroy(e));
	}
}

static void memory_is_freed_at_once(void **state)
{
	(void)state;
	for (int i = 0; i < 30; i++) {
		CUdeviceptr a, b;
		OK(cuMemAlloc(&a, 4096));
		OK(cuMemAlloc(&b, 4096));
		OK(ncclAllGather((void *)a, (void *)b, 4096, ncclUint8, comm, stream));
		gather(1);
		OK(cuMemFree(a)); /* waits for the device */
		OK(cuMemFree(b));
		assert_true(arrived(1));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GATHER(a_loop_is_grouped),
		GATHER(a_loop_with_events_is_grouped),
		GATHER(they_come_without_another_call),
		GATHER(an_event_behind_is_not_over_early),
		GATHER(a_stream_is_not_idle_early),
		GATHER(questions_are_never_ahead),
		GATHER(a_recorded_again_event_is_the_new_one),
		GATHER(a_destroyed_event_leaves_nothing),
		GATHER(a_wait_of_another_stream_orders),
		GATHER(a_later_wait_is_not_inherited),
		GATHER(an_event_of_a_context_is_not_the_old_one),
		GATHER(host_functions_stay_behind),
		GATHER(memory_operations_stay_behind),
		GATHER(a_chain_stays_a_chain),
		GATHER(synchronisations_wait_for_all),
		GATHER(a_stream_is_destroyed),
		GATHER(memory_is_freed_at_once),
	};
	return cmocka_run_group_tests(tests, gather_setup, gather_teardown);
}

/* NATIVE: the simulated driver reserves more than valgrind has. */
/* test_nccl_progress.c - how far the GPU got is known, in the order of a communicator's operations, and only what is so. */
#include "common/progress_fixture.h"

#define COMM (&rig_comm[0])
#define OTHER (&rig_comm[1])

static void a_call_begins_and_ends(void **state)
{
	CUstream s = stream_new();
	(void)state;
	launch_gate(s, 0);
	assert_int_not_equal(call_gate(COMM, s, 1), 0);
	sleep_ms(LOOKS_MS);
	assert_int_equal(op_of(COMM, 1)->started, 0);
	assert_int_equal(COMM->started, 0);
	uint64_t opened = progress_now();
	gate_open(0);
	EVENTUALLY(COMM->started == 1);
	assert_true(op_of(COMM, 1)->started >= opened);
	assert_true(COMM->changed >= opened);
	sleep_ms(LOOKS_MS);
	assert_int_equal(COMM->done, 0);
	assert_int_equal(op_of(COMM, 1)->done, 0);
	opened = progress_now();
	gate_open(1);
	EVENTUALLY(COMM->done == 1);
	assert_true(op_of(COMM, 1)->done >= opened);
	assert_true(rig_page.sampled >= opened);
}

/* The first is on its way; the second, on another stream, is done before it. */
static void a_later_call_does_not_speak_for_an_earlier_one(void **state)
{
	CUstream a = stream_new(), b = stream_new();
	(void)state;
	call_gate(COMM, a, 0);
	call_gate(COMM, b, 1);
	issue(COMM, 0, 0); /* nobody knows about this one, */
	call_gate(COMM, b, 2);
	gate_open(1);
	EVENTUALLY(op_of(COMM, 2)->done);
	assert_int_equal(COMM->done, 0);
	assert_int_equal(op_of(COMM, 1)->done, 0);
	gate_open(0);
	EVENTUALLY(COMM->done == 2);
	sleep_ms(LOOKS_MS);
	assert_int_equal(COMM->done, 2);
	gate_open(2);
	EVENTUALLY(COMM->done == 4); /* but what comes after it does. */
}

/* A group's operations are one launch a stream, and there when all of these are. */
static void a_group_is_done_with_its_last_stream(void **state)
{
	CUstream a = stream_new(), b = stream_new();
	(void)state;
	issue(COMM, 10, 7);
	issue(COMM, 10, 7);
	issue(COMM, 10, 7);
	uint32_t one = before(COMM, a), two = before(COMM, b);
	launch_gate(a, 0);
	launch_gate(b, 1);
	after(one, 3);
	after(two, 3);
	EVENTUALLY(COMM->started == 3);
	for (unsigned i = 1; i <= 3; i++)
		assert_true(op_of(COMM, i)->started);
	gate_open(1);
	sleep_ms(LOOKS_MS);
	assert_int_equal(COMM->done, 0);
	assert_int_equal(op_of(COMM, 3)->done, 0);
	gate_open(0);
	EVENTUALLY(COMM->done == 3);
	for (unsigned i = 1; i <= 3; i++)
		assert_true(op_of(COMM, i)->done);
}

/* The operations of a group's streams take turns: each has its times when all streams are there. */
static void streams_of_a_group_take_turns(void **state)
{
	CUstream a = stream_new(), b = stream_new();
	(void)state;
	for (unsigned order = 0; order < 2; order++) {
		uint64_t first = atomic_load(&COMM->issued) + 1;
		for (unsigned i = 0; i < 4; i++)
			op_of(COMM, issue(COMM, 1000000, 8 + order))->stream = (uint64_t)(uintptr_t)(i % 2 ? b : a);
		uint32_t one = before(COMM, a), two = before(COMM, b);
		launch_gate(a, 2 * order);
		launch_gate(b, 2 * order + 1);
		after(one, first + 2);
		after(two, first + 3);
		gate_open(2 * order + (order ? 0 : 1));
		sleep_ms(LOOKS_MS);
		for (unsigned i = 0; i < 4; i++) {
			assert_true(op_of(COMM, first + i)->started);
			assert_false(op_of(COMM, first + i)->done);
		}
		assert_int_equal(COMM->done, first - 1);
		gate_open(2 * order + (order ? 1 : 0));
		EVENTUALLY(COMM->done == first + 3);
		for (unsigned i = 0; i < 4; i++)
			assert_true(op_of(COMM, first + i)->done);
	}
}

/* A rate that was not reached would make the judge impatient. */
static void the_rate_is_never_too_high(void **state)
{
	CUstream s = stream_new();
	(void)state;
	/* Longer than a look's distance: some are seen to begin later than they are seen to end. */
	for (unsigned i = 0; i < 6; i++) {
		uint64_t index = issue(COMM, 1000000, 0);
		uint32_t launch = before(COMM, s);
		launch_spin(s, 60000);
		after(launch, index);
	}
	EVENTUALLY(COMM->done == 6);
	assert_in_range(COMM->best_rate, 2000000, 1000000000 / 60); /* a megabyte in 60 ms */
	/* What a group has on several streams counts once. */
	CUstream other = stream_new();
	for (unsigned i = 0; i < 4; i++)
		op_of(OTHER, issue(OTHER, 1000000, 1))->stream = (uint64_t)(uintptr_t)(i % 2 ? s : other);
	uint32_t one = before(OTHER, s), two = before(OTHER, other);
	launch_spin(s, 100000);
	launch_spin(other, 100000);
	after(one, 4);
	after(two, 3);
	EVENTUALLY(OTHER->done == 4);
	assert_in_range(OTHER->best_rate, 1, 40000000);
}

static void all_kinds_of_streams(void **state)
{
	CUcontext first, second;
	CUstream far;
	(void)state;
	assert_int_not_equal(call_gate(COMM, NULL, 0), 0);
	gate_open(0);
	EVENTUALLY(COMM->done == 1);
	assert_int_not_equal(call_gate(COMM, CU_STREAM_LEGACY, 0), 0);
	assert_int_not_equal(call_gate(COMM, CU_STREAM_PER_THREAD, 0), 0);
	EVENTUALLY(COMM->done == 3);
	/* A stream of another device than the current one, and a default stream that is not the device's. */
	OK(REAL(cuCtxGetCurrent)(&first));
	OK(REAL(cuDevicePrimaryCtxRetain)(&second, 1));
	OK(REAL(cuCtxSetCurrent)(second));
	far = stream_new();
	assert_int_equal(before(COMM, NULL), 0);
	OK(REAL(cuCtxSetCurrent)(first));
	OTHER->device = 1;
	uint64_t index = issue(OTHER, 0, 0);
	uint32_t launch = before(OTHER, far);
	assert_int_not_equal(launch, 0);
	after(launch, index);
	EVENTUALLY(OTHER->done == 1);
	CUcontext current;
	OK(REAL(cuCtxGetCurrent)(&current));
	assert_ptr_equal(current, first);
	OK(cuDevicePrimaryCtxRelease_v2(1));
}

static void nothing_is_put_into_a_capture(void **state)
{
	CUstream s = stream_new(), blocking, plain = stream_new();
	CUgraph graph;
	size_t nodes = 0;
	(void)state;
	call_gate(COMM, plain, 0); /* keeps the sampler asking */
	OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	assert_int_equal(before(COMM, s), 0);
	uint64_t index = issue(COMM, 0, 0);
	uint32_t launch = before(COMM, plain); /* is followed as ever */
	assert_int_not_equal(launch, 0);
	after(launch, index);
	sleep_ms(LOOKS_MS);
	OK(cuStreamEndCapture(s, &graph));
	OK(REAL(cuGraphGetNodes)(graph, NULL, &nodes));
	assert_int_equal(nodes, 0);
	OK(cuGraphDestroy(graph));
	/* An event on the legacy stream would break the capture of a blocking one. */
	OK(REAL(cuStreamCreate)(&blocking, 0));
	OK(cuStreamBeginCapture_v2(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL));
	assert_int_equal(before(COMM, NULL), 0);
	OK(cuStreamEndCapture(blocking, &graph));
	OK(cuGraphDestroy(graph));
	gate_open(0);
	EVENTUALLY(COMM->done == 2);
}

static void a_stream_may_go_with_launches_open(void **state)
{
	CUstream s = stream_new();
	(void)state;
	call_gate(COMM, s, 0);
	OK(cuStreamDestroy_v2(s));
	sleep_ms(LOOKS_MS);
	assert_int_equal(COMM->done, 0);
	gate_open(0);
	EVENTUALLY(COMM->done == 1);
}

/* Its place is somebody else's when they are done. */
static void a_communicator_may_go_with_launches_open(void **state)
{
	CUstream s = stream_new();
	(void)state;
	call_gate(COMM, s, 0);
	sleep_ms(LOOKS_MS);
	atomic_fetch_add(&COMM->life, 1);
	atomic_store(&COMM->issued, 0);
	atomic_store(&COMM->started, 0);
	atomic_store(&op_of(COMM, 1)->started, 0);
	gate_open(0);
	sleep_ms(LOOKS_MS);
	assert_int_equal(COMM->done, 0);
	assert_int_equal(op_of(COMM, 1)->done, 0);
	assert_int_equal(op_of(COMM, 1)->started, 0);
	call_gate(COMM, s, 0);
	EVENTUALLY(COMM->done == 1);
}

/* Many calls between two looks: the ring has gone round, the newest have their times. */
static void old_operations_do_not_get_a_newer_ones_time(void **state)
{
	CUstream s = stream_new();
	(void)state;
	for (unsigned i = 0; i < FLIGHT_OPS + 44; i++)
		call_gate(COMM, s, i ? 1 : 0);
	uint64_t last = FLIGHT_OPS + 44;
	gate_open(0);
	sleep_ms(LOOKS_MS);
	assert_int_equal(COMM->done, 1);
	assert_int_equal(op_of(COMM, 1 + FLIGHT_OPS)->done, 0); /* stands where the first stood */
	gate_open(1);
	EVENTUALLY(COMM->done == last);
	assert_true(op_of(COMM, last)->done);
}

static void many_are_followed_and_too_many_are_not(void **state)
{
	CUstream s = stream_new();
	unsigned followed = 0;
	(void)state;
	launch_gate(s, 0);
	for (unsigned i = 0; i < LAUNCHES + 100; i++) {
		uint64_t index = issue(COMM, 0, 0);
		uint32_t launch = before(COMM, s);
		after(launch, index);
		followed += launch != 0;
	}
	assert_true(followed > LAUNCHES / 2 && followed <= LAUNCHES);
	gate_open(0);
	EVENTUALLY(COMM->done == followed);
	uint64_t events = rig_sim_live_events();
	assert_int_not_equal(call_gate(COMM, s, 0), 0);
	EVENTUALLY(COMM->done == COMM->issued);
	assert_int_equal(rig_sim_live_events(), events); /* they are used again */
}

static void what_the_driver_refuses_is_not_followed(void **state)
{
	CUstream s = stream_new();
	(void)state;
	rig_sim_fail_set("cuEventRecord", 1, CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(before(COMM, s), 0);
	uint64_t index = issue(COMM, 0, 0);
	uint32_t launch = before(COMM, s);
	assert_int_not_equal(launch, 0);
	rig_sim_fail_set("cuEventRecord", 1, CUDA_ERROR_OUT_OF_MEMORY);
	after(launch, index); /* without an end */
	sleep_ms(LOOKS_MS);
	assert_int_equal(COMM->done, 0);
	rig_sim_fail_set("cuStreamGetCtx", 1, CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(before(COMM, s), 0);
	COMM->nonblocking = 1;
	assert_int_equal(before(COMM, s), 0);
	COMM->nonblocking = 0;
	call_gate(COMM, s, 0);
	gate_open(0);
	EVENTUALLY(COMM->done == 2); /* and what came before it */
	after(0, 3);
	after(12345678, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_call_begins_and_ends),
		CASE(a_later_call_does_not_speak_for_an_earlier_one),
		CASE(a_group_is_done_with_its_last_stream),
		CASE(streams_of_a_group_take_turns),
		CASE(the_rate_is_never_too_high),
		CASE(all_kinds_of_streams),
		CASE(nothing_is_put_into_a_capture),
		CASE(a_stream_may_go_with_launches_open),
		CASE(a_communicator_may_go_with_launches_open),
		CASE(old_operations_do_not_get_a_newer_ones_time),
		CASE(many_are_followed_and_too_many_are_not),
		CASE(what_the_driver_refuses_is_not_followed),
	};
	return cmocka_run_group_tests_name("nccl_progress", tests, rig_open, NULL);
}

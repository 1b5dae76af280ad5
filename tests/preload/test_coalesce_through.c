/* LINK: cuda nccl ENV: TURBO_NCCL_COALESCE=on BARE */
/*
 * test_coalesce_through.c - what is not held back, and what comes between: timing events, streams that block, communicators that do
 * not, split ones, several, captures, groups of the program's own, large and wrong calls, late errors, ends.
 */
#include <sys/wait.h>

#include "common/gather_fixture.h"

#define PLAIN CU_EVENT_DISABLE_TIMING

/* TORCH_NCCL_ENABLE_TIMING */
static void timing_events_time(void **state)
{
	CUevent a = event_new(0), b = event_new(0);
	float ms = -1;
	(void)state;
	for (int round = 0; round < 20; round++) {
		OK(cuEventRecord(a, stream));
		gathers(0, 3);
		OK(cuEventRecord(b, stream));
		must_event(b);
		assert_true(all_arrived(0, 3));
		OK(cuEventElapsedTime(&ms, a, b));
		assert_true(ms >= 0);
	}
	/* Asked for while it is not over. */
	gate_close(stream);
	OK(cuEventRecord(a, stream));
	gathers(0, 3);
	OK(cuEventRecord(b, stream));
	assert_int_equal(cuEventElapsedTime(&ms, a, b), CUDA_ERROR_NOT_READY);
	gate_open();
	OK(cuEventSynchronize(b));
	OK(cuEventElapsedTime(&ms, a, b));
	OK(cuEventDestroy(a));
	OK(cuEventDestroy(b));
}

static void a_plain_event_has_no_time(void **state)
{
	CUevent a = event_new(PLAIN), b = event_new(PLAIN);
	float ms;
	(void)state;
	OK(cuEventRecord(a, stream));
	gathers(0, 3);
	OK(cuEventRecord(b, stream));
	assert_int_equal(cuEventElapsedTime(&ms, a, b), CUDA_ERROR_INVALID_HANDLE);
	OK(cuEventSynchronize(b));
	assert_true(all_arrived(0, 3));
	OK(cuEventDestroy(a));
	OK(cuEventDestroy(b));
}

/* TORCH_NCCL_BLOCKING_WAIT: the host waits for each. */
static void each_is_waited_for(void **state)
{
	CUevent e = event_new(PLAIN | CU_EVENT_BLOCKING_SYNC);
	(void)state;
	for (int i = 0; i < 50; i++) {
		gather(i);
		OK(cuEventRecord(e, stream));
		if (i % 2)
			OK(cuEventSynchronize(e));
		else
			must_event(e);
		assert_true(arrived(i));
	}
	must_not_group(50);
	OK(cuEventDestroy(e));
}

static void streams_that_block_pass(void **state)
{
	CUstream s = gather_stream(CU_STREAM_DEFAULT), on[] = {s, NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
	(void)state;
	for (int k = 0; k < 4; k++) {
		for (int i = 0; i < 5; i++)
			gather_on(5 * k + i, comm, on[k]);
		OK(cuStreamSynchronize(on[k]));
		assert_true(all_arrived(5 * k, 5));
	}
	must_not_group(20);
	OK(cuStreamDestroy(s));
}

static void a_communicator_that_does_not_block_passes(void **state)
{
	ncclComm_t c = comm_new(false);
	struct groups g;
	(void)state;
	for (int i = 0; i < 12; i++)
		gather_on(i, c, stream);
	OK(cuStreamSynchronize(stream));
	assert_true(all_arrived(0, 12));
	g = groups_of(c);
	assert_int_equal(g.operations, 12);
	assert_int_equal(g.launches, 12);
	gather_on(20, c, stream);
	gather(21);
	gather_on(22, c, stream);
	OK(cuStreamSynchronize(stream));
	assert_true(all_arrived(20, 3));
	ncclResult_t r = ncclCommFinalize(c);
	while (r == ncclInProgress)
		OK(ncclCommGetAsyncError(c, &r));
	OK(ncclCommDestroy(c));
}

static void a_split_one_keeps_its_order(void **state)
{
	ncclComm_t child = NULL;
	(void)state;
	gathers(0, 4);
	OK(ncclCommSplit(comm, 0, 0, &child, NULL));
	gather_on(4, child, stream);
	for (int i = 5; i < 40; i++)
		gather_on(i, i % 5 ? child : comm, stream);
	OK(cuStreamSynchronize(stream));
	assert_true(all_arrived(0, 40));
	assert_int_equal(groups_of(comm).operations + groups_of(child).operations, 40);
	gathers(40, 3);
	gather_on(43, child, stream);
	OK(ncclCommDestroy(child));
	must_arrive(40, 4);
}

static void several_communicators_keep_their_order(void **state)
{
	ncclComm_t c[3] = {comm, comm_new(true), comm_new(true)};
	CUstream s[3] = {stream, gather_stream(CU_STREAM_NON_BLOCKING), gather_stream(CU_STREAM_NON_BLOCKING)};
	CUevent e = event_new(PLAIN);
	(void)state;
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 30; i++) {
			int k = i / 4 % 3;
			gather_on(i, c[k], s[k]);
			if (i % 7 == 0) {
				OK(cuEventRecord(e, s[k]));
				OK(cuStreamWaitEvent(s[(k + 1) % 3], e, 0));
			}
		}
		OK(cuCtxSynchronize());
		assert_true(all_arrived(0, 30));
	}
	for (int k = 1; k < 3; k++) {
		OK(ncclCommDestroy(c[k]));
		OK(cuStreamDestroy(s[k]));
	}
	OK(cuEventDestroy(e));
}

static CUgraphExec capture(CUstreamCaptureMode mode, CUgraph *graph)
{
	CUgraphExec exec;

	OK(cuStreamBeginCapture(stream, mode));
	for (int i = 0; i < 4; i++)
		OK(ncclAllGather(gather_from(i), gather_to(i), GATHER_BYTES, ncclUint8, comm, stream));
	usleep(3000); /* longer than anything is held back */
	OK(cuStreamEndCapture(stream, graph));
	OK(cuGraphInstantiate(&exec, *graph, 0));
	return exec;
}

static void captures_pass(void **state)
{
	static const CUstreamCaptureMode modes[] = {
		CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED};
	(void)state;
	for (int k = 0; k < 3; k++) {
		CUgraph graph;
		size_t nodes = 0;
		gathers(10, 3); /* held back when it begins */
		CUgraphExec exec = capture(modes[k], &graph);
		must_arrive(10, 3);
		OK(cuGraphGetNodes(graph, NULL, &nodes));
		assert_int_equal(nodes, 4); /* a copy each */
		for (int replay = 0; replay < 3; replay++) {
			memset(gather_to(0), 0, 4 * GATHER_BYTES);
			gathers(20, 2);
			OK(cuGraphLaunch(exec, stream));
			gathers(22, 2);
			OK(cuStreamSynchronize(stream));
			assert_true(all_arrived(0, 4) && all_arrived(20, 4));
		}
		OK(cuGraphExecDestroy(exec));
		OK(cuGraphDestroy(graph));
	}
}

struct beside {
	ncclComm_t comm;
	CUstream stream;
	bool ok;
};

static void *beside(void *arg)
{
	struct beside *b = arg;

	b->ok = !cuCtxSetCurrent(ctx);
	for (int i = 30; i < 36; i++)
		b->ok = b->ok &&
				!ncclAllGather(gather_from(i), gather_to(i), GATHER_BYTES, ncclUint8, b->comm, b->stream);
	return NULL;
}

/* Nothing is held back that a capture of another thread, which forbids calls, would keep from being launched. */
static void a_capture_elsewhere_delays_nothing(void **state)
{
	struct beside b = {comm_new(true), gather_stream(CU_STREAM_NON_BLOCKING), false};
	pthread_t thread;
	CUgraph graph;
	(void)state;
	gather_on(29, b.comm, b.stream);
	OK(cuCtxSynchronize());
	memset(gather_to(30), 0, 6 * GATHER_BYTES);
	OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	pthread_create(&thread, NULL, beside, &b);
	pthread_join(thread, NULL);
	assert_true(b.ok);
	must_arrive(30, 6);
	OK(ncclAllGather(gather_from(1), gather_to(1), GATHER_BYTES, ncclUint8, comm, stream));
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphDestroy(graph));
	OK(ncclCommDestroy(b.comm));
	OK(cuStreamDestroy(b.stream));
}

static void a_group_by_hand_stays_one(void **state)
{
	struct groups g;
	(void)state;
	gathers(0, 2);
	OK(ncclGroupStart());
	gathers(2, 5);
	OK(ncclGroupEnd());
	gathers(7, 2);
	OK(cuStreamSynchronize(stream));
	assert_true(all_arrived(0, 9));
	g = groups_of(comm);
	assert_int_equal(g.operations, 9);
	assert_int_equal(g.largest, 5);
}

static void other_functions_keep_their_order(void **state)
{
	(void)state;
	for (int round = 0; round < 20; round++) {
		gathers(0, 3);
		OK(ncclAllReduce(gather_to(2), gather_to(30), GATHER_BYTES, ncclUint8, ncclSum, comm, stream));
		OK(ncclBroadcast(gather_to(30), gather_to(31), GATHER_BYTES, ncclUint8, 0, comm, stream));
		OK(ncclAllGather(gather_to(31), gather_to(32), GATHER_BYTES, ncclUint8, comm, stream));
		OK(ncclReduceScatter(gather_to(32), gather_to(33), GATHER_BYTES, ncclUint8, ncclMax, comm, stream));
		gathers(3, 3);
		OK(cuStreamSynchronize(stream));
		assert_true(all_arrived(0, 6));
		assert_memory_equal(gather_to(33), gather_from(2), GATHER_BYTES);
	}
}

static void large_and_empty_ones_pass(void **state)
{
	CUdeviceptr a, b;
	size_t n = 4u << 20;
	(void)state;
	OK(cuMemAlloc(&a, n));
	OK(cuMemAlloc(&b, n));
	for (int i = 0; i < 4; i++)
		OK(ncclAllGather((void *)a, (void *)b, n, ncclUint8, comm, stream));
	must_not_group(4);
	OK(ncclAllGather(gather_from(0), gather_to(0), 0, ncclUint8, comm, stream));
	gathers(1, 3);
	OK(ncclAllGather(gather_from(0), gather_to(0), 0, ncclUint8, comm, stream));
	gathers(4, 3);
	OK(cuStreamSynchronize(stream));
	assert_true(all_arrived(1, 6));
	assert_int_equal(groups_of(comm).operations, 10);
	OK(cuMemFree(a));
	OK(cuMemFree(b));
}

static void wrong_calls_fail_at_once(void **state)
{
	(void)state;
	gathers(0, 3);
	assert_int_equal(ncclAllGather(gather_from(3), gather_to(3), 8, (ncclDataType_t)99, comm, stream),
					 ncclInvalidArgument);
	assert_int_equal(ncclAllGather(gather_from(3), gather_to(3), 8, ncclUint8, NULL, stream),
					 ncclInvalidArgument);
	gathers(4, 3);
	OK(cuStreamSynchronize(stream));
	assert_true(all_arrived(0, 3) && all_arrived(4, 3));
	OK(ncclCommGetAsyncError(comm, &(ncclResult_t){0}));
}

/* What the program was told had succeeded, and could not be launched. */
static void a_late_error_is_told(void **state)
{
	ncclComm_t c = comm_new(true);
	ncclResult_t state_ = ncclSuccess, told = ncclSuccess;
	(void)state;
	gather_on(0, c, stream);
	OK(cuStreamSynchronize(stream));
	sim_fail_set("cuMemcpyDtoDAsync_v2", 0, CUDA_ERROR_OUT_OF_MEMORY);
	for (int i = 0; i < 3 && told == ncclSuccess; i++)
		told = gather_result(i, c, stream);
	cuStreamSynchronize(stream);
	OK(ncclCommGetAsyncError(c, &state_));
	assert_true(told != ncclSuccess || state_ != ncclSuccess);
	if (told == ncclSuccess)
		assert_int_not_equal(gather_result(3, c, stream), ncclSuccess);
	sim_fail_clear();
	ncclCommAbort(c);
}

static void ends_lose_nothing(void **state)
{
	(void)state;
	for (int i = 0; i < 6; i++) {
		ncclComm_t c = comm_new(true);
		gather_on(40, c, stream);
		for (int k = 0; k < 4; k++)
			gather_on(k, c, stream);
		if (i % 3 == 0) {
			OK(ncclCommFinalize(c));
			must_arrive(0, 4);
		}
		OK(ncclCommDestroy(c));
		must_arrive(0, 4);
	}
	/* An abort returns, whatever is held back or hangs. */
	for (int i = 0; i < 4; i++) {
		ncclComm_t c = comm_new(true);
		gather_on(40, c, stream);
		for (int k = 0; k < 4; k++)
			gather_on(k, c, stream);
		OK(ncclCommAbort(c));
		OK(cuStreamSynchronize(stream));
	}
}

/* A child has no part in it, and its parent goes on. */
static void a_child_makes_no_call(void **state)
{
	uint64_t calls = sim_calls_in_child();
	int status;
	pid_t child;
	(void)state;
	gathers(0, 4);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		usleep(20000);
		_exit(0);
	}
	gathers(4, 4);
	OK(cuStreamSynchronize(stream));
	assert_true(all_arrived(0, 8));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(sim_calls_in_child(), calls);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GATHER(timing_events_time),
		GATHER(a_plain_event_has_no_time),
		GATHER(each_is_waited_for),
		GATHER(streams_that_block_pass),
		GATHER(a_communicator_that_does_not_block_passes),
		GATHER(a_split_one_keeps_its_order),
		GATHER(several_communicators_keep_their_order),
		GATHER(captures_pass),
		GATHER(a_capture_elsewhere_delays_nothing),
		GATHER(a_group_by_hand_stays_one),
		GATHER(other_functions_keep_their_order),
		GATHER(large_and_empty_ones_pass),
		GATHER(wrong_calls_fail_at_once),
		GATHER(a_late_error_is_told),
		GATHER(ends_lose_nothing),
		GATHER(a_child_makes_no_call),
	};
	return cmocka_run_group_tests(tests, gather_setup, gather_teardown);
}

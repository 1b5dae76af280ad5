/* LINK: cuda nccl ENV: TURBO_NCCL_COALESCE=on TURBO_DEVMEM=off NOLEAKS: the simulated NCCL keeps the list of a thread that had a group. BARE */
/*
 * test_coalesce_threads.c - all-gathers that one thread has issued and that are held back, and what other threads do beside them.
 */
#include "common/gather_fixture.h"

#define PLAIN CU_EVENT_DISABLE_TIMING
#define MOVES "cuMemcpyDtoDAsync_v2" /* how the simulated NCCL launches what one rank alone calls */

/* ---- a thread that does one thing after the other, when it is told to ---- */

static struct {
	pthread_t thread;
	ncclComm_t comm; /* what it calls for */
	CUstream stream;
	int slot;
	_Atomic int told, done; /* steps */
	uint64_t moved;         /* operations that were launched when it was done */
} beside;

static void let_do(int step)
{
	beside.told = step;
	while (beside.done < step)
		;
}

static void *group_in_steps(void *arg)
{
	(void)arg;
	OK(cuCtxSetCurrent(ctx));
	OK(ncclGroupStart());
	for (beside.done = 1; beside.told < 2;)
		;
	gather_on(beside.slot, beside.comm, beside.stream);
	for (beside.done = 2; beside.told < 3;)
		;
	OK(ncclGroupEnd());
	beside.moved = sim_calls(MOVES);
	beside.done = 3;
	return NULL;
}

static void begin_group(ncclComm_t c, CUstream s, int slot)
{
	beside.comm = c;
	beside.stream = s;
	beside.slot = slot;
	beside.told = 1;
	beside.done = 0;
	assert_int_equal(pthread_create(&beside.thread, NULL, group_in_steps, NULL), 0);
	while (beside.done < 1)
		;
}

/* What a group submits comes after what other threads have called before its end. */
static void a_groups_end_comes_after(void **state)
{
	CUstream s = gather_stream(CU_STREAM_NON_BLOCKING);
	ncclComm_t c = comm_new(true);
	(void)state;
	for (int round = 0; round < 50; round++) {
		begin_group(c, s, 30);
		let_do(2);
		uint64_t before = sim_calls(MOVES);
		gathers(0, 3);
		let_do(3);
		assert_int_equal(beside.moved - before, 4);
		pthread_join(beside.thread, NULL);
		OK(cuCtxSynchronize());
		assert_true(all_arrived(0, 3) && arrived(30));
	}
	OK(ncclCommDestroy(c));
	OK(cuStreamDestroy(s));
}

/* A call in a group may be none on another rank, so nothing of this communicator is counted any more, also when the call before
 * it is another thread's and held back still. */
static void a_group_ends_counting_once(void)
{
	ncclComm_t c = comm_new(true);
	struct groups g;
	gather_on(0, c, stream);
	OK(cuCtxSynchronize());
	begin_group(c, stream, 30);
	for (int i = 0; i < 3; i++)
		gather_on(i, c, stream);
	let_do(2);
	let_do(3);
	pthread_join(beside.thread, NULL);
	OK(cuCtxSynchronize());
	assert_true(all_arrived(0, 3) && arrived(30));
	g = groups_of(c);
	for (int i = 0; i < 40; i++)
		gather_on(i, c, stream);
	OK(cuCtxSynchronize());
	assert_true(all_arrived(0, 40));
	assert_int_equal(groups_of(c).launches - g.launches, 40);
	OK(ncclCommDestroy(c));
}

static void a_group_ends_counting(void **state)
{
	(void)state;
	for (int round = 0; round < 20; round++)
		a_group_ends_counting_once();
}

/* ---- a first call, for which NCCL waits for the other ranks ---- */

static struct {
	ncclComm_t comm[2];
	CUcontext ctx[2];
	CUstream stream[2];
	_Atomic bool freed;
} pair;

static void *call_first(void *arg)
{
	(void)arg;
	OK(cuCtxSetCurrent(pair.ctx[0]));
	OK(ncclAllGather(gather_from(40), gather_to(40), GATHER_BYTES, ncclUint8, pair.comm[0], pair.stream[0]));
	return NULL;
}

static void *free_memory(void *arg)
{
	CUdeviceptr p;

	(void)arg;
	OK(cuCtxSetCurrent(pair.ctx[0]));
	OK(cuMemAlloc(&p, 4096));
	OK(cuMemFree(p));
	pair.freed = true;
	return NULL;
}

/* What another thread does meanwhile the other rank may be waiting for. */
static void a_first_call_keeps_nobody(void **state)
{
	uint64_t calls = sim_nccl_calls("ncclAllGather");
	pthread_t first, other;
	(void)state;
	OK(ncclCommInitAll(pair.comm, 2, NULL));
	for (int i = 0; i < 2; i++) {
		OK(cuDevicePrimaryCtxRetain(&pair.ctx[i], i));
		OK(cuCtxSetCurrent(pair.ctx[i]));
		pair.stream[i] = gather_stream(CU_STREAM_NON_BLOCKING);
	}
	assert_true(sim_nccl_fault("CONNECT", 1));
	pthread_create(&first, NULL, call_first, NULL);
	while (sim_nccl_calls("ncclAllGather") == calls)
		;
	usleep(10000);
	pthread_create(&other, NULL, free_memory, NULL);
	for (int ms = 0; !pair.freed && ms < GATHER_MS; ms++)
		usleep(1000);
	bool freed = pair.freed;
	OK(ncclAllGather(gather_from(41), gather_to(42), GATHER_BYTES, ncclUint8, pair.comm[1], pair.stream[1]));
	pthread_join(first, NULL);
	pthread_join(other, NULL);
	sim_nccl_fault("CONNECT", 0);
	assert_true(freed);
	for (int i = 0; i < 2; i++) {
		OK(cuCtxSetCurrent(pair.ctx[i]));
		OK(cuCtxSynchronize());
		OK(cuStreamDestroy(pair.stream[i]));
	}
	OK(ncclGroupStart());
	for (int i = 0; i < 2; i++)
		OK(ncclCommDestroy(pair.comm[i]));
	OK(ncclGroupEnd());
	OK(cuDevicePrimaryCtxRelease(0));
	OK(cuCtxSetCurrent(ctx));
	assert_memory_equal(gather_to(40), gather_from(40), GATHER_BYTES);
	assert_memory_equal(gather_to(41), gather_from(41), GATHER_BYTES);
}

/* ---- a launch that takes long ---- */

#define LONG_US 3000000 /* longer than anybody waits who has nothing to do with it */

static CUstream stuck; /* its kernel is what the device is busy with */

/* Frees memory, which waits for the device and keeps all others from submitting anything. */
static void *block_launches(void *arg)
{
	CUdeviceptr p;

	OK(cuCtxSetCurrent(ctx));
	OK(cuMemAlloc(&p, 4096));
	*(_Atomic int *)arg = 1;
	OK(cuMemFree(p));
	return NULL;
}

static void *open_later(void *arg)
{
	(void)arg;
	usleep(LONG_US);
	gate_open();
	return NULL;
}

static pthread_t blocker, opener;

static void launches_take_long(void)
{
	static _Atomic int begun;

	stuck = gather_stream(CU_STREAM_NON_BLOCKING);
	gate_close(stuck);
	begun = 0;
	assert_int_equal(pthread_create(&opener, NULL, open_later, NULL), 0);
	assert_int_equal(pthread_create(&blocker, NULL, block_launches, &begun), 0);
	while (!begun)
		;
	usleep(50000);
}

static void launches_are_fast(void)
{
	pthread_join(opener, NULL);
	pthread_join(blocker, NULL);
	OK(cuStreamDestroy(stuck));
}

/* Whoever issued them is behind them, however long they take. */
static void an_event_waits_for_a_long_launch(void **state)
{
	CUevent e = event_new(PLAIN);
	(void)state;
	launches_take_long();
	gathers(0, 40);
	usleep(5000); /* somebody launches them meanwhile */
	OK(cuEventRecord(e, stream));
	OK(cuEventSynchronize(e));
	assert_true(all_arrived(0, 40));
	launches_are_fast();
	OK(cuEventDestroy(e));
}

static void *waits_for_event(void *arg)
{
	OK(cuCtxSetCurrent(ctx));
	OK(cuEventSynchronize(*(CUevent *)arg));
	assert_true(all_arrived(0, 40));
	return NULL;
}

static void other_threads_wait_for_a_long_launch(void **state)
{
	CUevent e = event_new(PLAIN);
	pthread_t thread;
	(void)state;
	launches_take_long();
	gathers(0, 40);
	OK(cuEventRecord(e, stream));
	usleep(5000);
	assert_int_equal(pthread_create(&thread, NULL, waits_for_event, &e), 0);
	pthread_join(thread, NULL);
	launches_are_fast();
	OK(cuEventDestroy(e));
}

static void calls_follow_a_long_launch(void **state)
{
	(void)state;
	launches_take_long();
	gathers(0, 40);
	usleep(5000);
	/* What the last one has received. */
	memset(gather_to(50), 0, GATHER_BYTES);
	OK(ncclAllGather(gather_to(39), gather_to(50), GATHER_BYTES, ncclUint8, comm, stream));
	OK(ncclAllReduce(gather_to(50), gather_to(51), GATHER_BYTES, ncclUint8, ncclSum, comm, stream));
	OK(cuCtxSynchronize());
	assert_true(all_arrived(0, 40));
	assert_memory_equal(gather_to(51), gather_from(39), GATHER_BYTES);
	launches_are_fast();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GATHER(a_groups_end_comes_after),
		GATHER(a_group_ends_counting),
		GATHER(a_first_call_keeps_nobody),
		GATHER(an_event_waits_for_a_long_launch),
		GATHER(other_threads_wait_for_a_long_launch),
		GATHER(calls_follow_a_long_launch),
	};
	return cmocka_run_group_tests(tests, gather_setup, gather_teardown);
}

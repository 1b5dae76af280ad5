/* LINK: cuda nccl ENV: TURBO_NCCL_COALESCE=on SAN: plain address thread */
/*
 * test_coalesce_stuck.c - NCCL does not come back from the launch of what was held back: whoever does not ask for that goes on, as
 * beside another thread's call; who does waits, and has it.
 */
#include "common/gather_fixture.h"

#define PLAIN CU_EVENT_DISABLE_TIMING
#define STUCK_US 12000000 /* at most; NCCL's simulation draws */
#define TRIES 6

static CUstream other;
static CUevent before;

static void *issue(void *arg)
{
	(void)arg;
	OK(cuCtxSetCurrent(ctx));
	gathers(0, 4);
	return NULL;
}

/* From another thread than this one, and the timer is at it when this returns. */
static void get_stuck(void)
{
	pthread_t thread;

	sim_nccl_fault("ISSUE_US", STUCK_US);
	pthread_create(&thread, NULL, issue, NULL);
	pthread_join(thread, NULL);
	usleep(20000);
	sim_nccl_fault("ISSUE_US", 0);
}

static void unrelated_questions_and_waits(void)
{
	CUevent e = event_new(PLAIN);

	assert_int_equal(cuEventQuery(before), CUDA_SUCCESS);
	OK(cuEventSynchronize(before));
	OK(cuStreamSynchronize(other));
	OK(cuEventQuery(e));
	OK(cuEventDestroy(e));
	/* Unless little was drawn, and the launch is over. */
	assert_true(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY || all_arrived(0, 4));
}

static void others_go_on(void **state)
{
	unsigned passed = 0;
	CUdeviceptr p;
	(void)state;
	other = gather_stream(CU_STREAM_NON_BLOCKING);
	before = event_new(PLAIN);
	OK(cuMemAlloc(&p, 4096));
	OK(cuEventRecord(before, other));
	OK(cuStreamSynchronize(other));
	gather(0);
	OK(cuStreamSynchronize(stream));
	for (int i = 0; i < TRIES && passed < 1; i++) {
		memset(gather_to(0), 0, 4 * GATHER_BYTES);
		get_stuck();
		unrelated_questions_and_waits();
		bool asked = !all_arrived(0, 4);
		OK(cuMemsetD8Async(p, 1, 4096, other));
		OK(cuMemcpyHtoD(p, gather_from(0), 64));
		passed += asked && !all_arrived(0, 4);
		/* Who asks for it waits for it, however long. */
		OK(cuStreamSynchronize(stream));
		assert_true(all_arrived(0, 4));
	}
	if (!passed)
		fail_msg("each time the launch came first");
	/* Nothing is held back any more, and all of it arrives. */
	gathers(10, 8);
	OK(cuStreamSynchronize(stream));
	assert_true(all_arrived(10, 8));
	OK(cuMemFree(p));
}

int main(void)
{
	const struct CMUnitTest tests[] = {GATHER(others_go_on)};

	return cmocka_run_group_tests(tests, gather_setup, gather_teardown);
}

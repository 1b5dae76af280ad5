/* LINK: nccl
 *
 * test_sim_nccl_comm.c - communicators: made, split, shrunk, ended; graphs that hold them.
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "common/simjob.h"
#include "sim_nccl.h"

#define nccl_ok(call) assert_int_equal((call), ncclSuccess)

static void splits_have_their_own_ranks(void **state)
{
	(void)state;
	struct ranks job;
	char order[64];
	job_start(&job, 4, NULL);
	/* Two of two; the key turns their order round. */
	for (int i = 0; i < 4; i++)
		ranks_tell(&job, i, "split %d %d to=1", i % 2, -i);
	for (int i = 0; i < 4; i++)
		job_answers(&job, i);
	job_all(&job, "fill comm=1");
	job_all(&job, "allgather 1000 comm=1");
	job_all(&job, "check");
	/* One rank takes no part. */
	for (int i = 0; i < 4; i++) {
		snprintf(order, sizeof order, "split %d 0 to=2", i == 1 ? -1 : 0);
		ranks_tell(&job, i, "%s", order);
	}
	for (int i = 0; i < 4; i++)
		job_answers(&job, i);
	for (int i = 0; i < 4; i++) {
		if (i == 1)
			continue;
		job_one(&job, i, "fill comm=2");
		job_one(&job, i, "allreduce 10 comm=2");
	}
	for (int i = 0; i < 4; i++)
		job_one(&job, i, "check");
	job_all(&job, "destroy comm=1");
	job_stop(&job);
}

static void a_shrink_leaves_the_dead_behind(void **state)
{
	(void)state;
	struct ranks job;
	job_start(&job, 4, NULL);
	ranks_signal(&job, 1, SIGKILL);
	for (int i = 0; i < 4; i++)
		if (i != 1)
			job_one(&job, i, "allreduce 10"); /* which hangs */
	for (int i = 0; i < 4; i++)
		if (i != 1)
			ranks_tell(&job, i, "shrink 1 to=1 abort=1");
	for (int i = 0; i < 4; i++) {
		if (i == 1)
			continue;
		job_answers(&job, i);
		job_one(&job, i, "fill comm=1");
		job_one(&job, i, "allgather 10 comm=1");
	}
	for (int i = 0; i < 4; i++)
		if (i != 1)
			job_one(&job, i, "check");
	job_end(&job);
}

static void a_revoked_communicator_can_be_split(void **state)
{
	(void)state;
	struct ranks job;
	job_start(&job, 2, NULL);
	job_one(&job, 0, "allreduce 10");
	job_all(&job, "revoke");
	job_idle(&job);
	job_says(&job, 0, "allreduce 10", "error 5 invalid usage (run with NCCL_DEBUG=WARN for details)");
	job_all(&job, "destroy");
	assert_true(ranks_stop(&job, JOB_MS));
}

static void communicators_that_do_not_block(void **state)
{
	(void)state;
	struct ranks job;
	assert_true(ranks_start(&job, 2, NULL));
	ranks_tell(&job, 0, "init nonblocking=1");
	assert_null(ranks_answer(&job, 0, JOB_HANG_MS)); /* it asks until it is ready */
	ranks_tell(&job, 1, "init nonblocking=1");
	for (int i = 0; i < 2; i++)
		job_answers(&job, i);
	for (int k = 0; k < 3; k++) {
		job_all(&job, "allreduce 100");
		job_all(&job, "check");
	}
	job_all(&job, "group");
	job_all(&job, "allgather 10");
	job_all(&job, "allgather 20");
	job_all(&job, "end");
	job_all(&job, "check");
	job_all(&job, "split 0 0 to=1");
	job_all(&job, "fill comm=1");
	job_all(&job, "allreduce 100 comm=1");
	job_all(&job, "check");
	job_all(&job, "finalize");
	job_stop(&job);
}

static void an_abort_ends_an_initialisation(void **state)
{
	(void)state;
	ncclUniqueId id;
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclComm_t comm = NULL;
	ncclResult_t result;
	config.blocking = 0;
	nccl_ok(ncclGetUniqueId(&id));
	assert_int_equal(ncclCommInitRankConfig(&comm, 2, id, 0, &config), ncclInProgress);
	nccl_ok(ncclCommGetAsyncError(comm, &result));
	assert_int_equal(result, ncclInProgress);
	assert_int_equal(ncclAllReduce(NULL, NULL, 1, ncclInt8, ncclSum, comm, NULL), ncclInvalidArgument);
	nccl_ok(ncclCommAbort(comm));
	assert_int_equal(sim_nccl_comms(), 0);
}

/* Ranks as devices of one process, in groups, as they must be. */
static void all_devices_of_one_process(void **state)
{
	(void)state;
	ncclComm_t comm[2];
	CUcontext ctx[2];
	CUdeviceptr data[2];
	CUstream stream[2];
	int rank, count, device;
	nccl_ok(ncclCommInitAll(comm, 2, NULL));
	for (int i = 0; i < 2; i++) {
		nccl_ok(ncclCommUserRank(comm[i], &rank));
		nccl_ok(ncclCommCount(comm[i], &count));
		nccl_ok(ncclCommCuDevice(comm[i], &device));
		assert_int_equal(rank, i);
		assert_int_equal(count, 2);
		assert_int_equal(device, i);
		ok(cuDevicePrimaryCtxRetain(&ctx[i], i));
		ok(cuCtxSetCurrent(ctx[i]));
		data[i] = st_device(4);
		uint32_t value = (uint32_t)i + 1;
		ok(cuMemcpyHtoD_v2(data[i], &value, 4));
		stream[i] = st_stream(CU_STREAM_NON_BLOCKING);
	}
	ok(cuCtxSetCurrent(ctx[0]));
	nccl_ok(ncclGroupStart());
	for (int i = 0; i < 2; i++)
		nccl_ok(ncclAllReduce((void *)data[i], (void *)data[i], 1, ncclUint32, ncclSum, comm[i], stream[i]));
	nccl_ok(ncclGroupEnd());
	for (int i = 0; i < 2; i++) {
		uint32_t value = 0;
		ok(cuStreamSynchronize(stream[i]));
		ok(cuCtxSetCurrent(ctx[i]));
		ok(cuMemcpyDtoH_v2(&value, data[i], 4));
		assert_int_equal(value, 3);
	}
	nccl_ok(ncclGroupStart());
	for (int i = 0; i < 2; i++)
		nccl_ok(ncclCommDestroy(comm[i]));
	nccl_ok(ncclGroupEnd());
	assert_int_equal(sim_nccl_comms(), 0);
	/* What is used after its end is a mistake, and no crash. */
	uint64_t mistakes = sim_nccl_mistakes();
	assert_int_equal(ncclCommDestroy(comm[0]), ncclInvalidArgument);
	assert_int_equal(sim_nccl_mistakes(), mistakes + 1);
	for (int i = 0; i < 2; i++) {
		ok(cuCtxSetCurrent(ctx[i]));
		ok(cuStreamDestroy_v2(stream[i]));
		ok(cuMemFree_v2(data[i]));
		ok(cuDevicePrimaryCtxRelease_v2(i));
	}
	ok(cuCtxSetCurrent(st_ctx));
}

static void premultiplied_sums(void **state)
{
	(void)state;
	ncclComm_t comm;
	ncclRedOp_t op;
	int device = 0;
	float factor = 2.5f, in = 4.0f, out = 0;
	CUdeviceptr data = st_device(4);
	nccl_ok(ncclCommInitAll(&comm, 1, &device));
	nccl_ok(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, ncclScalarHostImmediate, comm));
	ok(cuMemcpyHtoD_v2(data, &in, 4));
	nccl_ok(ncclAllReduce((void *)data, (void *)data, 1, ncclFloat32, op, comm, NULL));
	nccl_ok(ncclRedOpDestroy(op, comm));
	ok(cuStreamSynchronize(NULL));
	ok(cuMemcpyDtoH_v2(&out, data, 4));
	assert_true(out == 10.0f);
	nccl_ok(ncclCommDestroy(comm));
	ok(cuMemFree_v2(data));
}

static void arguments_are_checked(void **state)
{
	(void)state;
	ncclComm_t comm;
	int device = 0;
	ncclUniqueId id;
	memset(&id, 0, sizeof id);
	assert_int_equal(ncclCommInitRank(&comm, 2, id, 2), ncclInvalidArgument);
	assert_int_equal(ncclCommInitRank(&comm, 2, id, 0), ncclSystemError);
	assert_true(strlen(ncclGetLastError(NULL)) > 0);
	nccl_ok(ncclCommInitAll(&comm, 1, &device));
	assert_int_equal(ncclBroadcast(NULL, NULL, 1, ncclInt8, 1, comm, NULL), ncclInvalidArgument);
	assert_int_equal(ncclAllGather(NULL, NULL, 1, ncclNumTypes, comm, NULL), ncclInvalidArgument);
	assert_int_equal(ncclAllReduce(NULL, NULL, 1, ncclInt8, (ncclRedOp_t)9, comm, NULL), ncclInvalidArgument);
	nccl_ok(ncclAllReduce(NULL, NULL, 0, ncclInt8, ncclSum, comm, NULL)); /* nothing to do */
	assert_int_equal(ncclGroupEnd(), ncclInvalidUsage);
	assert_int_equal(ncclSend(NULL, 1, ncclInt8, 0, comm, NULL), ncclInvalidUsage);
	nccl_ok(ncclGroupStart());
	assert_int_equal(ncclBroadcast(NULL, NULL, 1, ncclInt8, 1, comm, NULL), ncclInvalidArgument);
	assert_int_equal(ncclGroupEnd(), ncclInvalidArgument);
	assert_ptr_equal((void *)ncclAllReduce, (void *)pncclAllReduce);
	nccl_ok(ncclCommDestroy(comm));
}

static void captured_collectives_replay(void **state)
{
	(void)state;
	struct ranks job;
	job_start(&job, 2, NULL);
	job_all(&job, "capture");
	job_all(&job, "allreduce 100");
	job_all(&job, "allgather 50");
	job_all(&job, "captured 0");
	job_says(&job, 0, "query", "done"); /* nothing has run */
	assert_int_equal(job_number(&job, 0, "started 0"), 0);
	for (int k = 0; k < 3; k++) {
		job_all(&job, "replay 0");
		job_all(&job, "check");
	}
	assert_int_equal(job_number(&job, 0, "completed 1"), 6);
	assert_int_equal(job_number(&job, 0, "launches"), 2);
	job_all(&job, "allreduce 100"); /* and others in between */
	job_all(&job, "replay 0");
	job_idle(&job);
	/* A replay that the other rank does not make hangs. */
	job_one(&job, 0, "replay 0");
	usleep(JOB_HANG_MS * 1000);
	job_says(&job, 0, "query", "busy");
	job_one(&job, 1, "replay 0");
	job_idle(&job);
	/* The graph holds the communicator. */
	ranks_tell(&job, 0, "behind destroy");
	job_answers(&job, 0);
	usleep(JOB_HANG_MS * 1000);
	ranks_tell(&job, 0, "joined");
	assert_null(ranks_answer(&job, 0, JOB_HANG_MS));
	job_end(&job);

	job_start(&job, 2, NULL);
	job_all(&job, "capture");
	job_all(&job, "allreduce 100");
	job_all(&job, "captured 0");
	job_all(&job, "replay 0");
	job_all(&job, "behind abort");
	usleep(JOB_HANG_MS * 1000);
	job_all(&job, "drop 0");
	job_all(&job, "joined");
	assert_true(ranks_stop(&job, JOB_MS));
}

static int names_of_ours(const char *dir)
{
	int n = 0;
	DIR *d = opendir(dir);
	for (struct dirent *e; d && (e = readdir(d));)
		n += strstr(e->d_name, "nccl") != NULL;
	if (d)
		closedir(d);
	return n;
}

static void nothing_is_left_of_killed_jobs(void **state)
{
	(void)state;
	struct ranks job;
	int before = names_of_ours("/dev/shm");
	job_start(&job, 4, NULL);
	job_all(&job, "allreduce 1000");
	assert_int_equal(names_of_ours("/dev/shm"), before);
	job_end(&job);
	assert_int_equal(names_of_ours("/dev/shm"), before);
}

static void the_grouping_of_ranks_can_be_compared(void **state)
{
	(void)state;
	struct ranks job;
	char said[RANKS_LINE];
	job_start(&job, 2, NULL);
	job_all(&job, "group");
	job_all(&job, "allgather 10 times=3");
	job_all(&job, "end");
	job_all(&job, "allgather 10");
	snprintf(said, sizeof said, "%s", ranks_ask(&job, 0, JOB_MS, "signature"));
	job_says(&job, 1, "signature", said);
	job_all(&job, "group");
	job_all(&job, "allgather 10 times=2");
	job_all(&job, "end");
	assert_string_not_equal(ranks_ask(&job, 1, JOB_MS, "signature"), said);
	/* Their order is the same, however they are grouped. */
	job_all(&job, "allgather 10 times=2");
	snprintf(said, sizeof said, "%s", ranks_ask(&job, 0, JOB_MS, "order"));
	job_says(&job, 1, "order", said);
	for (int i = 0; i < 3; i++) {
		job_all(&job, "group");
		job_all(&job, i == 0 ? "allgather 10 times=3" : "allgather 10");
		job_all(&job, "end");
	}
	job_all(&job, "allgather 10 times=3");
	job_says(&job, 0, "order", said);
	job_all(&job, "allgather 11 times=8");
	assert_string_not_equal(ranks_ask(&job, 0, JOB_MS, "order"), said);
	job_stop(&job);
}

int main(int argc, char **argv)
{
	if (ranks_is_rank(argc, argv))
		return ranks_main(argv, rank_obey);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(splits_have_their_own_ranks),
		cmocka_unit_test(a_shrink_leaves_the_dead_behind),
		cmocka_unit_test(a_revoked_communicator_can_be_split),
		cmocka_unit_test(communicators_that_do_not_block),
		cmocka_unit_test(an_abort_ends_an_initialisation),
		cmocka_unit_test(all_devices_of_one_process),
		cmocka_unit_test(premultiplied_sums),
		cmocka_unit_test(arguments_are_checked),
		cmocka_unit_test(captured_collectives_replay),
		cmocka_unit_test(nothing_is_left_of_killed_jobs),
		cmocka_unit_test(the_grouping_of_ranks_can_be_compared),
	};
	simtest_only_sim();
	setenv("SIM_QUIET", "1", 1);
	return cmocka_run_group_tests(tests, simtest_setup, simtest_teardown);
}

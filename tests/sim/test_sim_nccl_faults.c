/* LINK: nccl
 *
 * test_sim_nccl_faults.c - what SIM_NCCL_* does.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/simjob.h"
#include "sim_nccl.h"
#include "tests/gpu/common/util.h"

#define ENV(...) ((const char *const[]){"SIM_QUIET=1", __VA_ARGS__, NULL})

static void stuck_and_never_started(void **state)
{
	(void)state;
	struct ranks job;
	job_start(&job, 2, ENV("SIM_NCCL_STUCK=2"));
	job_all(&job, "allreduce 100");
	job_all(&job, "check");
	job_all(&job, "allreduce 100");
	job_hangs(&job);
	for (int i = 0; i < 2; i++) { /* all started, none has completed */
		assert_int_equal(job_number(&job, 0, i ? "started 1" : "started 0"), 2);
		assert_int_equal(job_number(&job, 0, i ? "completed 1" : "completed 0"), 1);
	}
	job_all(&job, "abort");
	assert_true(ranks_stop(&job, JOB_MS));

	job_start(&job, 2, ENV("1:SIM_NCCL_NO_START=1"));
	job_all(&job, "allreduce 100");
	job_hangs(&job);
	assert_int_equal(job_number(&job, 0, "started 0"), 1);
	assert_int_equal(job_number(&job, 0, "started 1"), 0);
	job_all(&job, "abort");
	assert_true(ranks_stop(&job, JOB_MS));
}

static void a_transport_that_stops_half_way(void **state)
{
	(void)state;
	struct ranks job;
	job_start(&job, 2, ENV("SIM_NCCL_RANK=2", "SIM_NCCL_HALF=1"));
	job_all(&job, "allgather 100000");
	job_hangs(&job);
	job_all(&job, "abort");
	job_idle(&job);
	assert_true(ranks_stop(&job, JOB_MS));
}

static void one_communicator_alone(void **state)
{
	(void)state;
	struct ranks job;
	job_start(&job, 2, ENV("SIM_NCCL_STUCK=1", "SIM_NCCL_COMM=2"));
	job_all(&job, "split 0 0 to=1");
	job_all(&job, "allreduce 100");
	job_all(&job, "check");
	job_all(&job, "allreduce 100 comm=1");
	job_hangs(&job);
	job_end(&job);
}

static void a_rank_that_kills_itself(void **state)
{
	(void)state;
	struct ranks job;
	job_start(&job, 2, ENV("1:SIM_NCCL_DIE=2"));
	job_all(&job, "allreduce 100");
	job_all(&job, "check");
	job_one(&job, 0, "allreduce 100");
	ranks_tell(&job, 1, "allreduce 100");
	int status = ranks_wait(&job, 1, JOB_MS);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	usleep(JOB_HANG_MS * 1000);
	job_says(&job, 0, "query", "busy");
	job_says(&job, 0, "async", "0");
	job_end(&job);
}

static void wait_for_state(struct ranks *job, int rank, long state)
{
	uint64_t end = now_ns() + (uint64_t)JOB_MS * 1000000;
	while (job_number(job, rank, "async") != state) {
		assert_true(now_ns() < end);
		usleep(5000);
	}
}

static void errors_as_over_a_network(void **state)
{
	(void)state;
	struct ranks job;
	job_start(&job, 2, ENV("SIM_NCCL_PEER_ERROR=1"));
	job_one(&job, 0, "allreduce 100");
	ranks_signal(&job, 1, SIGKILL);
	wait_for_state(&job, 0, ncclRemoteError);
	job_says(&job, 0, "last", "rank 1's process has ended");
	job_says(&job, 0, "query", "busy"); /* until it is aborted */
	job_one(&job, 0, "abort");
	job_end(&job);

	job_start(&job, 2, ENV("SIM_NCCL_SIZE_ERROR=1"));
	job_one(&job, 0, "allgather 100");
	job_one(&job, 1, "allgather 200");
	wait_for_state(&job, 0, ncclRemoteError);
	wait_for_state(&job, 1, ncclRemoteError);
	job_end(&job);

	job_start(&job, 1, ENV("SIM_NCCL_ERROR=2"));
	job_one(&job, 0, "allreduce 100");
	job_says(&job, 0, "async", "0");
	job_one(&job, 0, "allreduce 100");
	job_says(&job, 0, "async", "6");
	job_end(&job);
}

static void calls_that_never_return(void **state)
{
	(void)state;
	struct ranks job;
	job_start(&job, 1, ENV("SIM_NCCL_ABORT=1"));
	ranks_tell(&job, 0, "abort");
	assert_null(ranks_answer(&job, 0, JOB_HANG_MS));
	job_end(&job);
	job_start(&job, 1, ENV("SIM_NCCL_ASYNC_MS=1"));
	ranks_tell(&job, 0, "async");
	assert_null(ranks_answer(&job, 0, JOB_HANG_MS));
	job_end(&job);
	assert_true(ranks_start(&job, 1, ENV("SIM_NCCL_INIT=1")));
	ranks_tell(&job, 0, "init");
	assert_null(ranks_answer(&job, 0, JOB_HANG_MS));
	job_end(&job);
}

/* The first call of a function blocks on the host until all ranks make it. */
static void connecting_late(void **state)
{
	(void)state;
	struct ranks job;
	job_start(&job, 2, ENV("SIM_NCCL_CONNECT=1"));
	ranks_tell(&job, 0, "allreduce 100");
	assert_null(ranks_answer(&job, 0, JOB_HANG_MS));
	job_one(&job, 1, "allreduce 100");
	job_answers(&job, 0);
	job_all(&job, "check");
	job_one(&job, 0, "allreduce 100"); /* no longer */
	job_one(&job, 1, "allreduce 100");
	job_all(&job, "check");
	job_stop(&job);
}

static uint64_t time_of(const char *const *env)
{
	struct ranks job;
	job_start(&job, 2, env);
	uint64_t begin = now_ns();
	job_all(&job, "allreduce 100 times=5");
	job_idle(&job);
	uint64_t ns = now_ns() - begin;
	job_stop(&job);
	return ns;
}

static void delays(void **state)
{
	(void)state;
	assert_in_range(time_of(ENV("SIM_NCCL_TIME_US=10000")), 50000000, UINT64_MAX);
	assert_in_range(time_of(ENV("1:SIM_NCCL_LATE_US=10000")), 50000000, UINT64_MAX);
	time_of(ENV("SIM_NCCL_DELAY_US=1000", "SIM_NCCL_ISSUE_US=1000"));
}

/* Unlike programs are written to a file, fault-free ones not. */
static void strict(void **state)
{
	(void)state;
	struct ranks job;
	char path[64], setting[96], text[256] = "";
	snprintf(path, sizeof path, "/tmp/sim_nccl_strict.%d", (int)getpid());
	snprintf(setting, sizeof setting, "SIM_NCCL_STRICT=%s", path);
	job_start(&job, 2, ENV(setting));
	job_all(&job, "allreduce 100");
	job_all(&job, "check");
	assert_int_not_equal(access(path, F_OK), 0);
	job_one(&job, 0, "allreduce 5");
	job_one(&job, 1, "group");
	job_one(&job, 1, "allgather 6");
	job_one(&job, 1, "allgather 7");
	job_one(&job, 1, "end");
	job_hangs(&job);
	job_end(&job);
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	assert_non_null(fgets(text, sizeof text, f));
	fclose(f);
	unlink(path);
	assert_non_null(strstr(text, "AllReduce(count 5"));
	assert_non_null(strstr(text, "AllGather(count 6"));
	assert_non_null(strstr(text, "2 in a group"));
}

int main(int argc, char **argv)
{
	if (ranks_is_rank(argc, argv))
		return ranks_main(argv, rank_obey);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stuck_and_never_started),
		cmocka_unit_test(a_transport_that_stops_half_way),
		cmocka_unit_test(one_communicator_alone),
		cmocka_unit_test(a_rank_that_kills_itself),
		cmocka_unit_test(errors_as_over_a_network),
		cmocka_unit_test(calls_that_never_return),
		cmocka_unit_test(connecting_late),
		cmocka_unit_test(delays),
		cmocka_unit_test(strict),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* LINK: nccl
 *
 * test_sim_nccl_hang.c - ranks that do unlike things, or die, hang without an error, until they are aborted.
 */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "common/simjob.h"

static const char *const quiet[] = {"SIM_QUIET=1", NULL};

/* Each rank does its own; all hang without an error, and say who differs; an abort ends it. */
static void unlike(const char *const *first, const char *const *second)
{
	struct ranks job;
	job_start(&job, 2, quiet);
	for (; first && *first; first++)
		job_one(&job, 0, *first);
	for (; second && *second; second++)
		job_one(&job, 1, *second);
	job_hangs(&job);
	for (int i = 0; i < 2; i++) {
		job_says(&job, i, "async", "0");
		assert_int_equal(job_number(&job, i, "mistakes"), 1);
	}
	job_all(&job, "abort");
	job_idle(&job);
	assert_true(ranks_stop(&job, JOB_MS));
}
#define UNLIKE(first, second) unlike((const char *const[]){first, NULL}, (const char *const[]){second, NULL})
#define LIST(...) __VA_ARGS__

static void unlike_calls_hang(void **state)
{
	(void)state;
	UNLIKE("allreduce 100", "allgather 100");
	UNLIKE("allreduce 100", "allreduce 200");
	UNLIKE("allreduce 100", "allreduce 100 type=i32");
	UNLIKE("allreduce 100", "allreduce 100 op=max");
	UNLIKE("broadcast 100 root=0", "broadcast 100 root=1");
}

static void unlike_groups_hang(void **state)
{
	(void)state;
	UNLIKE(LIST("group", "allgather 16", "allgather 1000", "end"), LIST("allgather 16", "allgather 1000"));
	UNLIKE(LIST("group", "allgather 16", "allgather 16", "allgather 16", "end"),
		   LIST("group", "allgather 16", "allgather 16", "end", "allgather 16"));
	UNLIKE(LIST("allgather 16", "allgather 17"), LIST("allgather 17", "allgather 16"));
}

static void unlike_sizes_of_send_and_receive_hang(void **state)
{
	(void)state;
	UNLIKE("send 100 peer=1", "recv 200 peer=0");
}

static void a_send_waits_for_its_receive(void **state)
{
	(void)state;
	struct ranks job;
	job_start(&job, 2, NULL);
	job_one(&job, 0, "send 10 peer=1");
	usleep(JOB_HANG_MS * 1000);
	job_says(&job, 0, "query", "busy");
	job_one(&job, 1, "recv 10 peer=0");
	job_all(&job, "sync");
	/* Two that both send first. */
	job_one(&job, 0, "send 10 peer=1");
	job_one(&job, 1, "send 10 peer=0");
	job_one(&job, 0, "recv 10 peer=1");
	job_one(&job, 1, "recv 10 peer=0");
	job_hangs(&job);
	job_all(&job, "abort");
	job_idle(&job);
	assert_true(ranks_stop(&job, JOB_MS));
}

static void a_dead_rank_is_silent(void **state)
{
	(void)state;
	struct ranks job;
	job_start(&job, 4, NULL);
	job_all(&job, "allreduce 100");
	job_all(&job, "check");
	ranks_signal(&job, 2, SIGKILL);
	for (int i = 0; i < 4; i++)
		if (i != 2)
			job_one(&job, i, "allreduce 100");
	job_hangs(&job);
	for (int i = 0; i < 4; i++) {
		if (i == 2)
			continue;
		job_says(&job, i, "async", "0");
		assert_int_equal(job_number(&job, i, "started 2"), 1);
		assert_int_equal(job_number(&job, i, "started 0"), 2);
		job_one(&job, i, "abort");
		job_one(&job, i, "sync");
	}
	job_end(&job);
}

static void an_abort_is_this_ranks_alone(void **state)
{
	(void)state;
	struct ranks job;
	job_start(&job, 2, NULL);
	job_one(&job, 0, "allreduce 100");
	job_one(&job, 0, "abort");
	job_one(&job, 0, "sync");
	job_one(&job, 1, "allreduce 100");
	/* Rank 0's kernel had started before it was aborted; its data never comes. */
	usleep(JOB_HANG_MS * 1000);
	job_says(&job, 1, "query", "busy");
	job_one(&job, 1, "abort");
	job_one(&job, 1, "sync");
	assert_true(ranks_stop(&job, JOB_MS));
}

/* What is ahead on the same stream holds an abort up. */
static void an_abort_waits_for_the_stream(void **state)
{
	(void)state;
	struct ranks job;
	job_start(&job, 2, NULL);
	job_all(&job, "split 0 0 to=1");
	job_one(&job, 0, "allreduce 10 comm=1");
	job_one(&job, 0, "allreduce 10");
	ranks_tell(&job, 0, "abort");
	assert_null(ranks_answer(&job, 0, JOB_HANG_MS));
	job_one(&job, 1, "allreduce 10 comm=1");
	job_answers(&job, 0);
	job_end(&job);

	/* In one group, all at once. */
	job_start(&job, 2, NULL);
	job_all(&job, "split 0 0 to=1");
	job_one(&job, 0, "allreduce 10 comm=1");
	job_one(&job, 0, "allreduce 10");
	job_one(&job, 0, "abortall");
	job_one(&job, 0, "sync");
	job_end(&job);
}

static void crossed_communicators_hang(void **state)
{
	(void)state;
	struct ranks job;
	job_start(&job, 2, NULL);
	job_all(&job, "split 0 0 to=1");
	job_one(&job, 0, "allreduce 10");
	job_one(&job, 0, "allreduce 10 comm=1");
	job_one(&job, 1, "allreduce 10 comm=1");
	job_one(&job, 1, "allreduce 10");
	job_hangs(&job);
	job_all(&job, "abortall");
	job_idle(&job);
	assert_true(ranks_stop(&job, JOB_MS));
}

static void a_stopped_rank_delays_and_no_more(void **state)
{
	(void)state;
	struct ranks job;
	job_start(&job, 2, NULL);
	ranks_signal(&job, 1, SIGSTOP);
	ranks_tell(&job, 1, "allreduce 100");
	job_one(&job, 0, "allreduce 100");
	usleep(JOB_HANG_MS * 1000);
	job_says(&job, 0, "query", "busy");
	ranks_signal(&job, 1, SIGCONT);
	job_answers(&job, 1);
	job_all(&job, "check");
	job_stop(&job);
}

int main(int argc, char **argv)
{
	if (ranks_is_rank(argc, argv))
		return ranks_main(argv, rank_obey);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unlike_calls_hang),
		cmocka_unit_test(unlike_groups_hang),
		cmocka_unit_test(unlike_sizes_of_send_and_receive_hang),
		cmocka_unit_test(a_send_waits_for_its_receive),
		cmocka_unit_test(a_dead_rank_is_silent),
		cmocka_unit_test(an_abort_is_this_ranks_alone),
		cmocka_unit_test(an_abort_waits_for_the_stream),
		cmocka_unit_test(crossed_communicators_hang),
		cmocka_unit_test(a_stopped_rank_delays_and_no_more),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* LINK: nccl */
/*
 * test_nccl_flight.c - ranks as processes: what their flight files say, and what becomes of the files.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/counters.h"
#include "common/flight_read.h"
#include "shim/proc_stat.h"
#include "tests/gpu/common/rank_orders.h"
#include "tests/sim/nccl_abi.h"

#define MS 20000

static struct flight_copy copy[4];

static void start(struct ranks *job, int n, const char *const *env)
{
	assert_true(ranks_start(job, n, env));
	assert_true(ranks_all(job, MS, "init"));
}

static void all(struct ranks *job, const char *order)
{
	assert_true(ranks_all(job, MS, "%s", order));
}

static void one(struct ranks *job, int rank, const char *order)
{
	const char *answer = ranks_ask(job, rank, MS, "%s", order);

	assert_non_null(answer);
	assert_string_equal(answer, "ok");
}

/* What is left of killed ranks would be kept for the curious. */
static void end(struct ranks *job)
{
	char path[4][100];
	int n = job->n;

	for (int i = 0; i < n; i++)
		flight_path(path[i], sizeof(path[i]), job->rank[i].pid);
	ranks_kill(job);
	for (int i = 0; i < n; i++)
		unlink(path[i]);
}

/* All ranks have made the same collective calls up to now. */
static void assert_agree(unsigned place, int ranks)
{
	const struct flight_comm *first = &copy[0].comm[place];

	for (int r = 0; r < ranks; r++) {
		const struct flight_comm *c = &copy[r].comm[place];
		assert_memory_equal(c->key, first->key, sizeof(c->key));
		assert_int_equal(c->rank, r);
		assert_int_equal(c->ranks, ranks);
		assert_int_equal(c->state, FLIGHT_LIVE);
		assert_int_equal(c->sequence, first->sequence);
		uint64_t signature[2] = {0, 0};
		for (uint64_t i = 1; i <= c->issued; i++)
			if (flight_op(&copy[r], place, i)->sequence)
				signature[0] = flight_op(&copy[r], place, i)->signature;
		for (uint64_t i = 1; i <= first->issued; i++)
			if (flight_op(&copy[0], place, i)->sequence)
				signature[1] = flight_op(&copy[0], place, i)->signature;
		assert_true(signature[0] != 0 && signature[0] == signature[1]);
	}
}

static void ring(struct ranks *job)
{
	all(job, "group");
	for (int r = 0; r < job->n; r++) {
		assert_string_equal(ranks_ask(job, r, MS, "send 50 peer=%d", (r + 1) % job->n), "ok");
		assert_string_equal(ranks_ask(job, r, MS, "recv 50 peer=%d", (r + job->n - 1) % job->n), "ok");
	}
	all(job, "end");
}

static void ranks_agree(int n)
{
	struct ranks job;
	start(&job, n, NULL);
	all(&job, "allreduce 100");
	all(&job, "allgather 7 type=bf16");
	all(&job, "broadcast 10 root=1");
	all(&job, "bcast 10 root=1");
	ring(&job);
	ring(&job);
	all(&job, "group");
	all(&job, "reducescatter 40 stream=1");
	all(&job, "alltoall 4");
	all(&job, "end");
	all(&job, "sync");
	for (int r = 0; r < n; r++)
		flight_await(&copy[r], job.rank[r].pid, 0, 11);
	assert_agree(0, n);
	for (int r = 0; r < n; r++) {
		const struct flight_copy *c = &copy[r];
		assert_int_equal(c->comm[0].issued, 11);
		assert_int_equal(c->comm[0].sequence, 7);
		assert_int_equal(flight_op(c, 0, 1)->function, FLIGHT_INIT);
		assert_int_equal(flight_op(c, 0, 2)->function, FLIGHT_ALL_REDUCE);
		assert_int_equal(flight_op(c, 0, 2)->bytes, 400);
		assert_int_equal(flight_op(c, 0, 3)->bytes, 14);
		assert_int_equal(flight_op(c, 0, 4)->peer, 1);
		assert_int_equal(flight_op(c, 0, 5)->function, FLIGHT_BROADCAST);
		/* The k-th send is the peer's k-th receive. */
		for (uint32_t k = 1; k <= 2; k++) {
			const struct flight_op *send = flight_op(c, 0, 4 + 2 * k);
			assert_int_equal(send->function, FLIGHT_SEND);
			const struct flight_op *recv = flight_op(&copy[send->peer], 0, 5 + 2 * k);
			assert_int_equal(recv->function, FLIGHT_RECV);
			assert_int_equal(recv->peer, r);
			assert_int_equal(send->pair, k);
			assert_int_equal(recv->pair, k);
			assert_int_equal(send->bytes, recv->bytes);
			assert_int_equal(send->group, flight_op(c, 0, 5 + 2 * k)->group);
		}
		assert_int_not_equal(flight_op(c, 0, 10)->stream, flight_op(c, 0, 11)->stream);
		assert_int_equal(c->page.pid, job.rank[r].pid);
		assert_int_equal(proc_life(c->page.pid, c->page.start_ticks), PROC_RUNS);
		assert_int_equal(c->page.nccl, NCCL_ABI_VERSION);
		assert_int_equal(c->page.lost, 0);
	}
	all(&job, "destroy");
	assert_true(ranks_stop(&job, MS));
	for (int r = 0; r < n; r++)
		assert_false(flight_there(job.rank[r].pid));
}

static void two_ranks_agree(void **state)
{
	(void)state;
	ranks_agree(2);
}

static void four_ranks_agree(void **state)
{
	(void)state;
	ranks_agree(4);
}

static void children_agree(void **state)
{
	(void)state;
	struct ranks job;
	start(&job, 4, NULL);
	/* Ranks 0 and 2, and 3 alone; 1 takes no part. */
	for (int r = 0; r < 4; r++)
		ranks_tell(&job, r, "split %d %d to=1", r == 1 ? -1 : r == 3, -r);
	for (int r = 0; r < 4; r++)
		assert_string_equal(ranks_answer(&job, r, MS), "ok");
	for (int r = 0; r < 4; r += 2)
		one(&job, r, "allreduce 10 comm=1");
	all(&job, "allreduce 10");
	for (int r = 0; r < 4; r++)
		flight_await(&copy[r], job.rank[r].pid, 0, 3);
	assert_agree(0, 4);
	assert_int_equal(flight_op(&copy[1], 0, 2)->function, FLIGHT_SPLIT);
	assert_int_equal(copy[1].page.comm_high, 1);
	for (int r = 0; r < 4; r += 2)
		flight_await(&copy[r], job.rank[r].pid, 1, 1);
	flight_await(&copy[3], job.rank[3].pid, 1, 0);
	const struct flight_comm *a = &copy[0].comm[1], *b = &copy[2].comm[1], *c = &copy[3].comm[1];
	assert_memory_equal(a->key, b->key, sizeof(a->key));
	assert_memory_not_equal(a->key, c->key, sizeof(a->key));
	assert_int_equal(a->rank, 1); /* the key turned them round */
	assert_int_equal(b->rank, 0);
	assert_int_equal(a->ranks, 2);
	assert_int_equal(c->ranks, 1);
	assert_int_equal(a->parent, copy[0].comm[0].number);
	assert_int_equal(flight_op(&copy[0], 1, 1)->signature, flight_op(&copy[2], 1, 1)->signature);
	end(&job);
}

static void ranks_that_differ_can_be_told(void **state)
{
	(void)state;
	struct ranks job;
	start(&job, 2, (const char *const[]){"SIM_QUIET=1", NULL});
	all(&job, "allreduce 100");
	one(&job, 0, "allreduce 100");
	one(&job, 1, "allgather 100");
	for (int r = 0; r < 2; r++)
		flight_await(&copy[r], job.rank[r].pid, 0, 3);
	assert_int_equal(copy[0].comm[0].sequence, copy[1].comm[0].sequence);
	assert_int_equal(flight_op(&copy[0], 0, 2)->signature, flight_op(&copy[1], 0, 2)->signature);
	assert_int_not_equal(flight_op(&copy[0], 0, 3)->signature, flight_op(&copy[1], 0, 3)->signature);
	end(&job);
}

static void graphs_are_one_operation_a_launch(void **state)
{
	(void)state;
	struct ranks job;
	start(&job, 2, NULL);
	all(&job, "capture");
	all(&job, "allreduce 100");
	all(&job, "allreduce 50");
	all(&job, "captured 0");
	all(&job, "replay 0");
	all(&job, "replay 0");
	all(&job, "allreduce 10");
	all(&job, "sync");
	for (int r = 0; r < 2; r++)
		flight_await(&copy[r], job.rank[r].pid, 0, 6);
	assert_agree(0, 2);
	assert_int_equal(flight_op(&copy[0], 0, 2)->flags, FLIGHT_CAPTURED);
	assert_int_equal(flight_op(&copy[0], 0, 2)->sequence, 0);
	assert_int_equal(flight_op(&copy[0], 0, 4)->function, FLIGHT_GRAPH);
	assert_int_equal(flight_op(&copy[0], 0, 4)->count, 2);
	assert_int_equal(flight_op(&copy[0], 0, 4)->bytes, 600);
	assert_int_equal(flight_op(&copy[0], 0, 4)->sequence, 3);
	assert_int_equal(flight_op(&copy[0], 0, 5)->sequence, 5);
	assert_int_equal(flight_op(&copy[0], 0, 6)->sequence, 6);
	end(&job);
}

static void ranks_that_do_not_block(void **state)
{
	(void)state;
	struct ranks job;
	assert_true(ranks_start(&job, 2, NULL));
	all(&job, "init nonblocking=1");
	all(&job, "allreduce 100");
	all(&job, "sync");
	for (int r = 0; r < 2; r++)
		flight_await(&copy[r], job.rank[r].pid, 0, 2);
	assert_agree(0, 2);
	assert_int_equal(copy[0].comm[0].nonblocking, 1);
	assert_true(flight_op(&copy[0], 0, 1)->done != 0);
	end(&job);
}

/* ---- the files ---- */

static void a_killed_ranks_file_is_left_for_a_while(void **state)
{
	(void)state;
	struct ranks job;
	char path[100], other[100];
	struct stat st;
	start(&job, 2, NULL);
	all(&job, "allreduce 100");
	all(&job, "sync");
	pid_t pid = job.rank[1].pid;
	flight_await(&copy[0], pid, 0, 2);
	flight_path(other, sizeof(other), job.rank[0].pid);
	flight_path(path, sizeof(path), pid);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0600);
	ranks_signal(&job, 1, SIGKILL);
	ranks_kill(&job);
	unlink(other);
	assert_true(flight_read(&copy[0], pid));
	assert_int_equal(flight_op(&copy[0], 0, 2)->function, FLIGHT_ALL_REDUCE);
	assert_int_equal(proc_life(copy[0].page.pid, copy[0].page.start_ticks), PROC_ENDED);
	/* Others come at once, and some minutes later. */
	start(&job, 1, NULL);
	flight_await(&copy[0], job.rank[0].pid, 0, 1);
	one(&job, 0, "sleep 100");
	assert_true(flight_there(pid));
	assert_true(ranks_stop(&job, MS));
	struct timespec old[2] = {{.tv_sec = time(NULL) - 600}, {.tv_sec = time(NULL) - 600}};
	assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
	start(&job, 1, NULL);
	for (int i = 0; i < 2000 && flight_there(pid); i++)
		usleep(1000);
	assert_false(flight_there(pid));
	assert_true(ranks_stop(&job, MS));
}

static void files_that_are_harmed(void **state)
{
	(void)state;
	struct ranks job;
	char path[100];
	start(&job, 2, NULL);
	pid_t pid = job.rank[1].pid;
	flight_path(path, sizeof(path), pid);
	for (uint64_t i = 0; i < 4; i++) {
		flight_await(&copy[0], pid, 0, 1 + 200 * i);
		assert_int_equal(i % 2 ? unlink(path) : truncate(path, i == 2 ? 100 : 0), 0);
		all(&job, "allreduce 100 times=200");
	}
	flight_await(&copy[0], pid, 0, 801);
	assert_int_equal(flight_op(&copy[0], 0, 801)->sequence, 801);
	all(&job, "check");
	all(&job, "destroy");
	assert_true(ranks_stop(&job, MS));
	assert_false(flight_there(pid));
}

/* ---- orders of our own ---- */

/* A child, which ends as programs do, and one that is another program. */
static const char *make_children(void)
{
	int status = 1;
	pid_t child = fork();

	if (child == 0)
		exit(0);
	if (waitpid(child, &status, 0) != child || status)
		return "error: the child";
	/* A sanitized library is for sanitized programs only. */
	if (getenv("SAN") && *getenv("SAN"))
		return "ok";
	return system("true") == 0 ? "ok" : "error: the other program";
}

/* The rest of a program that makes more than there is room for, in one process. */
static const char *make_many(void)
{
	static ncclComm_t comm[FLIGHT_COMMS + 1];
	const int device = 0;

	for (unsigned i = 1; i < FLIGHT_COMMS + 1; i++)
		if (ncclCommInitAll(&comm[i], 1, &device) != ncclSuccess)
			return "error: init";
	if (ncclAllReduce(NULL, NULL, 0, ncclInt8, ncclSum, comm[FLIGHT_COMMS], NULL) != ncclSuccess)
		return "error: reduce";
	return "ok";
}

static void obey(struct rank *me, char *order, char *answer)
{
	if (strcmp(order, "children") == 0) {
		strcpy(answer, make_children());
	} else if (strcmp(order, "many") == 0) {
		strcpy(answer, make_many());
	} else if (strcmp(order, "exec") == 0) {
		unsetenv("LD_PRELOAD");
		execlp("sleep", "sleep", "10", (char *)NULL);
		strcpy(answer, "error: exec");
	} else {
		rank_obey(me, order, answer);
	}
}

static void children_leave_the_file_alone(void **state)
{
	(void)state;
	struct ranks job;
	start(&job, 2, NULL);
	flight_await(&copy[0], job.rank[0].pid, 0, 1);
	one(&job, 0, "children");
	assert_true(flight_there(job.rank[0].pid));
	all(&job, "allreduce 100");
	flight_await(&copy[0], job.rank[0].pid, 0, 2);
	/* One that execs: nothing of the program that made it is left. */
	uint32_t pid = (uint32_t)job.rank[1].pid;
	const char *name = ".flight";
	assert_int_equal(proc_maps(pid, name), 1);
	ranks_tell(&job, 1, "exec");
	for (int i = 0; i < 5000 && proc_maps(pid, name) != 0; i++)
		usleep(1000);
	assert_int_equal(proc_maps(pid, name), 0);
	assert_true(flight_read(&copy[0], (pid_t)pid));
	assert_int_equal(proc_life(pid, copy[0].page.start_ticks), PROC_RUNS);
	end(&job);
}

static void more_communicators_than_places(void **state)
{
	(void)state;
	struct ranks job;
	start(&job, 1, NULL);
	one(&job, 0, "many");
	flight_await(&copy[0], job.rank[0].pid, 0, 1);
	for (int i = 0; i < 5000 && (copy[0].page.lost < 2 || copy[0].page.comm_high < FLIGHT_COMMS);
		 i++, usleep(1000))
		assert_true(flight_read(&copy[0], job.rank[0].pid));
	assert_int_equal(copy[0].page.comm_high, FLIGHT_COMMS);
	assert_int_equal(copy[0].page.lost, 2); /* it, and its call */
	one(&job, 0, "allreduce 100");
	flight_await(&copy[0], job.rank[0].pid, 0, 2);
	end(&job);
}

int main(int argc, char **argv)
{
	if (ranks_is_rank(argc, argv))
		return ranks_main(argv, obey);
	if (!counters_preloaded()) {
		print_message("needs libturbo.so\n");
		return 77;
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_ranks_agree),
		cmocka_unit_test(four_ranks_agree),
		cmocka_unit_test(children_agree),
		cmocka_unit_test(ranks_that_differ_can_be_told),
		cmocka_unit_test(graphs_are_one_operation_a_launch),
		cmocka_unit_test(ranks_that_do_not_block),
		cmocka_unit_test(a_killed_ranks_file_is_left_for_a_while),
		cmocka_unit_test(files_that_are_harmed),
		cmocka_unit_test(children_leave_the_file_alone),
		cmocka_unit_test(more_communicators_than_places),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* LINK: nccl
 *
 * test_sim_nccl.c - what collectives, sends and receives of processes do.
 */
#include <stdio.h>
#include <unistd.h>

#include "common/simtest.h"
#include "tests/gpu/common/rank_orders.h"

#define MS 20000

static void all(struct ranks *job, const char *order)
{
	if (!ranks_all(job, MS, "%s", order))
		fail_msg("%s", order);
}

static void start(struct ranks *job, int n)
{
	assert_true(ranks_start(job, n, NULL));
	all(job, "init");
}

static void stop(struct ranks *job)
{
	all(job, "destroy");
	assert_true(ranks_stop(job, MS));
}

static const char *const collectives[] = {"allgather", "allreduce", "reducescatter", "reduce", "broadcast",
										  "bcast",     "alltoall",  "gather",        "scatter"};

static void every_collective(int n)
{
	struct ranks job;
	char order[64];
	start(&job, n);
	for (size_t i = 0; i < sizeof(collectives) / sizeof(collectives[0]); i++) {
		/* One piece, and several of which the last is smaller. */
		for (int big = 0; big < 2; big++) {
			snprintf(order, sizeof order, "%s %d root=%d", collectives[i], big ? 40001 : 100, n - 1);
			all(&job, order);
			all(&job, "check");
		}
	}
	stop(&job);
}

static void collectives_of_2(void **state)
{
	(void)state;
	every_collective(2);
}
static void collectives_of_4(void **state)
{
	(void)state;
	every_collective(4);
}
static void collectives_of_8(void **state)
{
	(void)state;
	every_collective(8);
}

static void groups_sends_and_receives(void **state)
{
	(void)state;
	struct ranks job;
	start(&job, 4);
	all(&job, "group");
	all(&job, "allgather 100");
	all(&job, "allgather 3000");
	all(&job, "allreduce 7 op=max");
	all(&job, "end");
	all(&job, "check");
	/* A ring: it would hang outside a group. */
	all(&job, "group");
	for (int i = 0; i < 4; i++) {
		assert_non_null(ranks_ask(&job, i, MS, "send 50000 peer=%d", (i + 1) % 4));
		assert_non_null(ranks_ask(&job, i, MS, "recv 50000 peer=%d", (i + 3) % 4));
	}
	all(&job, "end");
	all(&job, "check");
	stop(&job);
}

int main(int argc, char **argv)
{
	if (ranks_is_rank(argc, argv))
		return ranks_main(argv, rank_obey);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(collectives_of_2),
		cmocka_unit_test(collectives_of_4),
		cmocka_unit_test(collectives_of_8),
		cmocka_unit_test(groups_sends_and_receives),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

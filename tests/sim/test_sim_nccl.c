/* LINK: nccl
 *
 * test_sim_nccl.c - what collectives, sends and receives of processes do.
 */
#include <stdio.h>

#include "common/simjob.h"

static const char *const collectives[] = {"allgather", "allreduce", "reducescatter", "reduce", "broadcast",
										  "bcast",     "alltoall",  "gather",        "scatter"};
#define COLLECTIVES (sizeof(collectives) / sizeof(collectives[0]))

static void every_collective(int n)
{
	struct ranks job;
	char order[64];
	job_start(&job, n, NULL);
	for (size_t i = 0; i < COLLECTIVES; i++) {
		/* One piece, and several of which the last is smaller. */
		for (int big = 0; big < 2; big++) {
			snprintf(order, sizeof order, "%s %d root=%d", collectives[i], big ? 40001 : 100, n - 1);
			job_all(&job, order);
			job_all(&job, "check");
		}
	}
	assert_int_equal(job_number(&job, 0, "mistakes"), 0);
	job_stop(&job);
}

static void collectives_of_1(void **state)
{
	(void)state;
	every_collective(1);
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

static void every_type_and_operator(void **state)
{
	(void)state;
	static const char *const types[] = {"i8",  "u8",  "i32", "u32",  "i64",  "u64",
										"f16", "f32", "f64", "bf16", "e4m3", "e5m2"};
	static const char *const ops[] = {"sum", "prod", "max", "min", "avg"};
	struct ranks job;
	char order[64];
	job_start(&job, 2, NULL);
	for (size_t t = 0; t < 12; t++) {
		snprintf(order, sizeof order, "fill type=%s", types[t]);
		job_all(&job, order);
		for (size_t o = 0; o < 5; o++) {
			snprintf(order, sizeof order, "allreduce 50 type=%s op=%s", types[t], ops[o]);
			job_all(&job, order);
			job_all(&job, "check");
		}
	}
	job_stop(&job);
}

static void in_place(void **state)
{
	(void)state;
	struct ranks job;
	char order[64];
	job_start(&job, 4, NULL);
	for (size_t i = 0; i < COLLECTIVES; i++) {
		if (!strcmp(collectives[i], "alltoall") || !strcmp(collectives[i], "scatter"))
			continue; /* NCCL has no such thing, or only on the root */
		snprintf(order, sizeof order, "%s 1000 inplace=1", collectives[i]);
		job_all(&job, order);
		job_all(&job, "check");
	}
	job_stop(&job);
}

static void groups_of_collectives(void **state)
{
	(void)state;
	struct ranks job;
	job_start(&job, 4, NULL);
	job_all(&job, "group");
	job_all(&job, "allgather 100 times=20");
	job_all(&job, "allgather 30000");
	job_all(&job, "allreduce 7 op=max");
	job_all(&job, "end");
	job_all(&job, "check");
	for (int i = 0; i < 4; i++)
		assert_int_equal(job_number(&job, i, "launches"), 1);
	job_stop(&job);
}

static void sends_and_receives(void **state)
{
	(void)state;
	struct ranks job;
	char order[64];
	job_start(&job, 4, NULL);
	/* A ring, which would hang outside a group; to itself; and nothing. */
	job_all(&job, "group");
	for (int i = 0; i < 4; i++) {
		snprintf(order, sizeof order, "send 50000 peer=%d", (i + 1) % 4);
		job_one(&job, i, order);
		snprintf(order, sizeof order, "recv 50000 peer=%d", (i + 3) % 4);
		job_one(&job, i, order);
		snprintf(order, sizeof order, "send 100 peer=%d", i);
		job_one(&job, i, order);
		snprintf(order, sizeof order, "recv 100 peer=%d", i);
		job_one(&job, i, order);
		snprintf(order, sizeof order, "send 0 peer=%d", (i + 1) % 4);
		job_one(&job, i, order);
		snprintf(order, sizeof order, "recv 0 peer=%d", (i + 3) % 4);
		job_one(&job, i, order);
	}
	job_all(&job, "end");
	job_all(&job, "check");
	/* Single ones, in order. */
	for (int k = 0; k < 3; k++) {
		job_one(&job, 0, "send 10 peer=1");
		job_one(&job, 1, "recv 10 peer=0");
	}
	job_all(&job, "sync");
	job_one(&job, 1, "check");
	job_stop(&job);
}

static void order_is_the_streams(void **state)
{
	(void)state;
	struct ranks job;
	job_start(&job, 2, NULL);
	/* Rank 1's stream comes late to its all-reduce: rank 0's waits on the device, not the host. */
	job_one(&job, 1, "gate");
	job_all(&job, "allreduce 100");
	job_hangs(&job);
	job_one(&job, 1, "open");
	job_all(&job, "check");
	/* On another stream the communicator's operations still follow each other. */
	job_one(&job, 1, "gate");
	job_all(&job, "allreduce 100");
	job_all(&job, "allreduce 200 stream=1");
	job_hangs(&job);
	job_says(&job, 1, "query stream=1", "busy");
	job_one(&job, 1, "open");
	job_all(&job, "check");
	job_stop(&job);
}

int main(int argc, char **argv)
{
	if (ranks_is_rank(argc, argv))
		return ranks_main(argv, rank_obey);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(collectives_of_1),        cmocka_unit_test(collectives_of_2),
		cmocka_unit_test(collectives_of_4),        cmocka_unit_test(collectives_of_8),
		cmocka_unit_test(every_type_and_operator), cmocka_unit_test(in_place),
		cmocka_unit_test(groups_of_collectives),   cmocka_unit_test(sends_and_receives),
		cmocka_unit_test(order_is_the_streams),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* LINK: nccl
 *
 * test_sim_nccl_random.c - random programs with random delays: the data is right, no rank calls or groups unlike another, and
 * an abort at any time returns. SEED, SOAK_S.
 */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "common/simjob.h"

static unsigned seed;
static unsigned below(unsigned limit)
{
	return (unsigned)rand_r(&seed) % limit;
}

#define STEPS 12

/* bcast is last: its root's data lies where a captured operation after it writes, and is not there at a replay. */
static const char *const funcs[] = {"allgather", "allreduce", "reducescatter", "reduce", "broadcast",
									"alltoall",  "gather",    "scatter",       "bcast"};
#define ALL_FUNCS 9u
#define CAPTURED_FUNCS 8u
static const char *const types[] = {"i8", "u8", "i32", "u64", "f16", "f32", "f64", "bf16", "e4m3", "e5m2"};

/* Sums of the 8-bit floating-point types would depend on the order of rounding. */
static const char *operator_for(const char *type)
{
	static const char *const ops[] = {"max", "min", "sum", "avg"};
	return ops[below(type[0] == 'e' ? 2 : 4)];
}

static void one_op(struct ranks *job, unsigned which, const char *type, unsigned limit, const char *more)
{
	char order[RANKS_LINE];
	snprintf(order, sizeof order, "%s %u type=%s op=%s root=%u %s", funcs[below(which)], below(limit) + 1,
			 type, operator_for(type), below((unsigned)job->n), more);
	job_all(job, order);
}

static void ring(struct ranks *job, const char *type, unsigned limit, const char *more)
{
	char order[RANKS_LINE];
	unsigned n = (unsigned)job->n, shift = below(n), count = below(limit);
	for (unsigned i = 0; i < n; i++) {
		snprintf(order, sizeof order, "send %u type=%s peer=%u %s", count, type, (i + shift) % n, more);
		job_one(job, (int)i, order);
		snprintf(order, sizeof order, "recv %u type=%s peer=%u %s", count, type, (i + n - shift) % n, more);
		job_one(job, (int)i, order);
	}
}

static void one_group(struct ranks *job, const char *type, const char *more)
{
	job_all(job, "group");
	for (unsigned k = below(5); k; k--)
		one_op(job, ALL_FUNCS, type, 4000, more);
	if (below(2))
		ring(job, type, 20000, more);
	job_all(job, "end");
}

static void one_step(struct ranks *job)
{
	char order[RANKS_LINE];
	const char *type = types[below(sizeof(types) / sizeof(types[0]))];
	const char *more = below(3) ? "stream=0" : "stream=1";
	snprintf(order, sizeof order, "fill type=%s", type);
	job_all(job, order);
	switch (below(4)) {
	case 0: one_group(job, type, more); break;
	case 1:
		snprintf(order, sizeof order, "capture %s", more);
		job_all(job, order);
		one_op(job, CAPTURED_FUNCS, type, 5000, more);
		one_op(job, CAPTURED_FUNCS, type, 5000, more);
		snprintf(order, sizeof order, "captured 0 %s", more);
		job_all(job, order);
		snprintf(order, sizeof order, "replay 0 %s", more);
		for (unsigned k = below(3) + 1; k; k--)
			job_all(job, order);
		job_all(job, "check");
		job_all(job, "drop 0");
		break;
	default: one_op(job, ALL_FUNCS, type, 40000, more);
	}
	job_all(job, "check");
}

static void start_random(struct ranks *job)
{
	char seeds[32];
	snprintf(seeds, sizeof seeds, "SIM_SEED=%u", below(1000000));
	const char *const env[] = {
		seeds, "SIM_NCCL_DELAY_US=300", "SIM_NCCL_ISSUE_US=300", "SIM_JITTER_US=50", "SIM_QUIET=1", NULL};
	job_start(job, (int)below(4) + 2, env);
}

static void one_program(void)
{
	struct ranks job;
	char signature[RANKS_LINE];
	start_random(&job);
	for (int i = 0; i < STEPS; i++)
		one_step(&job);
	snprintf(signature, sizeof signature, "%s", ranks_ask(&job, 0, JOB_MS, "signature"));
	for (int i = 0; i < job.n; i++) {
		job_says(&job, i, "mistakes", "0");
		job_says(&job, i, "signature", signature);
	}
	job_stop(&job);
}

/* Ranks issue operations, not all as many, and abort at some time. */
static void one_abort(void)
{
	struct ranks job;
	start_random(&job);
	for (int i = 0; i < job.n; i++)
		for (unsigned k = below(6); k; k--)
			ranks_tell(&job, i, "allreduce %u", 1000 + k);
	usleep(below(3000));
	for (int i = 0; i < job.n; i++)
		ranks_tell(&job, i, "abort");
	usleep(below(3000));
	assert_true(ranks_stop(&job, JOB_MS));
}

static void random_programs(void **state)
{
	(void)state;
	const char *soak = getenv("SOAK_S");
	time_t end = time(NULL) + (soak ? atoi(soak) : 1);
	do {
		one_program();
		one_abort();
	} while (time(NULL) < end);
}

int main(int argc, char **argv)
{
	if (ranks_is_rank(argc, argv))
		return ranks_main(argv, rank_obey);
	const char *text = getenv("SEED");
	seed = text ? (unsigned)atoi(text) : (unsigned)time(NULL) * 31u + (unsigned)getpid();
	printf("SEED=%u\n", seed);
	fflush(stdout);
	const struct CMUnitTest tests[] = {cmocka_unit_test(random_programs)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * simjob.c - ranks as processes, for cmocka tests.
 */
#include "simjob.h"

#include <unistd.h>

void job_all(struct ranks *job, const char *order)
{
	if (!ranks_all(job, JOB_MS, "%s", order))
		fail_msg("%s", order);
}

void job_start(struct ranks *job, int n, const char *const *env)
{
	assert_true(ranks_start(job, n, env));
	job_all(job, "init");
}

void job_stop(struct ranks *job)
{
	job_all(job, "destroy");
	assert_true(ranks_stop(job, JOB_MS));
}

void job_end(struct ranks *job)
{
	ranks_kill(job);
}

void job_says(struct ranks *job, int rank, const char *order, const char *answer)
{
	const char *got = ranks_ask(job, rank, JOB_MS, "%s", order);
	if (!got || strcmp(got, answer))
		fail_msg("rank %d, %s: \"%s\", expected \"%s\"", rank, order, got ? got : "no answer", answer);
}

void job_one(struct ranks *job, int rank, const char *order)
{
	job_says(job, rank, order, "ok");
}

long job_number(struct ranks *job, int rank, const char *order)
{
	const char *got = ranks_ask(job, rank, JOB_MS, "%s", order);
	char *end = NULL;
	long value = got ? strtol(got, &end, 10) : 0;
	if (!got || end == got || *end)
		fail_msg("rank %d, %s: \"%s\", expected a number", rank, order, got ? got : "no answer");
	return value;
}

void job_answers(struct ranks *job, int rank)
{
	const char *got = ranks_answer(job, rank, JOB_MS);
	if (!got || strcmp(got, "ok"))
		fail_msg("rank %d: \"%s\"", rank, got ? got : "no answer");
}

void job_hangs(struct ranks *job)
{
	usleep(JOB_HANG_MS * 1000);
	for (int i = 0; i < job->n; i++)
		if (job->rank[i].pid)
			job_says(job, i, "query", "busy");
}

void job_idle(struct ranks *job)
{
	job_all(job, "sync");
}

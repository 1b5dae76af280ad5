/*
 * simjob.h - ranks as processes, for cmocka tests: every failure fails the test.
 */
#ifndef SIMJOB_H
#define SIMJOB_H

#include "simtest.h"
#include "tests/gpu/common/rank_orders.h"

#define JOB_MS 20000   /* for what must happen: a loaded machine is no failure */
#define JOB_HANG_MS 60 /* for what must not */

/* n ranks, initialised. env as for ranks_start. */
void job_start(struct ranks *job, int n, const char *const *env);
void job_stop(struct ranks *job); /* destroys communicator 0 first */
void job_end(struct ranks *job);  /* kills all */
/* All answer "ok". */
void job_all(struct ranks *job, const char *order);
void job_one(struct ranks *job, int rank, const char *order);
/* The answer is that. */
void job_says(struct ranks *job, int rank, const char *order, const char *answer);
long job_number(struct ranks *job, int rank, const char *order);
/* The answer to an order that was told before is "ok". */
void job_answers(struct ranks *job, int rank);
/* Stream 0 of every rank is busy, and stays so. */
void job_hangs(struct ranks *job);
/* Every rank's stream 0 becomes idle. */
void job_idle(struct ranks *job);

#endif

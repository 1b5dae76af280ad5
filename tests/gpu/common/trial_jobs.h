/*
 * trial_jobs.h - the launcher's side of trials: the ranks of a job as processes that carry out one trial after the other, and
 * two such jobs, of which one has libturbo preloaded.
 */
#ifndef TURBO_TEST_TRIAL_JOBS_H
#define TURBO_TEST_TRIAL_JOBS_H

#include "trial.h"

#define TRIAL_ENV 24
#define TRIAL_MUST_MS 60000u /* for what must happen: a loaded machine is no failure */

struct trial_job {
	struct ranks ranks;
	int n, fd;
	struct trial_page *page;
	const char *env[TRIAL_ENV];
	char page_env[32];
	bool open;
	/* of the trial that runs */
	bool answered[TRIAL_RANKS], gone[TRIAL_RANKS];
	struct trial_result result[TRIAL_RANKS];
	char error[RANKS_LINE];                  /* the first one's; empty: none */
	uint32_t at[TRIAL_RANKS];                /* at the last look */
	uint64_t changed, began;                 /* when that was not what it had been; ns */
	unsigned long long operations, launches; /* of all trials */
};

/* Starts and joins n ranks. env as for ranks_start, at most TRIAL_ENV - 2. False: a line on stderr says why. */
bool trial_job_open(struct trial_job *j, int n, const char *const *env);
void trial_job_close(struct trial_job *j); /* kills what is left */
/* In order. False: some did not end with status 0. */
bool trial_job_end(struct trial_job *j);
/* The same processes with another communicator 0. */
bool trial_job_rejoin(struct trial_job *j);
void trial_job_begin(struct trial_job *j, unsigned seed, enum trial_fault fault);
/* Hears what there is. True: all ranks have answered, or have ended. */
bool trial_job_hear(struct trial_job *j);
/* Nobody has come further for so long. */
bool trial_job_stands(const struct trial_job *j, uint64_t ms);
void trial_job_print(const struct trial_job *j, const char *name, const struct trial *t);

/* ---- the same trial, bare and preloaded ---- */
enum pair_state { PAIR_IDLE, PAIR_RUNS, PAIR_ABORTS };
struct trial_pair {
	struct trial_job bare, preloaded;
	enum pair_state state;
	struct trial trial;
	uint64_t until;
	bool resumed;             /* who was stopped goes on */
	char why[2 * RANKS_LINE]; /* it failed; empty: it did not */
};

bool trial_pair_open(struct trial_pair *p, int n, const char *const *bare, const char *const *preloaded);
void trial_pair_begin(struct trial_pair *p, unsigned seed, enum trial_fault fault);
/* True: the trial is over, and `why` says what was wrong. After a fault, or where something was, the processes are gone. */
bool trial_pair_poll(struct trial_pair *p);
bool trial_pair_end(struct trial_pair *p);

#endif

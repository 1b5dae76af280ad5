/*
 * trials.c - random programs, bare and preloaded side by side.
 */
#include <stdio.h>

#include "multi.h"
#include "tests/gpu/common/util.h"

#define MS 1000000ull
#define LIFE 100 /* programs of a process */
#define REJOIN 20

static struct trial_pair pair;

static bool another(unsigned done, unsigned failures, uint64_t until)
{
	return !failures && (multi.seconds ? now_ns() < until : done < multi.number);
}

static bool ready(unsigned done)
{
	/* Shared memory that other processes wait in: one rank's watchdog is not another's. */
	static const char *const none[] = {NULL}, *const on[] = {"TURBO_NCCL_COALESCE=on",
															 "TURBO_NCCL_WATCHDOG=report", NULL};

	if (pair.bare.open && done % LIFE == 0 && !trial_pair_end(&pair))
		return false;
	if (!pair.bare.open)
		return trial_pair_open(&pair, multi.ranks, multi_env(false, none), multi_env(true, on));
	return done % REJOIN || (trial_job_rejoin(&pair.bare) && trial_job_rejoin(&pair.preloaded));
}

int multi_trials(void)
{
	uint64_t until = now_ns() + multi.seconds * 1000ull * MS;
	unsigned done = 0, failures = 0;

	printf("random programs from seed %u on, %d ranks%s\n", multi.seed, multi.ranks,
		   multi.shared ? " that share a GPU" : "");
	fflush(stdout);
	for (; another(done, failures, until); done++) {
		if (!ready(done)) {
			printf("FAIL: the ranks cannot be started or ended\n");
			failures++;
			break;
		}
		trial_pair_begin(&pair, multi.seed + done, TRIAL_FAULTLESS);
		while (!trial_pair_poll(&pair))
			sleep_ms(1);
		if (pair.why[0]) {
			printf("FAIL: multi trials --ranks %d --seed %u --number 1: %s\n", multi.ranks, pair.trial.seed,
				   pair.why);
			failures++;
		}
	}
	if (!trial_pair_end(&pair))
		failures++;
	printf("%u programs, %u failed\n", done, failures);
	return failures != 0;
}

/* LINK: nccl SAN: address NOLEAKS: ranks are killed where they hang. */
/*
 * test_coalesce_random_fault.c - random programs of 2, 4 and 8 simulated ranks of which one is killed, ends or is stopped: with
 * all-gathers coalesced the others come as far as without, and no further; who is stopped and goes on spoils nothing; aborts
 * return. SEED, RANKS, SOAK_S …: common/trial_slots.h.
 */
#include <stdio.h>

#include "common/trial_slots.h"

static bool open_ranks(struct trial_pair *p, int ranks, unsigned times)
{
	static const char *const bare[] = {"SIM_JITTER_US=40", "SIM_NCCL_DELAY_US=150", "TRIAL_WATCH_US=1000",
									   "SIM_QUIET=1",      "LD_PRELOAD=",           NULL};
	static const char *const preloaded[] = {"SIM_JITTER_US=40",
											"SIM_NCCL_DELAY_US=150",
											"TRIAL_WATCH_US=1000",
											"SIM_QUIET=1",
											"TURBO_NCCL_COALESCE=on",
											"TURBO_NCCL_WATCHDOG=off",
											NULL};
	(void)times;
	return trial_pair_open(p, ranks, bare, preloaded);
}

static enum trial_fault fault_of(unsigned seed)
{
	return (enum trial_fault)(1 + seed % (TRIAL_FAULTS - 1));
}

int main(int argc, char **argv)
{
	static const struct trial_plan plan = {
		.programs = 16, .ranks = {2, 4, 8}, .life = 20, .rejoin = 5, .open = open_ranks, .fault = fault_of};
	struct trial_tally tally = {0};

	if (ranks_is_rank(argc, argv))
		return ranks_main(argv, trial_obey);
	trial_slots_run(&plan, &tally);
	fprintf(stderr, "killed %u, ended %u, killed amid work %u, stopped %u; %u failed\n",
			tally.done[TRIAL_KILLED], tally.done[TRIAL_ENDED], tally.done[TRIAL_TORN],
			tally.done[TRIAL_STOPPED], tally.failed);
	return tally.failed != 0;
}

/* LINK: nccl SAN: address NOLEAKS: ranks are killed where they hang. */
/*
 * test_coalesce_random_asked.c - the same programs while eight threads a rank ask about its events all the time: what is over stays
 * over until it is recorded again, and what it stands for has arrived. SEED, RANKS, SOAK_S …: common/trial_slots.h.
 */
#include <stdio.h>

#include "common/trial_slots.h"

static bool open_ranks(struct trial_pair *p, int ranks, unsigned times)
{
	const char *us = times % 2 ? "TRIAL_WATCH_US=0" : "TRIAL_WATCH_US=20";
	/* The bare run is there to compare with. */
	const char *bare[] = {"TRIAL_WATCHERS=1", "LD_PRELOAD=", NULL};
	const char *preloaded[] = {"TRIAL_WATCHERS=8", us, "TURBO_NCCL_COALESCE=on", NULL};

	return trial_pair_open(p, ranks, bare, preloaded);
}

int main(int argc, char **argv)
{
	static const struct trial_plan plan = {
		.programs = 12, .ranks = {1, 2, 0}, .life = 4, .rejoin = 2, .open = open_ranks};
	struct trial_tally tally = {0};

	if (ranks_is_rank(argc, argv))
		return ranks_main(argv, trial_obey);
	trial_slots_run(&plan, &tally);
	trial_slots_grouped(&tally);
	fprintf(stderr, "%u programs, %u failed\n", tally.done[0], tally.failed);
	return tally.failed != 0;
}

/* LINK: nccl SAN: address NOLEAKS: ranks are killed where they hang. */
/*
 * test_coalesce_random.c - random programs of 2, 4 and 8 simulated ranks, bare and with all-gathers coalesced: they end, with
 * the same data, seen in the same order, and NCCL's operations in the same order (trial.h). SEED, RANKS, SOAK_S …:
 * common/trial_slots.h.
 */
#include <stdio.h>

#include "common/trial_slots.h"

static bool open_ranks(struct trial_pair *p, int ranks, unsigned times)
{
	static const char *const limits[] = {"TURBO_NCCL_COALESCE_KB=auto", "TURBO_NCCL_COALESCE_KB=1",
										 "TURBO_LOG=warn"};
	char text[4][64];
	unsigned k = times + (unsigned)ranks;
	const char *bare[] = {text[0], text[1], text[2], text[3], "LD_PRELOAD=", NULL};
	const char *preloaded[] = {text[0],       text[1], text[2], text[3], "TURBO_NCCL_COALESCE=on",
							   limits[k % 3], NULL};

	snprintf(text[0], sizeof(text[0]), "SIM_JITTER_US=%u", k % 4 * 25);
	snprintf(text[1], sizeof(text[1]), "SIM_NCCL_DELAY_US=%u", k % 3 * 150);
	snprintf(text[2], sizeof(text[2]), "SIM_NCCL_ISSUE_US=%u", k % 5 * 20);
	snprintf(text[3], sizeof(text[3]), "SIM_NCCL_CONNECT=%u", k % 2);
	return trial_pair_open(p, ranks, bare, preloaded);
}

int main(int argc, char **argv)
{
	static const struct trial_plan plan = {
		.programs = 36, .ranks = {2, 4, 8}, .life = 60, .rejoin = 12, .open = open_ranks};
	struct trial_tally tally = {0};

	if (ranks_is_rank(argc, argv))
		return ranks_main(argv, trial_obey);
	trial_slots_run(&plan, &tally);
	trial_slots_grouped(&tally);
	fprintf(stderr, "%u programs, %u failed\n", tally.done[0], tally.failed);
	return tally.failed != 0;
}

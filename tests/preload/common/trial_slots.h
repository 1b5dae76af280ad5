/*
 * trial_slots.h - trials one after the other, bare and preloaded, in several places at a time: the main loop of the
 * test_coalesce_random programs.
 *
 * SEED     of the first program; with SEED alone only that one is run. NUMBER: how many
 * RANKS    of all; else the plan's, side by side
 * SOAK_S   seconds to go on instead
 * VERBOSE  1: what is run; 2: the programs, too
 */
#ifndef TURBO_TEST_TRIAL_SLOTS_H
#define TURBO_TEST_TRIAL_SLOTS_H

#include "tests/gpu/common/trial_jobs.h"

#define TRIAL_SLOTS 3

struct trial_plan {
	unsigned programs;      /* where nothing else is said */
	int ranks[TRIAL_SLOTS]; /* 0: no more */
	unsigned life, rejoin;  /* programs of a process, of a communicator */
	/* Starts the ranks; `times` it has before, for other delays each time. */
	bool (*open)(struct trial_pair *p, int ranks, unsigned times);
	enum trial_fault (*fault)(unsigned seed);
};

struct trial_tally {
	unsigned done[TRIAL_FAULTS], failed;
	unsigned long long operations, launches, bare_launches;
};

/* The rest of main(); what has failed was told. */
void trial_slots_run(const struct trial_plan *plan, struct trial_tally *tally);
/* All-gathers have been grouped that the program did not group. */
bool trial_slots_grouped(const struct trial_tally *tally);

#endif

/* LINK: nccl NOLEAKS: ranks are killed where they hang. */
/*
 * test_coalesce_random_fault.c - random programs of 2, 4 and 8 simulated ranks of which one is killed, ends or is stopped: with
 * all-gathers coalesced the others come as far as without, and no further; who is stopped and goes on spoils nothing; aborts
 * return.
 *
 * SEED     of the first program; with SEED alone only that one is run. NUMBER: how many
 * RANKS    of all; else 2, 4 and 8 side by side
 * SOAK_S   seconds to go on instead
 * VERBOSE  1: what is run; 2: the programs, too
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/common/trial_jobs.h"
#include "tests/gpu/common/util.h"

#define MS 1000000ull
#define PROGRAMS 18
#define SLOTS 3

static const char *const names[] = {"no fault", "killed", "ended", "killed amid its work", "stopped"};

static struct slot {
	struct trial_pair pair;
	int ranks;
	bool busy, closed;
} slots[SLOTS];
static unsigned next_seed, first_seed, seeds, failures, done[TRIAL_FAULTS], verbose;
static uint64_t soak_end;

static void fails(const struct slot *s, const char *why)
{
	failures++;
	fprintf(stderr, "FAILED: SEED=%u RANKS=%d, rank %d %s: %s\n", s->pair.trial.seed, s->ranks,
			s->pair.trial.culprit, names[s->pair.trial.fault], why);
}

static bool next(struct slot *s)
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
	unsigned seed = next_seed;

	if (soak_end ? now_ns() > soak_end : next_seed >= first_seed + seeds)
		return false;
	next_seed++;
	if (!s->pair.bare.open && !trial_pair_open(&s->pair, s->ranks, bare, preloaded)) {
		fails(s, "no ranks");
		return false;
	}
	trial_pair_begin(&s->pair, seed, (enum trial_fault)(1 + seed % (TRIAL_FAULTS - 1)));
	if (verbose > 1)
		trial_print(&s->pair.trial);
	return true;
}

static void go_on(struct slot *s)
{
	if (!s->busy) {
		s->busy = next(s);
		s->closed = !s->busy;
		return;
	}
	if (!trial_pair_poll(&s->pair))
		return;
	s->busy = false;
	done[s->pair.trial.fault]++;
	if (s->pair.why[0])
		fails(s, s->pair.why);
	else if (verbose)
		fprintf(stderr, "%u: %d ranks, %s: %.1f ms\n", s->pair.trial.seed, s->ranks,
				names[s->pair.trial.fault], (double)(now_ns() - s->pair.bare.began) / 1e6);
}

static unsigned number(const char *name, unsigned standard)
{
	const char *text = getenv(name);

	return text && *text ? (unsigned)strtoul(text, NULL, 10) : standard;
}

int main(int argc, char **argv)
{
	unsigned soak = number("SOAK_S", 0), ranks = number("RANKS", 0);
	int n = ranks ? 1 : SLOTS;
	bool busy = true;

	if (ranks_is_rank(argc, argv))
		return ranks_main(argv, trial_obey);
	first_seed = next_seed = number("SEED", (unsigned)(now_ns() / 1000 % 1000000) * 1000);
	seeds = number("NUMBER", getenv("SEED") ? 1 : PROGRAMS);
	verbose = number("VERBOSE", 0);
	soak_end = soak ? now_ns() + soak * 1000ull * MS : 0;
	fprintf(stderr, "SEED=%u\n", first_seed);
	for (int i = 0; i < n; i++)
		slots[i].ranks = ranks ? (int)ranks : 2 << i;
	while (busy) {
		busy = false;
		for (int i = 0; i < n; i++) {
			if (!slots[i].closed)
				go_on(&slots[i]);
			busy |= !slots[i].closed;
		}
		sleep_ms(1);
	}
	for (int i = 0; i < n; i++)
		if (!trial_pair_end(&slots[i].pair))
			fails(&slots[i], "the processes have not ended in order");
	for (int f = 1; f < TRIAL_FAULTS; f++)
		fprintf(stderr, "%s %u, ", names[f], done[f]);
	fprintf(stderr, "%u failed\n", failures);
	return failures != 0;
}

/* LINK: nccl NOLEAKS: ranks are killed where they hang. */
/*
 * test_coalesce_random.c - random programs of 2, 4 and 8 simulated ranks, bare and with all-gathers coalesced: they end, with
 * the same data, seen in the same order, and NCCL's operations in the same order (trial.h).
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
#define PROGRAMS 36
#define SLOTS 3
#define LIFE 60   /* programs of a process */
#define REJOIN 12 /* … of a communicator */

static struct slot {
	struct trial_pair pair;
	int ranks;
	unsigned since_open, since_join, opened;
	bool busy, closed;
	char env[6][64];
} slots[SLOTS];
static unsigned next_seed, first_seed, seeds, failures, done, verbose;
static uint64_t soak_end;
static unsigned long long operations, bare_launches, launches;

/* Each time other delays. */
static bool open_slot(struct slot *s)
{
	static const char *const limits[] = {"TURBO_NCCL_COALESCE_KB=auto", "TURBO_NCCL_COALESCE_KB=1",
										 "TURBO_LOG=warn"};
	unsigned k = s->opened++ + (unsigned)s->ranks;
	const char *both[] = {s->env[0], s->env[1], s->env[2], s->env[3], NULL};
	const char *bare[] = {both[0], both[1], both[2], both[3], "LD_PRELOAD=", NULL};
	const char *preloaded[] = {both[0],       both[1], both[2], both[3], "TURBO_NCCL_COALESCE=on",
							   limits[k % 3], NULL};

	snprintf(s->env[0], sizeof(s->env[0]), "SIM_JITTER_US=%u", k % 4 * 25);
	snprintf(s->env[1], sizeof(s->env[1]), "SIM_NCCL_DELAY_US=%u", k % 3 * 150);
	snprintf(s->env[2], sizeof(s->env[2]), "SIM_NCCL_ISSUE_US=%u", k % 5 * 20);
	snprintf(s->env[3], sizeof(s->env[3]), "SIM_NCCL_CONNECT=%u", k % 2);
	s->since_open = s->since_join = 0;
	return trial_pair_open(&s->pair, s->ranks, bare, preloaded);
}

static void fails(const struct slot *s, const char *why)
{
	failures++;
	fprintf(stderr, "FAILED: SEED=%u RANKS=%d: %s\n", s->pair.trial.seed, s->ranks, why);
}

static void count(struct slot *s)
{
	operations += s->pair.preloaded.operations;
	launches += s->pair.preloaded.launches;
	bare_launches += s->pair.bare.launches;
	s->pair.preloaded.operations = s->pair.preloaded.launches = s->pair.bare.launches = 0;
}

static bool next(struct slot *s)
{
	if (soak_end ? now_ns() > soak_end : next_seed >= first_seed + seeds)
		return false;
	if (s->pair.bare.open && s->since_open == LIFE && !trial_pair_end(&s->pair))
		fails(s, "the processes have not ended in order");
	if (!s->pair.bare.open && !open_slot(s)) {
		fails(s, "no ranks");
		return false;
	}
	if (s->since_join++ == REJOIN) {
		s->since_join = 1;
		if (!trial_job_rejoin(&s->pair.bare) || !trial_job_rejoin(&s->pair.preloaded)) {
			fails(s, "no new communicator");
			trial_job_close(&s->pair.bare);
			trial_job_close(&s->pair.preloaded);
			return !open_slot(s);
		}
	}
	s->since_open++;
	trial_pair_begin(&s->pair, next_seed++, TRIAL_FAULTLESS);
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
	done++;
	if (s->pair.why[0])
		fails(s, s->pair.why);
	else if (verbose)
		fprintf(stderr, "%u: %d ranks: %.1f ms\n", s->pair.trial.seed, s->ranks,
				(double)(now_ns() - s->pair.bare.began) / 1e6);
	count(s);
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
	fprintf(stderr, "%u programs, %llu operations in %llu launches, bare %llu; %u failed\n", done, operations,
			launches, bare_launches, failures);
	return failures != 0;
}

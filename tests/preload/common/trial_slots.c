/*
 * trial_slots.c - trials one after the other.
 */
#include "trial_slots.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/gpu/common/util.h"

#define MS 1000000ull

static struct slot {
	struct trial_pair pair;
	int ranks;
	unsigned since_open, since_join, opened;
	bool busy, closed;
} slots[TRIAL_SLOTS];
static const struct trial_plan *plan;
static struct trial_tally *tally;
static unsigned next_seed, first_seed, seeds, verbose;
static uint64_t soak_end;

static void fails(const struct slot *s, const char *why)
{
	static const char *const what[] = {"", ", killed", ", ended", ", killed amid its work", ", stopped"};
	const struct trial *t = &s->pair.trial;

	tally->failed++;
	fprintf(stderr, "FAILED: SEED=%u RANKS=%d", t->seed, s->ranks);
	if (t->culprit >= 0)
		fprintf(stderr, " (rank %d%s)", t->culprit, what[t->fault]);
	fprintf(stderr, ": %s\n", why);
}

static bool reopen(struct slot *s)
{
	s->since_open = s->since_join = 0;
	return plan->open(&s->pair, s->ranks, s->opened++);
}

/* The ranks are there, and so is their communicator. */
static bool prepare(struct slot *s)
{
	struct trial_pair *p = &s->pair;

	if (p->bare.open && s->since_open == plan->life && !trial_pair_end(p))
		fails(s, "the processes have not ended in order");
	if (!p->bare.open && !reopen(s)) {
		fails(s, "no ranks");
		return false;
	}
	if (s->since_join == plan->rejoin) {
		s->since_join = 0;
		if (!trial_job_rejoin(&p->bare) || !trial_job_rejoin(&p->preloaded)) {
			fails(s, "no new communicator");
			trial_job_close(&p->bare);
			trial_job_close(&p->preloaded);
			return reopen(s);
		}
	}
	return true;
}

static bool next(struct slot *s)
{
	if (soak_end ? now_ns() > soak_end : next_seed >= first_seed + seeds)
		return false;
	if (!prepare(s))
		return false;
	s->since_open++;
	s->since_join++;
	trial_pair_begin(&s->pair, next_seed, plan->fault ? plan->fault(next_seed) : TRIAL_FAULTLESS);
	next_seed++;
	if (verbose > 1)
		trial_print(&s->pair.trial);
	return true;
}

static void count(struct slot *s)
{
	struct trial_job *bare = &s->pair.bare, *preloaded = &s->pair.preloaded;

	tally->done[s->pair.trial.fault]++;
	tally->operations += preloaded->operations;
	tally->launches += preloaded->launches;
	tally->bare_launches += bare->launches;
	preloaded->operations = preloaded->launches = bare->launches = 0;
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
	if (s->pair.why[0])
		fails(s, s->pair.why);
	else if (verbose)
		fprintf(stderr, "%u: %d ranks, fault %d: %.1f ms\n", s->pair.trial.seed, s->ranks,
				(int)s->pair.trial.fault, (double)(now_ns() - s->pair.bare.began) / 1e6);
	count(s);
}

static unsigned number(const char *name, unsigned standard)
{
	const char *text = getenv(name);

	return text && *text ? (unsigned)strtoul(text, NULL, 10) : standard;
}

void trial_slots_run(const struct trial_plan *of, struct trial_tally *to)
{
	unsigned soak = number("SOAK_S", 0), ranks = number("RANKS", 0);
	bool busy = true;
	int n = 0;

	plan = of;
	tally = to;
	first_seed = next_seed = number("SEED", (unsigned)(now_ns() / 1000 % 1000000) * 1000);
	seeds = number("NUMBER", getenv("SEED") ? 1 : plan->programs);
	verbose = number("VERBOSE", 0);
	soak_end = soak ? now_ns() + soak * 1000ull * MS : 0;
	fprintf(stderr, "SEED=%u\n", first_seed);
	for (int i = 0; i < (ranks ? 1 : TRIAL_SLOTS); i++)
		if (ranks || plan->ranks[i])
			slots[n++].ranks = ranks ? (int)ranks : plan->ranks[i];
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
}

bool trial_slots_grouped(const struct trial_tally *t)
{
	fprintf(stderr, "%llu operations in %llu launches, bare %llu\n", t->operations, t->launches,
			t->bare_launches);
	return t->launches < t->bare_launches;
}

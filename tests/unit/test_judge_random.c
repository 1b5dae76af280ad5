/*
 * test_judge_random.c - random programs of simulated ranks, with one fault or none, looked at by the judge all the time:
 * no alarm where there is no fault, else the right one about the right rank.
 *
 * SEED     of the first program (default: from the clock; it is printed)
 * SOAK_S   seconds to go on (default: 2)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "common/judge_sim.h"

#define STILL_MS 140000 /* nothing moves: by then there is a verdict */
#define MOST_MS 3000000

static const char *const fault_name[SIM_FAULTS] = {"none",    "killed", "exited", "skips", "differs", "swaps",
												   "stopped", "frozen", "spins",  "gpu",   "stuck"};
static unsigned told[SIM_FAULTS], ran[SIM_FAULTS], silent[SIM_FAULTS];

#define BIT(v) (1u << JUDGE_##v)

/* What may be said about a fault. */
static unsigned allowed(enum sim_fault fault)
{
	switch (fault) {
	case FAULT_KILLED:
	case FAULT_EXITED: return BIT(DEAD);
	case FAULT_DIFFERS: return BIT(MISMATCH);
	case FAULT_SKIPS:
	case FAULT_SWAPS: return BIT(MISMATCH) | BIT(CYCLE) | BIT(DEAD);
	case FAULT_STOPPED:
	case FAULT_FROZEN: return BIT(STOPPED);
	case FAULT_STUCK: return BIT(TRANSPORT);
	default: return 0;
	}
}

static unsigned have_called(const struct judge_finding *f)
{
	const struct judge_world *w = sim_world();
	unsigned n = 0;

	for (uint32_t i = 0; i < w->members; i++)
		n += w->member[i].key[0] == f->key[0] && w->member[i].sequence >= f->sequence;
	return n;
}

/* Where half of the ranks do one thing and half another, who is wrong? */
static bool is_clear(const struct sim_program *p, const struct judge_finding *f)
{
	if (f->verdict == JUDGE_DEAD || f->verdict == JUDGE_STOPPED)
		return p->fault != FAULT_SKIPS && p->fault != FAULT_SWAPS;
	/* Of calls in another order somebody else may be the first to be in the way. */
	return f->verdict == JUDGE_MISMATCH && p->fault == FAULT_DIFFERS && have_called(f) > 2;
}

static void complain(uint64_t seed, const struct sim_program *p, const struct judge_finding *f,
					 const char *what)
{
	fail_msg(
		"SEED=%llu: %s: fault %s of process %d at step %d of %d, %d ranks, %d communicators: after %u ms %s "
		"of process %d, communicator %u, call %u",
		(unsigned long long)seed, what, fault_name[p->fault], p->culprit, p->at, p->steps, p->ranks, p->comms,
		sim_ms(), judge_name(f->verdict), f->culprit, (unsigned)f->key[0], f->sequence);
}

static void check(uint64_t seed, const struct sim_program *p, const struct judge_finding *f)
{
	if (!(allowed(p->fault) >> f->verdict & 1))
		complain(seed, p, f, "a wrong verdict");
	if (f->verdict == JUDGE_TRANSPORT ? f->culprit >= 0 : f->culprit < 0)
		complain(seed, p, f, "a wrong culprit");
	if (is_clear(p, f) && f->culprit != p->culprit)
		complain(seed, p, f, "a wrong culprit");
	told[p->fault]++;
}

static void run(uint64_t seed)
{
	static struct sim_program p;
	uint64_t random = seed;
	enum sim_fault fault =
		sim_random(&random) % 2 ? FAULT_NONE : (enum sim_fault)(sim_random(&random) % SIM_FAULTS);
	struct judge_finding f = {.verdict = JUDGE_NOTHING};

	sim_make(&p, &random, fault);
	sim_start(&p, &random);
	ran[p.fault]++;
	while (!sim_over() && sim_still_ms() < STILL_MS && sim_ms() < MOST_MS) {
		sim_tick();
		if (sim_ms() % SIM_POLL_MS)
			continue;
		judge_look(sim_world(), NULL, &f);
		if (f.verdict != JUDGE_NOTHING && f.verdict < JUDGE_HELD) {
			check(seed, &p, &f);
			return;
		}
	}
	if (!sim_over() && p.fault == FAULT_NONE)
		complain(seed, &p, &f, "it hangs by itself");
	/* Who has left out a call and does something else now is a laggard. */
	if (!sim_over() && p.blind < 0 && !sim_overran() && allowed(p.fault) &&
		(p.fault != FAULT_SKIPS || p.exits))
		complain(seed, &p, &f, "nothing is said");
	silent[p.fault]++;
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void test_random(void **state)
{
	const char *text = getenv("SEED"), *soak = getenv("SOAK_S");
	uint64_t seed = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL) * 1000003;
	double end = seconds() + (soak ? strtod(soak, NULL) : 2);
	unsigned n = 0;
	(void)state;

	printf("SEED=%llu\n", (unsigned long long)seed);
	do
		run(seed + n++);
	while (seconds() < end && !(text && !soak));
	printf("%u programs\n", n);
	for (int i = 0; i < SIM_FAULTS; i++)
		printf("  %-8s %5u, told %5u, without a verdict %5u\n", fault_name[i], ran[i], told[i], silent[i]);
	assert_int_equal(told[FAULT_NONE], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

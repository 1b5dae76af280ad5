/* LINK: nccl SAN: address NOLEAKS: a rank may end inside a group. TIMED: a limit of 3 s is for ranks that run. */
/*
 * test_nccl_random.c - random programs of 2, 4 and 8 simulated ranks under the watchdog: where one goes wrong, one report
 * with the right verdict and culprit; where none does, none. Ranks live through many programs, several jobs at a time.
 *
 * SEED     of the first program; with SEED alone only that one is run. NUMBER: how many
 * SOAK_S   seconds to go on instead
 * VERBOSE  1: what is run; 2: the programs, too
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "policy/nccl/flight_page.h"
#include "test_nccl_random_jobs.h"
#include "tests/gpu/common/util.h"

#define MS 1000000ull
#define TALLY_MS 20000

#ifdef __has_feature
#define PROGRAMS (__has_feature(address_sanitizer) ? 14 : 40)
#else
#define PROGRAMS 40
#endif

static unsigned first_seed, seeds, failures, verbose;
static uint64_t soak_end;
static unsigned next_seed[3]; /* of each kind of slot */
static unsigned tally[FAULTS], outcomes[8];
static uint64_t longest[FAULTS];

static struct slot slots[SLOTS];

/* ---- which programs ---- */

static enum fault fault_of(unsigned seed)
{
	return seed % 2 ? (enum fault)(1 + seed / 2 % (FAULTS - 1)) : FAULT_NONE;
}

/* The next one for a slot; false: there is none any more. */
static bool next_program(struct slot *s)
{
	unsigned *next = &next_seed[s->limited + s->patient];

	for (;; ++*next) {
		enum fault fault = fault_of(*next);
		if (soak_end ? now_ns() > soak_end : *next >= first_seed + seeds)
			return false;
		if (slot_is_limited(fault) != s->limited ||
			(s->patient && fault != FAULT_STOPPED && fault != FAULT_STUCK))
			continue;
		program_make(&s->program, *next, fault);
		program_expect(&s->program, &s->expected);
		if (s->expected.outcome == ENDS_UNCLEAR ||
			(s->expected.outcome == ENDS_WAITING && !soak_end && seeds > 1)) /* takes long */
			continue;
		++*next;
		return true;
	}
}

/* ---- results ---- */

void slot_fails(struct slot *s, const char *fmt, ...)
{
	va_list ap;

	if (s->failed)
		return;
	s->failed = true;
	failures++;
	fprintf(stderr, "FAILED: SEED=%u, %d ranks, %s", s->program.seed, s->program.n,
			fault_name[s->program.fault]);
	if (s->program.culprit >= 0)
		fprintf(stderr, " of rank %d (pid %d)", s->program.culprit, (int)s->pid[s->program.culprit]);
	fprintf(stderr, ": ");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
}

void slot_ended(struct slot *s)
{
	uint64_t since = s->died && s->died < s->found ? s->died : s->began;
	uint64_t took = (s->found ? s->found : now_ns()) - since;

	tally[s->program.fault]++;
	if (s->program.fault != FAULT_NONE && s->expected.outcome < 8)
		outcomes[s->expected.outcome]++;
	if (took > longest[s->program.fault])
		longest[s->program.fault] = took;
	if (verbose)
		fprintf(stderr, "%u: %d ranks, %s: %s after %.2f s\n", s->program.seed, s->program.n,
				fault_name[s->program.fault],
				s->failed  ? "FAILED"
				: s->found ? "told"
						   : "nothing to tell",
				(double)took / 1e9);
}

static void say_all(void)
{
	fprintf(stderr, "seeds %u .. %u:", first_seed,
			(next_seed[0] > next_seed[1] ? next_seed[0] : next_seed[1]) - 1);
	for (int i = 0; i < FAULTS; i++)
		fprintf(stderr, " %s %u (%.1f s)", fault_name[i], tally[i], (double)longest[i] / 1e9);
	fprintf(stderr, "; %u mismatches, %u cycles, %u wait, %u end well; %u failed\n", outcomes[ENDS_MISMATCH],
			outcomes[ENDS_CYCLE], outcomes[ENDS_WAITING], outcomes[ENDS_WELL], failures);
}

/* ---- all of it ---- */

static bool go_on(void)
{
	bool busy = false;

	for (int i = 0; i < SLOTS; i++) {
		struct slot *s = &slots[i];
		if (s->state == SLOT_IDLE && !s->closed) {
			if (next_program(s)) {
				if (verbose > 1)
					program_print(&s->program);
				slot_begin(s);
			} else {
				s->closed = true;
			}
		}
		if (s->state != SLOT_IDLE)
			slot_poll(s);
		busy |= s->state != SLOT_IDLE || !s->closed;
	}
	return busy;
}

/* What the killed have left is taken away by the next that comes, the rest by those that have left it. */
static void check_leftovers(void)
{
	struct ranks one;
	uint64_t limit = now_ns() + TALLY_MS * MS;
	unsigned left;

	if (!ranks_start(&one, 1, NULL) || !ranks_all(&one, TALLY_MS, "init")) {
		failures++;
		return;
	}
	while ((left = slot_leftovers()) > 0 && now_ns() < limit)
		sleep_ms(20);
	if (left) {
		failures++;
		fprintf(stderr, "FAILED: %u flight files are left of killed ranks\n", left);
	}
	ranks_all(&one, TALLY_MS, "destroy");
	ranks_stop(&one, TALLY_MS);
}

static unsigned number(const char *name, unsigned standard)
{
	const char *text = getenv(name);

	return text && *text ? (unsigned)strtoul(text, NULL, 10) : standard;
}

int main(int argc, char **argv)
{
	unsigned soak = number("SOAK_S", 0);

	if (ranks_is_rank(argc, argv))
		return ranks_main(argv, program_obey);
	first_seed = number("SEED", (unsigned)(now_ns() / 1000 % 1000000) * 1000);
	seeds = number("NUMBER", getenv("SEED") ? 1 : PROGRAMS);
	verbose = number("VERBOSE", 0);
	soak_end = soak ? now_ns() + soak * 1000ull * MS : 0;
	next_seed[0] = next_seed[1] = next_seed[2] = first_seed;
	fprintf(stderr, "SEED=%u\n", first_seed);
	for (int i = 0; i < SLOTS; i++)
		slot_open(&slots[i], i, soak != 0);
	while (go_on())
		sleep_ms(3);
	for (int i = 0; i < SLOTS; i++)
		slot_end(&slots[i]);
	for (int i = 0; i < SLOTS; i++)
		slot_close(&slots[i]);
	check_leftovers();
	say_all();
	return failures != 0;
}

/*
 * test_nccl_random_jobs.c - a program is run by processes that have run others before, or are new; what comes of it is
 * compared with what must; then those that hang are freed.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "policy/nccl/flight_page.h"
#include "test_nccl_random_jobs.h"
#include "tests/gpu/common/util.h"

#define MS 1000000ull
#define MUST_MS 100000ull /* for what must happen: a loaded machine is no failure */
#define DEAD_MS 20000ull
#define WAITING_MS 5000ull /* in which nothing may be told */
#define CANCEL_MS 15000ull

bool slot_is_limited(enum fault fault)
{
	return fault >= FAULT_STOPPED;
}

/* ---- processes ---- */

static bool start(struct slot *s, int i)
{
	static char asan[512];
	const char *options = getenv("ASAN_OPTIONS");
	const char *env[] = {"SIM_QUIET=1",
						 "SIM_NCCL_DELAY_US=1500",
						 "SIM_NCCL_ISSUE_US=300",
						 "SIM_JITTER_US=100",
						 "TURBO_LOG=warn",
						 asan,
						 s->where,
						 s->to,
						 s->limited && !s->patient
							 ? (s->soaks ? "TURBO_NCCL_TIMEOUT_S=6" : "TURBO_NCCL_TIMEOUT_S=3")
							 : "TURBO_NCCL_TIMEOUT_S=auto",
						 NULL};

	/* What is left after an abort is no leak. */
	snprintf(asan, sizeof(asan), "ASAN_OPTIONS=%s:detect_leaks=0", options ? options : "");
	s->mistakes[i] = 0;
	return ranks_again(&s->ranks, i, env);
}

static void kill_one(struct slot *s, int i)
{
	pid_t pid = s->ranks.rank[i].pid;

	if (!pid)
		return;
	ranks_signal(&s->ranks, i, SIGKILL);
	found_killed(pid);
}

void slot_open(struct slot *s, int number, bool soaks)
{
	s->limited = number >= SLOTS - SLOTS_LIMITED;
	s->soaks = soaks;
	s->closed = soaks && number % 2; /* not so many at a time */
	s->patient = soaks && number == SLOTS - 1;
	snprintf(s->dir, sizeof(s->dir), "/tmp/turbo-test-random-XXXXXX");
	if (!mkdtemp(s->dir) || !ranks_prepare(&s->ranks, PROGRAM_RANKS)) {
		fprintf(stderr, "no folder, or no simulated NCCL\n");
		exit(1);
	}
	snprintf(s->log, sizeof(s->log), "%s.log", s->dir);
	snprintf(s->where, sizeof(s->where), "TURBO_NCCL_DIR=%s", s->dir);
	snprintf(s->to, sizeof(s->to), "TURBO_LOG_FILE=%s", s->log);
}

/* In order, and so without a trace. */
void slot_end(struct slot *s)
{
	for (int i = 0; i < s->ranks.n; i++)
		if (s->ranks.rank[i].pid)
			ranks_tell(&s->ranks, i, "exit 0");
}

void slot_close(struct slot *s)
{
	char path[64];

	for (int i = 0; i < s->ranks.n; i++) {
		pid_t pid = s->ranks.rank[i].pid;
		if (!pid)
			continue;
		found_file(pid, path);
		if (ranks_wait(&s->ranks, i, (int)MUST_MS) != 0)
			slot_fails(s, "process %d has not ended in order", (int)pid);
		else if (access(path, F_OK) == 0)
			slot_fails(s, "%s is left of a process that has ended in order", path);
	}
	ranks_kill(&s->ranks);
	found_clear(s);
	unlink(s->log);
	rmdir(s->dir);
}

/* ---- questions ---- */

static void ask(struct slot *s, int r, enum asked what, const char *order)
{
	ranks_tell(&s->ranks, s->of[r], "%s", order);
	s->asked[r] = what;
}

static bool is_gone(const struct slot *s, int r)
{
	return s->ranks.rank[s->of[r]].pid == 0;
}

static bool ends_well(const struct slot *s)
{
	return s->expected.outcome == ENDS_WELL &&
		   (s->program.fault == FAULT_NONE || s->program.fault < FAULT_STOPPED) &&
		   s->program.fault != FAULT_KILLED && s->program.fault != FAULT_EXITS;
}

static void answered(struct slot *s, int r, const char *answer)
{
	enum asked asked = s->asked[r];

	s->asked[r] = ASKED_NOTHING;
	if (asked == ASKED_RUN && strcmp(answer, "ok") != 0) {
		slot_fails(s, "rank %d: %s", r, answer);
	} else if (asked == ASKED_RESULT && strncmp(answer, "busy", 4) != 0) {
		s->finished[r] = true;
		if (strcmp(answer, "ok") != 0)
			slot_fails(s, "rank %d: %s", r, answer);
	} else if (asked == ASKED_CANCEL) {
		s->finished[r] = true;
		if (strcmp(answer, "ok") != 0) {
			slot_fails(s, "rank %d is not freed: %s", r, answer);
			kill_one(s, s->of[r]);
		}
	} else if (asked == ASKED_MISTAKES) {
		unsigned long n = strtoul(answer, NULL, 10);
		if (n != s->mistakes[s->of[r]] && ends_well(s))
			slot_fails(s, "rank %d: the simulated NCCL has seen mistakes", r);
		s->mistakes[s->of[r]] = n;
		s->finished[r] = true;
	}
}

static bool hear(struct slot *s)
{
	bool all = true;

	for (int r = 0; r < s->program.n; r++) {
		const char *answer =
			is_gone(s, r) || s->asked[r] == ASKED_NOTHING ? NULL : ranks_answer(&s->ranks, s->of[r], 0);
		if (answer)
			answered(s, r, answer);
		all = all && (s->finished[r] || is_gone(s, r));
	}
	return all;
}

/* ---- what came of it ---- */

static bool is_named(const struct slot *s, uint32_t named, const struct found *f)
{
	return s->expected.culprits ? (named & s->expected.culprits) != 0 : f->pid == -1;
}

static void check_found(struct slot *s, const struct found *f)
{
	static const char *const verdicts[] = {"", "mismatch", "cycle", ""};
	enum fault fault = s->program.fault;
	const char *verdict = fault == FAULT_KILLED || fault == FAULT_EXITS ? "dead"
						  : s->patient && fault == FAULT_STOPPED        ? "stopped"
						  : s->patient && fault == FAULT_STUCK          ? "transport"
						  : slot_is_limited(fault)                      ? "timeout"
																		: verdicts[s->expected.outcome];
	uint32_t named = 0;

	for (int r = 0; r < s->program.n; r++)
		if (s->pid[r] == f->pid)
			named = 1u << r;
	if (strcmp(f->verdict, verdict) != 0)
		slot_fails(s, "%s instead of \"%s\": %s", f->verdict, verdict, f->text);
	else if (f->reports != 1)
		slot_fails(s, "%u reports: %s", f->reports, f->text);
	else if (s->limited && !s->again && !is_named(s, named, f))
		s->again = true; /* ranks may have had no CPU for so long */
	else if (!is_named(s, named, f))
		slot_fails(s, "pid %ld is named, not one of 0x%x: %s", f->pid, s->expected.culprits, f->text);
}

static void check_silence(struct slot *s)
{
	char text[2048];
	static struct found f;

	found_look(s, &f);
	if (f.reports)
		slot_fails(s, "%s where there is nothing to tell: %s", f.verdict, f.text);
	else if (found_log(s, text))
		slot_fails(s, "a line in the log: %s", text);
}

/* ---- states ---- */

static void cancel_all(struct slot *s)
{
	for (int r = 0; r < s->program.n; r++) {
		s->finished[r] = false;
		if (is_gone(s, r))
			continue;
		ranks_signal(&s->ranks, s->of[r], SIGCONT);
		while (s->asked[r] != ASKED_NOTHING) {
			const char *answer = ranks_answer(&s->ranks, s->of[r], (int)CANCEL_MS);
			if (!answer)
				kill_one(s, s->of[r]);
			answered(s, r, answer ? answer : "no answer");
		}
		if (!is_gone(s, r))
			ask(s, r, ASKED_CANCEL, "cancel");
	}
	s->state = SLOT_CANCELS;
	s->until = now_ns() + CANCEL_MS * MS;
}

static void count_mistakes(struct slot *s)
{
	for (int r = 0; r < s->program.n; r++) {
		s->finished[r] = false;
		if (!is_gone(s, r))
			ask(s, r, ASKED_MISTAKES, "mistakes");
	}
	s->state = SLOT_COUNTS;
	s->until = now_ns() + CANCEL_MS * MS;
}

static void see_who_died(struct slot *s)
{
	for (int r = 0; r < s->program.n; r++) {
		int status = is_gone(s, r) ? -1 : ranks_wait(&s->ranks, s->of[r], 0);
		if (status == -1)
			continue;
		if (r == s->program.culprit && (s->program.fault == FAULT_KILLED || s->program.fault == FAULT_EXITS))
			s->died = now_ns();
		else
			slot_fails(s, "rank %d has ended with wait status %d", r, status);
	}
}

static void poll_running(struct slot *s)
{
	static struct found f;
	uint64_t now = now_ns();
	bool well = ends_well(s), all;

	see_who_died(s);
	all = hear(s);
	for (int r = 0; r < s->program.n && well; r++)
		if (s->asked[r] == ASKED_NOTHING && !s->finished[r] && !is_gone(s, r))
			ask(s, r, ASKED_RESULT, "result");
	if (well && (all || s->failed)) {
		check_silence(s);
		if (s->failed)
			cancel_all(s);
		else
			count_mistakes(s);
		return;
	}
	if (s->expected.outcome == ENDS_WAITING && now > s->began + WAITING_MS * MS) {
		check_silence(s);
		cancel_all(s);
		return;
	}
	found_look(s, &f);
	if (f.reports && !well && s->expected.outcome != ENDS_WAITING) {
		s->found = now;
		s->until = now + (s->soaks ? 200 + s->program.seed * 7919u % 3000 : 200) * MS;
		s->state = SLOT_LINGERS;
	} else if (now > s->began + MUST_MS * MS || (s->died && now > s->died + DEAD_MS * MS)) {
		slot_fails(s, well ? "it hangs" : "no report");
		cancel_all(s);
	}
}

static void forget_dead(struct slot *s)
{
	for (int r = 0; r < s->program.n; r++)
		if (is_gone(s, r))
			found_killed(s->pid[r]);
}

void slot_poll(struct slot *s)
{
	static struct found f;
	bool all;

	switch (s->state) {
	case SLOT_RUNS: poll_running(s); return;
	case SLOT_LINGERS:
		if (now_ns() < s->until)
			return;
		found_look(s, &f);
		check_found(s, &f);
		cancel_all(s);
		return;
	case SLOT_CANCELS:
	case SLOT_COUNTS:
		see_who_died(s);
		all = hear(s);
		for (int r = 0; r < s->program.n && !all && now_ns() > s->until; r++)
			if (!s->finished[r] && !is_gone(s, r)) {
				slot_fails(s, "rank %d does not answer", r);
				kill_one(s, s->of[r]);
			}
		if (!all)
			return;
		if (s->state == SLOT_CANCELS) {
			count_mistakes(s);
			return;
		}
		forget_dead(s);
		found_forget(s);
		if (s->again && !s->second) {
			s->second = true;
			slot_begin(s);
			return;
		}
		slot_ended(s);
		s->again = s->second = false;
		s->state = SLOT_IDLE;
		return;
	case SLOT_IDLE: return;
	}
}

/* ---- beginning ---- */

static void choose(struct slot *s)
{
	uint32_t taken = 0;
	unsigned state = s->program.seed;

	for (int r = 0; r < s->program.n; r++) {
		int i;
		do {
			state = state * 1103515245u + 12345u;
			i = (int)(state >> 16) % PROGRAM_RANKS;
		} while (taken >> i & 1);
		taken |= 1u << i;
		s->of[r] = i;
		if (!s->ranks.rank[i].pid && !start(s, i))
			slot_fails(s, "no process");
		s->pid[r] = s->ranks.rank[i].pid;
		s->asked[r] = ASKED_NOTHING;
		s->finished[r] = false;
	}
}

void slot_begin(struct slot *s)
{
	char id[RANKS_LINE];
	const char *answer;

	s->failed = false;
	s->died = s->found = 0;
	choose(s);
	answer = ranks_ask(&s->ranks, s->of[0], (int)MUST_MS, "id");
	snprintf(id, sizeof(id), "%s", answer ? answer : "none");
	for (int r = 0; r < s->program.n; r++) {
		ranks_tell(&s->ranks, s->of[r], "run %u %u %d %s", s->program.seed, s->program.fault, r, id);
		s->asked[r] = ASKED_RUN;
	}
	s->began = now_ns();
	s->state = SLOT_RUNS;
}

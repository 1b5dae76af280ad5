/*
 * cmd_record.c - `turbo record`: recording in running processes. What is asked of one of them: record_target.h.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "arguments.h"
#include "record_target.h"
#include "turbo.h"
#include "cupti/record.h"

#define SECONDS 5
#define SECONDS_MOST 86400
#define ANSWER_MS 10000 /* the first use of CUPTI and a file on a slow disk take their time */
#define END_MS 10000
#define POLL_MS 20

/* ---- signals ---- */

static volatile sig_atomic_t interrupts, last_signal;

static void on_signal(int number)
{
	last_signal = number;
	interrupts++;
}

static void watch_signals(void)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction action = {.sa_handler = on_signal}, old;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		bool nohup = ends[i] == SIGHUP && sigaction(SIGHUP, NULL, &old) == 0 && old.sa_handler == SIG_IGN;
		if (!nohup)
			sigaction(ends[i], &action, NULL);
	}
}

/* Ends as a command does that a signal has ended. */
static void die_of_signal(void)
{
	signal(last_signal, SIG_DFL);
	raise(last_signal);
}

/* ---- all targets ---- */

static void nap(void)
{
	struct timespec t = {0, POLL_MS * 1000000L};
	nanosleep(&t, NULL);
}

static unsigned count(const struct target *t, unsigned n, enum target_state state)
{
	unsigned sum = 0;
	for (unsigned i = 0; i < n; i++)
		sum += t[i].state == state;
	return sum;
}

/* Looks at those in `state` until none is, the time is over, or there were more than `most` interrupts. */
static void look(struct target *t, unsigned n, enum target_state state, void (*at)(struct target *),
				 uint64_t ms, sig_atomic_t most)
{
	uint64_t until = target_now_ms() + ms;
	for (;;) {
		for (unsigned i = 0; i < n; i++)
			if (t[i].state == state)
				at(&t[i]);
		if (!count(t, n, state) || interrupts > most || target_now_ms() >= until)
			return;
		nap();
	}
}

/* false: interrupted before all had answered. */
static bool hear(struct target *t, unsigned n)
{
	look(t, n, TARGET_ASKED, target_hear, ANSWER_MS, 0);
	bool heard = count(t, n, TARGET_ASKED) == 0;
	for (unsigned i = 0; i < n; i++)
		if (t[i].state == TARGET_ASKED)
			target_refuse(&t[i], interrupts ? "it had not answered yet; nothing is recorded"
											: "it does not answer; nothing is recorded");
	return heard || !interrupts;
}

/* Until all have ended by themselves, or somebody wants it to end; who wants it twice does not wait. */
static void wait_for_end(struct target *t, unsigned n, uint64_t ms)
{
	look(t, n, TARGET_RECORDING, target_watch, ms + END_MS, 0);
	for (unsigned i = 0; i < n; i++)
		if (t[i].state == TARGET_RECORDING)
			target_stop(&t[i]);
	if (interrupts)
		look(t, n, TARGET_RECORDING, target_watch, END_MS, 1);
}

/* One line a process; false: one has not ended as it should. */
static bool print_end(const struct target *t)
{
	bool fine = true;
	if (t->state == TARGET_NONE)
		return false;
	if (target_file_gone(t)) {
		failure("record", "process %u: %s is gone: it or its folder was removed meanwhile", t->pid, t->file);
		return false;
	}
	if (t->state == TARGET_LOST)
		fprintf(stderr, "turbo record: process %u: %s meanwhile; up to a second may be missing\n", t->pid,
				t->lost);
	else if (t->state == TARGET_RECORDING)
		fine = failure("record", "process %u: it does not stop; what it has recorded is in the file below",
					   t->pid) == EXIT_OK;
	else if (*t->end_text)
		fprintf(stderr, "turbo record: process %u: %s\n", t->pid, t->end_text);
	printf("%s\n", t->file);
	return fine;
}

/* ---- the command ---- */

static int record(struct target *t, unsigned n, const struct target_wish *wish)
{
	bool fine = true, heard;
	watch_signals();
	for (unsigned i = 0; i < n && !interrupts; i++)
		target_open(&t[i]);
	for (unsigned i = 0; i < n && !interrupts; i++)
		if (t[i].state == TARGET_IDLE)
			target_ask(&t[i], wish);
	heard = hear(t, n);
	unsigned started = count(t, n, TARGET_RECORDING);
	if (started && isatty(STDERR_FILENO))
		fprintf(stderr, "recording %u process%s for %g s; Ctrl-C ends it earlier\n", started,
				started == 1 ? "" : "es", (double)wish->ms / 1000);
	if (started)
		wait_for_end(t, n, wish->ms);
	for (unsigned i = 0; i < n; i++)
		target_leave(&t[i]);
	for (unsigned i = 0; i < n; i++)
		fine &= print_end(&t[i]);
	int status = finish_output("record");
	if (interrupts && (!heard || !started))
		die_of_signal();
	return fine ? status : EXIT_FAILED;
}

struct arguments {
	struct target *target;
	unsigned n;
	struct target_wish wish;
	const char *dir;
};

static bool parse_seconds(const char *text, uint32_t *ms)
{
	char *end;
	double value = strtod(text, &end);
	bool fine = *text >= '0' && *text <= '9' && !*end && value >= 0.001 && value <= SECONDS_MOST;
	*ms = fine ? (uint32_t)(value * 1000 + 0.5) : 0;
	return fine;
}

static int take_value(void *to, const char *name, const char *value)
{
	struct arguments *a = to;
	if (!strcmp(name, "-o"))
		a->dir = value;
	else if (!parse_seconds(value, &a->wish.ms))
		return usage_error("record", "-d wants seconds, 0.001 to %d, not '%s'", SECONDS_MOST, value);
	return 0;
}

static bool take_flag(void *to, const char *name)
{
	struct arguments *a = to;
	if (strcmp(name, "--launch"))
		return false;
	a->wish.mode = TIMELINE_MODE_LAUNCH;
	return true;
}

/* Named twice is named once. */
static int take_pid(void *to, const char *text)
{
	struct arguments *a = to;
	char *end;
	errno = 0;
	unsigned long pid = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || pid == 0 || pid > INT_MAX)
		return usage_error("record", "not a process number: '%s'", text);
	for (unsigned i = 0; i < a->n; i++)
		if (a->target[i].pid == pid)
			return 0;
	a->target[a->n++].pid = (uint32_t)pid;
	return 0;
}

/* The folder's path from the root; false: it was said what is wrong with it. */
static bool find_folder(const char *name, char dir[PATH_MAX])
{
	struct stat st;
	int error = 0;
	if (!realpath(name, dir) || stat(dir, &st) != 0)
		error = errno;
	else if (!S_ISDIR(st.st_mode))
		error = ENOTDIR;
	else if (access(dir, X_OK) != 0)
		error = errno;
	else if (strlen(dir) >= sizeof(((struct stats_record *)0)->dir))
		error = ENAMETOOLONG;
	if (error)
		failure("record", "%s: %s", name, strerror(error));
	return !error;
}

int cmd_record(int argc, char **argv)
{
	static const char *const valued[] = {"-d", "-o", NULL};
	static const struct arguments_taker taker = {
		.command = "record", .valued = valued, .value = take_value, .flag = take_flag, .rest = take_pid};
	struct arguments a = {.wish = {.mode = TIMELINE_MODE_KERNEL, .ms = SECONDS * 1000}, .dir = "."};
	char dir[PATH_MAX];
	a.target = calloc((size_t)argc, sizeof(*a.target));
	if (!a.target)
		return failure("record", "no memory");
	int status = arguments_take(&taker, &a, argc, argv);
	if (!status && !a.n)
		status = usage_error("record", "which process?");
	else if (!status && !find_folder(a.dir, dir))
		status = EXIT_FAILED;
	a.wish.dir = dir;
	if (!status)
		status = record(a.target, a.n, &a.wish);
	free(a.target);
	return status;
}

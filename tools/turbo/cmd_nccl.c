/*
 * cmd_nccl.c - `turbo nccl`: where the ranks of a job stand in their collectives.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "arguments.h"
#include "nccl.h"
#include "turbo.h"

#define SHOWN_BYTES (64u << 20) /* untouched pages cost nothing */

struct wish {
	pid_t pid;
	const char *dir; /* NULL: the usual places */
	bool watch, json;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
	(void)number;
	interrupted = 1;
}

/* ---- reports ---- */

static int show_report(const struct wish *wish)
{
	char path[PATH_MAX];
	int count = nccl_files_last(wish->dir, wish->json ? ".json" : ".txt", path, sizeof(path)), error;

	if (count < 0)
		return failure("nccl", "%s: %s", wish->dir, strerror(errno));
	if (count == 0)
		return failure("nccl",
					   "%s: neither flight files (turbo-UID-PID.flight) nor reports (turbo-nccl-*) are there",
					   wish->dir);
	if (!wish->json && count > 1)
		printf("%d reports in %s; the last one, %s:\n\n", count, wish->dir, strrchr(path, '/') + 1);
	error = nccl_files_print(path);
	if (error)
		return failure("nccl", "%s: %s", path, strerror(error));
	return finish_output("nccl");
}

/* ---- jobs ---- */

static int no_job(const struct wish *wish)
{
	if (wish->dir)
		return show_report(wish);
	if (!wish->pid)
		return failure("nccl", "no process of yours on this machine uses NCCL with libturbo");
	if (kill(wish->pid, 0) == 0)
		return failure(
			"nccl",
			"process %d has no communicator: it has not made one yet, libturbo is not loaded in it, or "
			"TURBO_NCCL_WATCHDOG is off (`turbo nccl` lists all jobs)",
			(int)wish->pid);
	if (errno == EPERM)
		return failure("nccl", "process %d is another user's", (int)wish->pid);
	return failure("nccl", "there is no process %d, and it has left no record (`turbo nccl` lists all jobs)",
				   (int)wish->pid);
}

static char *room(void)
{
	char *text =
		mmap(NULL, SHOWN_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return text == MAP_FAILED ? NULL : text;
}

static void put_hour(struct out *o)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	report_time(o, (uint64_t)now.tv_sec * 1000000000u);
	out_string(o, isatty(STDOUT_FILENO) ? ", again every second; Ctrl-C ends it\n\n" : "\n");
}

static void print(const struct wish *wish, const struct nccl_jobs *jobs, char *text, bool again)
{
	struct out o;

	out_begin(&o, text, SHOWN_BYTES);
	if (wish->watch && !wish->json)
		put_hour(&o);
	if (wish->json)
		nccl_show_json(&o, jobs);
	else
		nccl_show_text(&o, jobs, !wish->pid && !wish->dir);
	if (!wish->json && wish->watch && isatty(STDOUT_FILENO))
		fputs("\033[H\033[2J", stdout);
	else if (!wish->json && again)
		fputs("\n", stdout);
	fwrite(o.text, 1, o.used, stdout);
	fflush(stdout);
}

static void wait_a_second(void)
{
	struct timespec t = {1, 0};

	while (!interrupted && nanosleep(&t, &t) != 0 && errno == EINTR) {
	}
}

static int watch(const struct wish *wish, struct nccl_jobs *jobs, char *text)
{
	struct sigaction action = {.sa_handler = on_signal};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	for (bool again = false; !interrupted; again = true) {
		if (again && !nccl_jobs_look(jobs, wish->dir, wish->pid))
			return failure("nccl", "no memory");
		if (jobs->count == 0 && (wish->pid || wish->dir)) {
			fputs("turbo nccl: the job has ended\n", stderr);
			break;
		}
		print(wish, jobs, text, again);
		if (ferror(stdout))
			break;
		wait_a_second();
	}
	return finish_output("nccl");
}

static int show(const struct wish *wish)
{
	struct nccl_jobs jobs = {0};
	char *text = room();
	int status;

	if (!text || !nccl_jobs_look(&jobs, wish->dir, wish->pid)) {
		status = failure("nccl", "no memory");
	} else if (jobs.count == 0) {
		status = no_job(wish);
	} else if (wish->watch) {
		status = watch(wish, &jobs, text);
	} else {
		print(wish, &jobs, text, false);
		status = finish_output("nccl");
	}
	nccl_jobs_free(&jobs);
	if (text)
		munmap(text, SHOWN_BYTES);
	return status;
}

/* ---- arguments ---- */

static bool take_flag(void *to, const char *name)
{
	struct wish *wish = to;

	if (!strcmp(name, "--watch"))
		wish->watch = true;
	else if (!strcmp(name, "--json"))
		wish->json = true;
	else
		return false;
	return true;
}

static int take_rest(void *to, const char *text)
{
	struct wish *wish = to;
	char *end;

	if (wish->pid || wish->dir)
		return usage_error("nccl", "one process or folder, not '%s' too", text);
	errno = 0;
	unsigned long pid = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end) {
		struct stat st;
		if (stat(text, &st) != 0 || !S_ISDIR(st.st_mode))
			return usage_error("nccl", "neither a process number nor a folder: '%s'", text);
		wish->dir = text;
		return 0;
	}
	if (errno || pid == 0 || pid > INT_MAX)
		return usage_error("nccl", "not a process number: '%s'", text);
	wish->pid = (pid_t)pid;
	return 0;
}

int cmd_nccl(int argc, char **argv)
{
	static const char *const valued[] = {NULL};
	static const struct arguments_taker taker = {
		.command = "nccl", .valued = valued, .flag = take_flag, .rest = take_rest};
	struct wish wish = {0};
	int status = arguments_take(&taker, &wish, argc, argv);

	return status ? status : show(&wish);
}

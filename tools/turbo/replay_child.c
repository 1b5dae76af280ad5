/*
 * replay_child.c - starting the worker of one trace and mode, and taking its result.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "options.h"
#include "replay.h"
#include "turbo.h"

/* Memory of the simulated devices when neither --limit nor the environment says: as on an H200. */
#define SIM_MEM_MB "143360"

const struct replay_mode replay_modes[] = {
	{.name = "bare", .usual = true},
	{.name = "cache", .preload = true, .usual = true},
	{.name = "deferred", .preload = true, .usual = true},
	{.name = "stream", .preload = true, .async = true, .usual = true},
	{.name = "pool", .async = true},
	{.name = NULL},
};

const struct replay_mode *replay_mode_find(const char *name)
{
	for (const struct replay_mode *m = replay_modes; m->name; m++)
		if (!strcmp(m->name, name))
			return m;
	return NULL;
}

static bool has_word(const char *list, const char *word)
{
	for (size_t n; *list; list += n + (list[n] == '|')) {
		n = strcspn(list, "|");
		if (strlen(word) == n && !memcmp(list, word, n))
			return true;
	}
	return false;
}

bool replay_mode_exists(const struct replay_mode *mode)
{
	for (int i = 0; mode->preload && i < OPT_COUNT; i++)
		if (!strcmp(option_table[i].name, "TURBO_DEVMEM"))
			return has_word(option_table[i].values, mode->name);
	return !mode->preload;
}

bool replay_sim_find(char *buf, size_t size)
{
	static const char *const places[] = {"sim", "../lib/libturbo/sim"};
	char self[PATH_MAX], path[PATH_MAX + 64], real[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[n > 0 ? n : 0] = '\0';
	char *slash = strrchr(self, '/');
	for (size_t i = 0; slash && i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%.*s/%s/libcuda.so.1", (int)(slash - self), self, places[i]);
		if (access(path, R_OK) == 0 && realpath(path, real) && strlen(real) < size) {
			strcpy(buf, real);
			*strrchr(buf, '/') = '\0';
			return true;
		}
	}
	return false;
}

/* ---- the worker's environment; this process is about to become it ---- */

static bool set_sim(const struct replay_request *q)
{
	char dir[PATH_MAX], text[2 * PATH_MAX];
	const char *old = getenv("LD_LIBRARY_PATH");
	if (!replay_sim_find(dir, sizeof(dir))) {
		failure("replay",
				"no simulated driver (sim/libcuda.so.1) beside this command: `make demo` builds it");
		return false;
	}
	snprintf(text, sizeof(text), "%s%s%s", dir, old && *old ? ":" : "", old ? old : "");
	setenv("LD_LIBRARY_PATH", text, 1);
	setenv("SIM_MEM_MB", SIM_MEM_MB, 0);
	if (q->limit) {
		snprintf(text, sizeof(text), "%" PRIu64, q->limit >> 20);
		setenv("SIM_MEM_MB", text, 1);
	}
	return true;
}

static bool set_preload(const struct replay_mode *mode)
{
	static struct program self;
	char library[PATH_MAX], list[2 * PATH_MAX];
	if (!library_find(library, sizeof(library))) {
		failure("replay", "no libturbo.so beside this command, nor in ../lib");
		return false;
	}
	if (strpbrk(library, ": ")) {
		failure("replay", "LD_PRELOAD cannot name '%s': it holds a blank or a colon", library);
		return false;
	}
	/* Built with a sanitizer whose runtime must come first. */
	if (program_inspect("/proc/self/exe", &self) != 0)
		self.runtimes[0] = '\0';
	snprintf(list, sizeof(list), "%s%s%s", self.runtimes, *self.runtimes ? ":" : "", library);
	setenv("LD_PRELOAD", list, 1);
	setenv("TURBO_DEVMEM", mode->name, 1);
	return true;
}

static bool set_environment(const struct replay_request *q)
{
	/* Presets and marks of a `turbo run` around us are not the worker's. */
	static const char *const drop[] = {"LD_PRELOAD", "TURBO", "TURBO_DEVMEM", "TURBO_RUN", "TURBO_ENGAGED"};
	for (size_t i = 0; i < sizeof(drop) / sizeof(drop[0]); i++)
		unsetenv(drop[i]);
	setenv("TURBO_SUMMARY", "off", 0);
	return (!q->sim || set_sim(q)) && (!q->mode->preload || set_preload(q->mode));
}

static void become_worker(const struct replay_request *q, int result)
{
	char limit[24], peak_op[24], devices[24];
	snprintf(limit, sizeof(limit), "%" PRIu64, q->sim ? 0 : q->limit);
	snprintf(peak_op, sizeof(peak_op), "%" PRIu64, q->facts.peak_op);
	snprintf(devices, sizeof(devices), "%u", q->facts.devices);
	const char *argv[] = {"turbo",  "replay", REPLAY_WORKER,        q->mode->name,
						  q->trace, limit,    q->touch ? "1" : "0", peak_op,
						  devices,  NULL};
	if (!set_environment(q))
		_exit(EXIT_FAILED);
	int fd = result == REPLAY_RESULT_FD ? fcntl(result, F_SETFD, 0) : dup2(result, REPLAY_RESULT_FD);
	if (fd >= 0)
		execv("/proc/self/exe", (char **)argv);
	failure("replay", "cannot start a worker: %s", strerror(errno));
	_exit(EXIT_FAILED);
}

/* ---- */

static bool take_result(int fd, struct replay_result *result)
{
	size_t have = 0;
	while (have < sizeof(*result)) {
		ssize_t n = read(fd, (char *)result + have, sizeof(*result) - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		have += (size_t)n;
	}
	return true;
}

bool replay_in_child(const struct replay_request *q, struct replay_result *result)
{
	int fd[2], status = 0;
	if (pipe2(fd, O_CLOEXEC) != 0) {
		failure("replay", "cannot make a pipe: %s", strerror(errno));
		return false;
	}
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0)
		become_worker(q, fd[1]);
	close(fd[1]);
	bool ok = pid > 0 && take_result(fd[0], result);
	close(fd[0]);
	if (pid < 0) {
		failure("replay", "cannot start a worker: %s", strerror(errno));
		return false;
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		failure("replay", "%s, mode %s: the worker was killed by signal %d (%s)", q->trace, q->mode->name,
				WTERMSIG(status), strsignal(WTERMSIG(status)));
	else if (!ok || WEXITSTATUS(status) != 0)
		failure("replay", "%s, mode %s: no result", q->trace, q->mode->name);
	return ok && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

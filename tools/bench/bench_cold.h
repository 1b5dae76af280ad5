/*
 * bench_cold.h - benchmarks of reading files: a cold cache, and ratios of bare to preloaded runs.
 *
 * Cold is /proc/sys/vm/drop_caches where that may be written to; elsewhere the pages of the files alone are put out, and what is
 * known of directories and inodes stays. Files go to a folder below BENCH_DIR, else BUILD, which is removed at the end.
 */
#ifndef TURBO_BENCH_COLD_H
#define TURBO_BENCH_COLD_H

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "bench.h"

#define COLD_ROUNDS_MAX 33

extern char **environ;

/* Of a folder's path, the rest: static, one at a time. */
static inline const char *cold_dir(const char *name)
{
	static char path[4096];
	const char *base = getenv("BENCH_DIR");
	snprintf(path, sizeof(path), "%s/bench-files-%d%s%s", base && *base ? base : bench_env("BUILD"),
			 (int)getpid(), *name ? "/" : "", name);
	return path;
}

static inline void cold_remove(void)
{
	char command[4200];
	snprintf(command, sizeof(command), "rm -rf '%s'", cold_dir(""));
	if (system(command) != 0)
		fprintf(stderr, "bench: %s is left behind\n", cold_dir(""));
}

static inline bool cold_can_drop(void)
{
	return access("/proc/sys/vm/drop_caches", W_OK) == 0;
}

static inline void cold_forget(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
}

/* All caches, but for what is measured with. */
static inline bool cold_drop(void)
{
	char command[4200];
	int fd = open("/proc/sys/vm/drop_caches", O_WRONLY);
	bool ok = fd >= 0 && write(fd, "3", 1) == 1;
	if (fd >= 0)
		close(fd);
	snprintf(command, sizeof(command), "cat '%s/libturbo.so' /proc/self/exe >/dev/null", bench_env("BUILD"));
	return system(command) == 0 && ok;
}

/* Runs argv with libturbo or without; its time in seconds, or what it prints if that is a number. Ends the benchmark when it fails. */
static inline double cold_run(bool preloaded, char *const *argv)
{
	char preload[4200], text[64] = "";
	int out[2], status;
	pid_t pid;
	posix_spawn_file_actions_t actions;
	double start, printed;

	snprintf(preload, sizeof(preload), "%s/libturbo.so", bench_env("BUILD"));
	if (preloaded)
		setenv("LD_PRELOAD", preload, 1);
	else
		unsetenv("LD_PRELOAD");
	posix_spawn_file_actions_init(&actions);
	if (pipe2(out, O_CLOEXEC) != 0)
		exit(2);
	posix_spawn_file_actions_adddup2(&actions, out[1], 1);
	start = bench_now_ns();
	if (posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ) != 0)
		exit(2);
	close(out[1]);
	unsetenv("LD_PRELOAD");
	ssize_t n = read(out[0], text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	close(out[0]);
	if (waitpid(pid, &status, 0) != pid || status != 0) {
		fprintf(stderr, "bench: the %s run of %s failed\n", preloaded ? "preloaded" : "bare", argv[0]);
		cold_remove();
		exit(1);
	}
	posix_spawn_file_actions_destroy(&actions);
	return sscanf(text, "%lf", &printed) == 1 ? printed : (bench_now_ns() - start) / 1e9;
}

static inline void cold_heading(const char *title, int rounds)
{
	printf("%s, seconds, %s, medians of %d runs in turns\n", title,
		   cold_can_drop() ? "caches dropped" : "pages of the files dropped", rounds);
	printf("%-44s %10s %10s %9s %8s\n", "", "bare", "preloaded", "faster", "limit");
}

/* One line; `prepare` makes it cold. 1: missed. */
static inline int cold_compare(const char *title, double limit, int rounds, void (*prepare)(void),
							   char *const *argv)
{
	double v[2][COLD_ROUNDS_MAX], bare, with;
	for (int r = 0; r < rounds; r++)
		for (int p = 0; p < 2; p++) {
			bool preloaded = (p + r) % 2;
			prepare();
			v[preloaded][r] = cold_run(preloaded, argv);
		}
	bare = bench_median(v[0], rounds);
	with = bench_median(v[1], rounds);
	bool ok = bare / with >= limit;
	printf("%-44s %10.3f %10.3f %8.2fx %7.2fx  %s\n", title, bare, with, bare / with, limit,
		   ok ? "PASS" : "MISS");
	fflush(stdout);
	return !ok;
}

#endif

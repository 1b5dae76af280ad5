/*
 * bench_coalesce.c - loops of 64 all-gathers on the simulated NCCL, whose calls and launches take as long as on an H200, bare and
 * with TURBO_NCCL_COALESCE=on in turns: the sizes of the groups that form, and the time of a loop.
 *
 * Groups form of what all ranks have issued, so each needs a core, and its streams another one: with fewer nothing is judged.
 */
#include "bench.h"
#include "tests/gpu/common/gathers.h"

#define GATHERS 64
#define BYTES 4096
#define LOOPS 30
#define ROUNDS 5
#define MUST_MS 60000
#define LEAST_MEAN 16.0

static int line(struct ranks *jobs, int n, enum gathers_style style)
{
	struct gathers_figures f[2];
	bool judged = sysconf(_SC_NPROCESSORS_ONLN) >= 2 * n && style != GATHERS_GROUPED;
	double mean;

	if (!gathers_turns(jobs, 2, style, GATHERS, BYTES, LOOPS, ROUNDS, MUST_MS, f))
		return 1;
	mean = f[1].launches ? (double)f[1].operations / (double)f[1].launches : 0;
	printf("%d ranks, %-8s %9.1f %9.1f %6.2f x   groups of %5.1f", n, gathers_style_name[style], f[0].us,
		   f[1].us, f[1].us ? f[0].us / f[1].us : 0, mean);
	if (judged)
		printf("  at least %.0f  %s\n", LEAST_MEAN, mean >= LEAST_MEAN ? "PASS" : "MISS");
	else
		puts(style == GATHERS_GROUPED ? "  by hand" : "  not judged: too few cores");
	return judged && mean < LEAST_MEAN;
}

static int ranks(int n)
{
	static char preload[4200];
	static const char *const bare[] = {"LD_PRELOAD=", "SIM_COSTS=1", NULL};
	const char *const preloaded[] = {preload, "SIM_COSTS=1", "TURBO_NCCL_COALESCE=on", NULL};
	const char *const *const env[] = {bare, preloaded};
	struct ranks jobs[2];
	int missed = 0;

	snprintf(preload, sizeof(preload), "LD_PRELOAD=%s/libturbo.so", bench_env("BUILD"));
	if (!gathers_open(jobs, 2, n, env))
		return 1;
	for (int style = 0; style < GATHERS_STYLES; style++)
		missed += line(jobs, n, (enum gathers_style)style);
	gathers_close(jobs, 2);
	return missed;
}

int main(int argc, char **argv)
{
	const char *path = getenv("LD_LIBRARY_PATH");
	int missed = 0;

	if (ranks_is_rank(argc, argv))
		return ranks_main(argv, gathers_obey);
	if (!path ||
		strcmp(path, bench_env("SIM_DIR")) != 0) { /* the simulated libraries are found from now on */
		setenv("LD_LIBRARY_PATH", bench_env("SIM_DIR"), 1);
		execv("/proc/self/exe", argv);
		return 1;
	}
	printf(
		"%d all-gathers of %d KiB a rank, us until all are done, medians of %d rounds of %d loops\n%17s %9s %9s\n",
		GATHERS, BYTES >> 10, ROUNDS, LOOPS, "", "bare", "preloaded");
	missed += ranks(1);
	missed += ranks(2);
	missed += ranks(8);
	puts("");
	return missed != 0;
}

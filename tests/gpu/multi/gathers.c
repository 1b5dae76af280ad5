/*
 * gathers.c - 64 all-gathers, bare and preloaded, one by one and in a group by hand.
 */
#include <stdio.h>

#include "multi.h"
#include "tests/gpu/common/nccl_dl.h"

#define GATHERS 64
#define LOOPS 20
#define MUST_MS 120000

static const struct {
	size_t bytes;
	double limit; /* so many times faster than bare; 0: not judged */
} sizes[] = {{1 << 10, 6}, {4 << 10, 6}, {16 << 10, 6}, {64 << 10, 5}, {256 << 10, 4}, {1 << 20, 0}};

/* With one rank there is nothing to send, ranks that share a GPU take turns, and simulated ones show nothing. */
static bool judged(void)
{
	return multi.ranks > 1 && !multi.shared && !nccl.sim_nccl_launches;
}

static int line(struct ranks *jobs, size_t bytes, double limit)
{
	struct gathers_figures plain[2], torch[2], grouped[2];
	double ratio;

	if (!gathers_turns(jobs, 2, GATHERS_PLAIN, GATHERS, bytes, LOOPS, multi.rounds, MUST_MS, plain) ||
		!gathers_turns(jobs, 2, GATHERS_TORCH, GATHERS, bytes, LOOPS, multi.rounds, MUST_MS, torch) ||
		!gathers_turns(jobs, 2, GATHERS_GROUPED, GATHERS, bytes, LOOPS, multi.rounds, MUST_MS, grouped))
		return 1;
	ratio = plain[0].us / plain[1].us;
	printf("%7zu KiB  %8.1f %8.1f %6.2f x   %8.1f %8.1f %6.2f x   %8.1f", bytes >> 10, plain[0].us,
		   plain[1].us, ratio, torch[0].us, torch[1].us, torch[0].us / torch[1].us, grouped[0].us);
	if (!judged() || limit == 0)
		puts("   not judged");
	else
		printf("   at least %.0f x  %s\n", limit, ratio >= limit ? "PASS" : "MISS");
	fflush(stdout);
	return judged() && ratio < limit;
}

int multi_gathers(void)
{
	static const char *const none[] = {NULL}, *const on[] = {"TURBO_NCCL_COALESCE=on", NULL};
	const char *const *const env[] = {multi_env(false, none), multi_env(true, on)};
	struct ranks jobs[2];
	int missed = 0;

	if (!gathers_open(jobs, 2, multi.ranks, env))
		return 1;
	printf("%d all-gathers, %d ranks%s: us until all are done, medians of %d rounds of %d loops\n", GATHERS,
		   multi.ranks, multi.shared ? " that share a GPU" : "", multi.rounds, LOOPS);
	printf("%11s  %8s %8s %8s   %8s %8s %8s   %8s\n", "a rank", "bare", "with", "", "events:", "with", "",
		   "by hand");
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		missed += line(jobs, sizes[i].bytes, sizes[i].limit);
	gathers_close(jobs, 2);
	if (missed || judged())
		return missed != 0;
	puts(
		"skipped: the data is right; what is faster is judged with two or more ranks, each on a GPU of its own");
	return 77;
}

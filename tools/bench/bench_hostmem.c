/*
 * bench_hostmem.c - what small blocks cost more because malloc and free are libturbo's, and what large ones cost less.
 *
 * Small: pairs of 64 bytes, by one thread and by eight, each in CPU time of its own, because there may be fewer cores than
 * threads. Large: allocate, fill, free, as NumPy and PyTorch do for each result.
 */
#include <pthread.h>
#include <sys/mman.h>

#include "bench.h"

#define MIB ((size_t)1 << 20)
#define THREADS 8
#define PAIRS 125000 /* a thread; 1 M by all of them */
#define BATCHES 15   /* the fastest is taken: what the others took more was not the allocator's doing */
#define ROUNDS 11

static double thread_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double pair_ns(void)
{
	double best = 1e18;

	for (int b = 0; b < BATCHES; b++) {
		double start = thread_ns(), ns;
		for (int i = 0; i < PAIRS; i++) {
			char *volatile p = malloc(64);
			*p = 1;
			free(p);
		}
		ns = (thread_ns() - start) / PAIRS;
		best = ns < best ? ns : best;
	}
	return best;
}

static pthread_barrier_t start;

static void *work(void *ns)
{
	pthread_barrier_wait(&start);
	*(double *)ns = pair_ns();
	return NULL;
}

/* Of all threads. */
static double threads_ns(void)
{
	pthread_t thread[THREADS];
	double ns[THREADS], all = 0;

	pthread_barrier_init(&start, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, work, &ns[i]);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], NULL);
		all += ns[i];
	}
	return all / THREADS;
}

/* `numpy`: as it advises its large blocks. */
static double large_us(size_t bytes, bool numpy)
{
	double best = 1e18;

	for (int i = 0; i < 8; i++) {
		double from = bench_now_ns(), us;
		char *volatile p = malloc(bytes);
		if (numpy)
			madvise((void *)(((uintptr_t)p + 4095) & ~(uintptr_t)4095), bytes - 8192, MADV_HUGEPAGE);
		memset(p, i, bytes);
		free(p);
		us = (bench_now_ns() - from) / 1000;
		best = us < best ? us : best;
	}
	return best;
}

static int child(void)
{
	printf("pair %.3f\n", pair_ns());
	printf("pair_8 %.3f\n", threads_ns());
	printf("large_64 %.1f\n", large_us(64 * MIB, false));
	printf("large_256 %.1f\n", large_us(256 * MIB, false));
	printf("numpy_64 %.1f\n", large_us(64 * MIB, true));
	printf("numpy_256 %.1f\n", large_us(256 * MIB, true));
	return 0;
}

/* Passed when it costs at most `more` beyond bare, or `ratio` of it. */
static const struct bound {
	struct bench_line line;
	double more, ratio;
} bounds[] = {
	{{"pair", "64 bytes, 1 thread, ns", 0}, 2, 1.02},
	{{"pair_8", "64 bytes, 8 threads, ns of CPU time each", 0}, 2, 1.02},
	{{"large_64", "64 MiB allocated, filled, freed, us", 0}, 0, 0.5},
	{{"large_256", "256 MiB allocated, filled, freed, us", 0}, 0, 0.5},
	{{"numpy_64", "64 MiB, advised as NumPy does, us", 0}, 0, 1},
	{{"numpy_256", "256 MiB, advised as NumPy does, us", 0}, 0, 1},
};
#define LINES (int)(sizeof(bounds) / sizeof(bounds[0]))

int main(int argc, char **argv)
{
	static double v[2][LINES][ROUNDS];
	struct bench_line line[LINES];
	double once[LINES];
	int missed = 0;

	if (argc > 1 && !strcmp(argv[1], "--child"))
		return child();
	setenv("TURBO_RUN", "1", 1);
	setenv("TURBO_HOSTMEM", "on", 1);
	setenv("TURBO_HOSTMEM_CACHE_MB", "1024", 1);
	for (int i = 0; i < LINES; i++)
		line[i] = bounds[i].line;
	for (int r = 0; r < ROUNDS; r++)
		for (int p = 0; p < 2; p++) {
			bool preloaded = (p + r) % 2;
			if (!bench_round(preloaded, line, LINES, once)) {
				fprintf(stderr, "bench: the %s run of bench_hostmem failed\n",
						preloaded ? "preloaded" : "bare");
				return 1;
			}
			for (int i = 0; i < LINES; i++)
				v[preloaded][i][r] = once[i];
		}
	printf("host memory, medians of %d runs in turns\n%-44s %10s %10s %7s\n", ROUNDS, "", "bare", "preloaded",
		   "ratio");
	for (int i = 0; i < LINES; i++) {
		double bare = bench_median(v[0][i], ROUNDS), with = bench_median(v[1][i], ROUNDS);
		bool ok = with <= bare * bounds[i].ratio || with - bare <= bounds[i].more;
		printf("%-44s %10.1f %10.1f %7.3f  %s\n", line[i].title, bare, with, with / bare,
			   ok ? "PASS" : "MISS");
		missed += !ok;
	}
	puts("");
	return missed ? 1 : 0;
}

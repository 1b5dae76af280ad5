/*
 * bench.h - what the machine-independent benchmarks share.
 *
 * A benchmark is a program that runs itself as a child, bare and with
 * libturbo.so preloaded in turns, so that a change of the machine's speed hits
 * both; the child prints "NAME VALUE" lines and the parent compares medians.
 * Environment: BUILD (libturbo.so is there), SIM_DIR (the simulated driver).
 */
#ifndef TURBO_BENCH_H
#define TURBO_BENCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static inline double bench_now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline int bench_by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

/* Sorts v. */
static inline double bench_median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), bench_by_value);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static inline const char *bench_env(const char *name)
{
	const char *value = getenv(name);
	if (!value || !*value) {
		fprintf(stderr, "bench: %s is not set; run `make bench`\n", name);
		exit(2);
	}
	return value;
}

/* Command line that runs this program as `CMD --child`, with libturbo or without. */
static inline FILE *bench_child(bool preloaded)
{
	char self[4096], line[16384];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[n > 0 ? n : 0] = '\0';
	snprintf(line, sizeof(line), "env %s%s%s LD_LIBRARY_PATH='%s' '%s' --child",
			 preloaded ? "LD_PRELOAD='" : "-u LD_PRELOAD", preloaded ? bench_env("BUILD") : "",
			 preloaded ? "/libturbo.so'" : "", bench_env("SIM_DIR"), self);
	return popen(line, "r");
}

struct bench_line {
	const char *key; /* as the child prints it */
	const char *title;
	double limit; /* most that the preloaded run may be slower, in `unit` */
};

#define BENCH_ROUNDS_MAX 64

/* One child run; fills value[] in the order of `line`. False when a line is missing. */
static inline bool bench_round(bool preloaded, const struct bench_line *line, int lines, double *value)
{
	char key[64];
	double v;
	int found = 0;
	FILE *f = bench_child(preloaded);
	while (f && fscanf(f, "%63s %lf", key, &v) == 2)
		for (int i = 0; i < lines; i++)
			if (!strcmp(line[i].key, key)) {
				value[i] = v;
				found++;
			}
	return f && pclose(f) == 0 && found == lines;
}

/* Runs `rounds` pairs and prints the table. Returns the exit code: 0 every limit held, 1 not. */
static inline int bench_compare(const char *title, const char *unit, const struct bench_line *line, int lines,
								int rounds)
{
	static double v[2][32][BENCH_ROUNDS_MAX];
	double once[32];
	int missed = 0;
	for (int r = 0; r < rounds; r++)
		for (int p = 0; p < 2; p++) {
			/* Who goes first alternates, so that neither always finds the warmer machine. */
			bool preloaded = (p + r) % 2;
			if (!bench_round(preloaded, line, lines, once)) {
				fprintf(stderr, "bench: the %s run of '%s' failed\n", preloaded ? "preloaded" : "bare",
						title);
				return 1;
			}
			for (int i = 0; i < lines; i++)
				v[preloaded][i][r] = once[i];
		}
	printf("%s, %s, medians of %d runs in turns\n", title, unit, rounds);
	printf("%-44s %10s %10s %9s %8s\n", "", "bare", "preloaded", "more", "limit");
	for (int i = 0; i < lines; i++) {
		double bare = bench_median(v[0][i], rounds), with = bench_median(v[1][i], rounds);
		bool ok = with - bare <= line[i].limit;
		printf("%-44s %10.1f %10.1f %9.1f %8.0f  %s\n", line[i].title, bare, with, with - bare, line[i].limit,
			   ok ? "PASS" : "MISS");
		missed += !ok;
	}
	puts("");
	return missed ? 1 : 0;
}

#endif

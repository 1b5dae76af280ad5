/*
 * copy_bench.c - time of host/device copies, one line a configuration.
 *
 * Says nothing about what is preloaded: run_bench.py runs it bare and with
 * libturbo.so and compares. Usage: copy_bench [OPTION]... (see usage()). Output:
 *   machine gpu=NVIDIA_H200 driver_api=13000
 *   cell op=h2d kind=heap api=async bytes=65536 reps=.. total_ns=.. blocked_ns=.. p10_ns=.. cpu_ns=.. verify=ok
 * total: call and stream synchronisation, as `tensor.cuda()` does; blocked: the
 * call alone; medians. cpu: CPU time of the whole process, a copy.
 * Exit: 0, 1 wrong bytes or a driver error, 2 usage, 77 no GPU.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "copy_bench.h"

#define MAX_REPS 5000
#define MAX_CELLS 1024

static const char *const op_names[] = {"h2d", "d2h"};
static const char *const kind_names[] = {"pinned", "heap", "shm", "fresh"};
static const char *const api_names[] = {"async", "stream", "sync"};
static const char default_sizes[] = "4,64,1K,4K,16K,64K,256K,512K,1M,2M,4M,8M,16M,37M,64M,128M,256M,512M,1G";

static struct cell cells[MAX_CELLS];
static int cell_count;

static void usage(FILE *f)
{
	fputs("usage: copy_bench [--cells OPS:KINDS:APIS:SIZES]... [--cell-ms N] [--min-reps N] [--no-verify]\n"
		  "  OPS    h2d,d2h\n"
		  "  KINDS  pinned,heap,shm,fresh   (heap: warm; shm: a new mapping of a /dev/shm file a copy;\n"
		  "         fresh: a new anonymous mapping a copy, written before H2D, untouched before D2H)\n"
		  "  APIS   async (default stream), stream (own stream), sync\n"
		  "  SIZES  4,64K,16M,1G or `all`\n"
		  "  --cell-ms N   time for each cell (300)     --min-reps N  at least so many copies (5)\n",
		  f);
}

static int index_of(const char *text, size_t len, const char *const *names, int count)
{
	for (int i = 0; i < count; i++)
		if (strlen(names[i]) == len && !memcmp(names[i], text, len))
			return i;
	return -1;
}

/* Bit mask of a comma-separated list of names; 0 when one is unknown. */
static unsigned mask_of(const char *list, const char *const *names, int count)
{
	unsigned mask = 0;
	while (*list) {
		size_t len = strcspn(list, ",");
		int i = index_of(list, len, names, count);
		if (i < 0)
			return 0;
		mask |= 1u << i;
		list += len + (list[len] == ',');
	}
	return mask;
}

static void add_cells_of_size(unsigned ops, unsigned kinds, unsigned apis, size_t bytes)
{
	for (unsigned op = 0; op < 2; op++)
		for (unsigned kind = 0; kind < 4; kind++)
			for (unsigned api = 0; api < 3; api++)
				if ((ops >> op & 1) && (kinds >> kind & 1) && (apis >> api & 1) && cell_count < MAX_CELLS)
					cells[cell_count++] = (struct cell){op, kind, api, bytes};
}

/* OPS:KINDS:APIS:SIZES; false when malformed. */
static bool add_cells(char *spec)
{
	char *part[4];
	for (int i = 0; i < 4; i++)
		part[i] = strsep(&spec, ":");
	if (!part[3] || spec)
		return false;
	unsigned ops = mask_of(part[0], op_names, 2);
	unsigned kinds = mask_of(part[1], kind_names, 4);
	unsigned apis = mask_of(part[2], api_names, 3);
	if (!ops || !kinds || !apis)
		return false;
	char all[sizeof(default_sizes)];
	memcpy(all, default_sizes, sizeof(all));
	char *sizes = strcmp(part[3], "all") ? part[3] : all;
	for (char *s; (s = strsep(&sizes, ","));) {
		size_t bytes = parse_size(s);
		if (!bytes)
			return false;
		add_cells_of_size(ops, kinds, apis, bytes);
	}
	return true;
}

static uint64_t samples_total[MAX_REPS], samples_blocked[MAX_REPS];

/* Times one cell; false after a driver error. */
static bool time_cell(const struct cell *c, const struct bench_options *o, struct cell_result *r)
{
	bool per_copy = bench_block_is_per_copy(c);
	uint64_t cpu = 0, started = now_ns(), cpu_started = cpu_ns();
	size_t warm = per_copy ? 1 : c->bytes < MIB ? 20 : 2;
	size_t n = 0;
	for (size_t i = 0; i < MAX_REPS + warm; i++) {
		if (i == warm) {
			started = now_ns();
			cpu_started = cpu_ns();
		}
		if (n >= o->min_reps && now_ns() - started > o->cell_ms * 1000000u)
			break;
		void *host = bench_block_get(c, 1 + (uint32_t)i);
		if (!host)
			return false;
		struct copy_times t;
		if (!bench_copy(c, host, per_copy, &t))
			return false;
		bench_block_put(c, host);
		if (i < warm)
			continue;
		cpu += t.cpu;
		samples_total[n] = t.total;
		samples_blocked[n++] = t.blocked;
	}
	r->cpu_ns = (per_copy ? cpu : cpu_ns() - cpu_started) / n;
	r->reps = n;
	r->blocked_ns = median_u64(samples_blocked, n);
	r->total_ns = median_u64(samples_total, n);
	r->p10_ns = samples_total[n / 10];
	return true;
}

static bool run_cell(const struct cell *c, const struct bench_options *o)
{
	struct cell_result r = {0};
	int64_t wrong = -1;
	if (o->verify && !bench_verify(c, &wrong))
		return false;
	if (!time_cell(c, o, &r))
		return false;
	printf(
		"cell op=%s kind=%s api=%s bytes=%zu reps=%zu total_ns=%llu blocked_ns=%llu p10_ns=%llu cpu_ns=%llu ",
		op_names[c->op], kind_names[c->kind], api_names[c->api], c->bytes, r.reps,
		(unsigned long long)r.total_ns, (unsigned long long)r.blocked_ns, (unsigned long long)r.p10_ns,
		(unsigned long long)r.cpu_ns);
	if (wrong >= 0)
		printf("verify=FAIL@%lld\n", (long long)wrong);
	else
		puts(o->verify ? "verify=ok" : "verify=off");
	fflush(stdout);
	return wrong < 0;
}

static bool parse_options(int argc, char **argv, struct bench_options *o)
{
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;
		if (!strcmp(argv[i], "--no-verify")) {
			o->verify = false;
		} else if (!strcmp(argv[i], "--cells") && value) {
			if (!add_cells(argv[++i]))
				return false;
		} else if (!strcmp(argv[i], "--cell-ms") && value) {
			o->cell_ms = (uint64_t)atoll(argv[++i]);
		} else if (!strcmp(argv[i], "--min-reps") && value && atoi(value) > 0 && atoi(value) <= MAX_REPS) {
			o->min_reps = (size_t)atoi(argv[++i]);
		} else {
			return false;
		}
	}
	if (!cell_count) {
		char spec[] = "h2d,d2h:pinned,heap:async:all";
		add_cells(spec);
	}
	return true;
}

int main(int argc, char **argv)
{
	struct bench_options o = {.verify = true, .cell_ms = 300, .min_reps = 5};
	if (!parse_options(argc, argv, &o)) {
		usage(stderr);
		return 2;
	}
	const char *why = cuda_dl_open();
	if (why) {
		printf("skipped: %s\n", why);
		return 77;
	}
	size_t largest = 0, largest_pinned = 0;
	for (int i = 0; i < cell_count; i++) {
		if (cells[i].bytes > largest)
			largest = cells[i].bytes;
		if (cells[i].kind == KIND_PINNED && cells[i].bytes > largest_pinned)
			largest_pinned = cells[i].bytes;
	}
	if (!bench_open(largest, largest_pinned))
		return 1;
	int failed = 0;
	for (int i = 0; i < cell_count; i++)
		if (!run_cell(&cells[i], &o))
			failed = 1;
	bench_close();
	return failed;
}

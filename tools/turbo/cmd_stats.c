/*
 * cmd_stats.c - `turbo stats`: what libturbo counts in a process, as text or JSON.
 *
 * Names, units and sentences come from the page itself, so counters of another
 * version are shown too.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "turbo.h"

#define TOP_CALLS 20

/* 12345678 → "12,345,678". */
static const char *grouped(uint64_t n, char *buf, size_t size)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, n);
	size_t out = 0;
	for (int i = 0; i < len && out + 2 < size; i++) {
		if (i && (len - i) % 3 == 0)
			buf[out++] = ',';
		buf[out++] = digits[i];
	}
	buf[out] = '\0';
	return buf;
}

/* Three significant digits and a decimal unit. */
static const char *scaled(double v, const char *const *unit, double base, char *buf, size_t size)
{
	while (v >= base && unit[1]) {
		v /= base;
		unit++;
	}
	snprintf(buf, size, "%.*f %s", v < 10 ? 2 : v < 100 ? 1 : 0, v, *unit);
	return buf;
}

static const char *humanised(const struct stats_cell *c, char *buf, size_t size)
{
	static const char *const bytes[] = {"B", "kB", "MB", "GB", "TB", "PB", NULL};
	static const char *const time[] = {"ns", "us", "ms", "s", NULL};
	if (!strcmp(c->unit, "bytes") && c->value >= 1000)
		return scaled((double)c->value, bytes, 1000, buf, size);
	if (!strcmp(c->unit, "ns") && c->value >= 1000)
		return scaled((double)c->value, time, 1000, buf, size);
	char number[40];
	const char *suffix = !strcmp(c->unit, "bytes") ? " B" : !strcmp(c->unit, "ns") ? " ns" : "";
	snprintf(buf, size, "%s%s", grouped(c->value, number, sizeof(number)), suffix);
	return buf;
}

/* "3 min 12 s", or why there is none. */
static const char *uptime(const struct stats_file *f, char *buf, size_t size)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	uint64_t ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	uint64_t s = ns > f->head.start_ns ? (ns - f->head.start_ns) / 1000000000u : 0;
	if (f->life != STATS_RUNNING)
		snprintf(buf, size, f->life == STATS_ENDED ? "ended" : "elsewhere");
	else if (s >= 86400)
		snprintf(buf, size, "%" PRIu64 " d %" PRIu64 " h", s / 86400, s / 3600 % 24);
	else if (s >= 3600)
		snprintf(buf, size, "%" PRIu64 " h %" PRIu64 " min", s / 3600, s / 60 % 60);
	else if (s >= 60)
		snprintf(buf, size, "%" PRIu64 " min %" PRIu64 " s", s / 60, s % 60);
	else
		snprintf(buf, size, "%" PRIu64 " s", s);
	return buf;
}

static const struct stats_cell *cell_named(const struct stats_file *f, const char *stem, int n,
										   const char *end)
{
	for (uint32_t i = f->head.calls; i < f->head.cells; i++) {
		const char *name = f->cell[i].name;
		if (!strncmp(name, stem, (size_t)n) && !strcmp(name + n, end))
			return &f->cell[i];
	}
	return NULL;
}

static int name_width(const struct stats_file *f)
{
	size_t width = 12;
	for (uint32_t i = f->head.calls; i < f->head.cells; i++)
		if (strlen(f->cell[i].name) > width)
			width = strlen(f->cell[i].name);
	return width > 40 ? 40 : (int)width;
}

/* After X.ns, when X.bytes is there too: the rate. bytes/ns is GB/s. */
static void print_rate(const struct stats_file *f, const struct stats_cell *c, int width)
{
	const char *dot = strrchr(c->name, '.');
	if (!dot || strcmp(dot, ".ns") || c->value == 0)
		return;
	int n = (int)(dot - c->name);
	const struct stats_cell *bytes = cell_named(f, c->name, n, ".bytes");
	if (!bytes || bytes->value == 0)
		return;
	char name[128], rate[32];
	snprintf(name, sizeof(name), "%.*s.rate", n, c->name);
	snprintf(rate, sizeof(rate), "%.2f GB/s", (double)bytes->value / (double)c->value);
	printf("%-*s  %14s  bytes over time\n", width, name, rate);
}

static void print_counters(const struct stats_file *f, bool all)
{
	int width = name_width(f);
	unsigned zero = 0;
	for (uint32_t i = f->head.calls; i < f->head.cells; i++) {
		const struct stats_cell *c = &f->cell[i];
		char buf[48];
		if (c->value == 0 && !all) {
			zero++;
			continue;
		}
		printf("%-*s  %14s  %s\n", width, c->name, humanised(c, buf, sizeof(buf)), c->text);
		print_rate(f, c, width);
	}
	if (zero)
		printf("%-*s  %14u  counters at zero (--all shows them)\n", width, "", zero);
}

static int by_count(const void *a, const void *b)
{
	const struct stats_cell *x = *(const struct stats_cell *const *)a,
							*y = *(const struct stats_cell *const *)b;
	if (x->value != y->value)
		return x->value < y->value ? 1 : -1;
	return strcmp(x->name, y->name);
}

static void print_calls(const struct stats_file *f, bool all)
{
	const struct stats_cell **order = calloc(f->head.calls + 1, sizeof(*order));
	uint32_t n = 0, shown = 0;
	uint64_t rest = 0;
	char buf[48];
	if (!order)
		return;
	for (uint32_t i = 0; i < f->head.calls; i++)
		if (f->cell[i].value || all)
			order[n++] = &f->cell[i];
	qsort(order, n, sizeof(*order), by_count);
	printf("\n%-40s  %14s\n", "CALL", "COUNT");
	for (; shown < n && (all || shown < TOP_CALLS); shown++)
		printf("%-40s  %14s\n", order[shown]->name, grouped(order[shown]->value, buf, sizeof(buf)));
	for (uint32_t i = shown; i < n; i++)
		rest += order[i]->value;
	if (n > shown)
		printf("%u more (--all shows them)%*s  %14s\n", n - shown, n - shown > 9 ? 13 : 14, "",
			   grouped(rest, buf, sizeof(buf)));
	if (n == 0)
		puts("none yet");
	free(order);
}

static void print_text(const struct stats_file *f, bool all)
{
	char buf[48];
	printf("process   %u  %s\n", f->head.pid, f->head.command);
	printf("libturbo  %s\n", f->head.version_text);
	printf("uptime    %s%s\n\n", uptime(f, buf, sizeof(buf)),
		   f->life == STATS_ELSEWHERE ? " (another pid namespace, probably a container)" : "");
	print_counters(f, all);
	print_calls(f, all);
}

/* Texts are printable ASCII already. */
static void print_json_string(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			putchar('\\');
		putchar(*s);
	}
	putchar('"');
}

static void print_json_cells(const struct stats_file *f, const char *key, uint32_t from, uint32_t to,
							 bool zeros)
{
	const char *comma = "";
	printf(",\"%s\":{", key);
	for (uint32_t i = from; i < to; i++) {
		if (f->cell[i].value == 0 && !zeros)
			continue;
		fputs(comma, stdout);
		print_json_string(f->cell[i].name);
		printf(":%" PRIu64, f->cell[i].value);
		comma = ",";
	}
	putchar('}');
}

static void print_json(const struct stats_file *f, bool all)
{
	static const char *const running[] = {
		[STATS_ENDED] = "false", [STATS_RUNNING] = "true", [STATS_ELSEWHERE] = "null"};
	printf("{\"pid\":%u,\"running\":%s,\"start_ns\":%" PRIu64 ",\"version\":", f->head.pid, running[f->life],
		   f->head.start_ns);
	print_json_string(f->head.version_text);
	fputs(",\"command\":", stdout);
	print_json_string(f->head.command);
	print_json_cells(f, "counters", f->head.calls, f->head.cells, true);
	print_json_cells(f, "calls", 0, f->head.calls, all);
	puts("}");
}

static void list_one(void *arg, uint32_t pid, const char *path)
{
	char why[256], up[48];
	struct stats_file f;
	bool *titled = arg;
	if (!*titled)
		printf("%10s  %-14s  %s\n", "PID", "UPTIME", "COMMAND");
	*titled = true;
	if (!stats_file_read(path, &f, why, sizeof(why))) {
		printf("%10u  %-14s  %s: %s\n", pid, "-", path, why);
		return;
	}
	printf("%10u  %-14s  %s\n", pid, uptime(&f, up, sizeof(up)), f.head.command);
	stats_file_free(&f);
}

static int list_processes(void)
{
	bool titled = false;
	if (stats_file_list(list_one, &titled) == 0)
		puts("No process of yours has counters. Start one with `turbo run CMD`.");
	return finish_output("stats");
}

/* Why there is no page of that process. */
static int no_page(uint32_t pid)
{
	if (kill((pid_t)pid, 0) == 0)
		return failure("stats",
					   "process %u has no counters: libturbo is not loaded in it, or it has not used "
					   "CUDA yet (`turbo stats` lists those that have)",
					   pid);
	if (errno == EPERM)
		return failure("stats", "process %u is another user's", pid);
	return failure("stats", "there is no process %u (`turbo stats` lists those with counters)", pid);
}

static int show(uint32_t pid, bool json, bool all)
{
	static struct stats_file f;
	char path[4096], why[256];
	if (!stats_file_find(pid, path, sizeof(path)))
		return no_page(pid);
	if (!stats_file_read(path, &f, why, sizeof(why)))
		return failure("stats", "%s: %s", path, why);
	if (f.head.pid != pid) {
		uint32_t other = f.head.pid;
		stats_file_free(&f);
		return failure("stats", "%s: it is damaged (it says that it is of process %u)", path, other);
	}
	if (json)
		print_json(&f, all);
	else
		print_text(&f, all);
	stats_file_free(&f);
	return finish_output("stats");
}

int cmd_stats(int argc, char **argv)
{
	const char *pid_text = NULL;
	bool json = false, all = false;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--json"))
			json = true;
		else if (!strcmp(argv[i], "--all"))
			all = true;
		else if (argv[i][0] != '-' && !pid_text)
			pid_text = argv[i];
		else
			return usage_error("stats", "unexpected argument '%s'", argv[i]);
	}
	if (!pid_text) {
		if (json || all)
			return usage_error("stats", "%s needs a PID", json ? "--json" : "--all");
		return list_processes();
	}
	char *end;
	errno = 0;
	unsigned long pid = strtoul(pid_text, &end, 10);
	if (errno || *end || pid == 0 || pid > INT32_MAX)
		return usage_error("stats", "'%s' is not a process id", pid_text);
	return show((uint32_t)pid, json, all);
}

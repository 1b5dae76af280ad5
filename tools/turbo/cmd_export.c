/*
 * cmd_export.c - `turbo export`: timelines in formats that other tools read.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tools/timeline/export.h"
#include "arguments.h"
#include "turbo.h"

#define RANKS_MAX 4096
#define PROGRESS_AFTER_NS 1000000000ull
#define PROGRESS_EACH_NS 200000000ull

enum format { FORMAT_UNKNOWN, FORMAT_KINETO, FORMAT_PERFETTO };

struct arguments {
	const char **path;
	unsigned paths;
	const char *out;
	enum format format;
	uint32_t kinds;
	uint64_t from, to; /* ns behind the first record */
	bool integer_us;
	int rank[RANKS_MAX];
	unsigned ranks; /* 0: all */
};

/* ---- the command line ---- */

static int take_format(struct arguments *a, const char *text)
{
	if (!strcmp(text, "kineto"))
		a->format = FORMAT_KINETO;
	else if (!strcmp(text, "perfetto"))
		a->format = FORMAT_PERFETTO;
	else
		return usage_error("export", "no format '%s': kineto or perfetto", text);
	return 0;
}

static int take_kind(struct arguments *a, const char *name)
{
	for (unsigned kind = TIMELINE_KERNEL; kind < TIMELINE_KINDS; kind++)
		if (!strcmp(name, export_kind_name((enum timeline_kind)kind))) {
			a->kinds |= 1u << kind;
			return 0;
		}
	return usage_error(
		"export",
		"no kind '%s': kernel, copy, memset, graph, api, sync, overhead, event, collective, gap "
		"or counter",
		name);
}

static int take_rank(struct arguments *a, const char *text)
{
	char *end;
	errno = 0;
	long n = strtol(text, &end, 10);
	if (errno || *end || end == text || n < 0 || n > INT32_MAX)
		return usage_error("export", "'%s' is not a rank", text);
	if (a->ranks == RANKS_MAX)
		return usage_error("export", "more than %d ranks", RANKS_MAX);
	a->rank[a->ranks++] = (int)n;
	return 0;
}

/* Calls `take` with each part of a comma-separated list. */
static int take_list(struct arguments *a, const char *list, int (*take)(struct arguments *, const char *))
{
	for (;;) {
		char part[64]; /* no kind and no number is as long */
		size_t n = strcspn(list, ",");
		snprintf(part, sizeof(part), "%.*s", n < sizeof(part) ? (int)n : (int)sizeof(part), list);
		int code = take(a, part);
		if (code || !list[n])
			return code;
		list += n + 1;
	}
}

static int take_value(void *to, const char *name, const char *value)
{
	struct arguments *a = to;
	if (!strcmp(name, "-o")) {
		a->out = value;
		return 0;
	}
	if (!strcmp(name, "--format"))
		return take_format(a, value);
	if (!strcmp(name, "--window"))
		return window_take("export", value, &a->from, &a->to);
	if (!strcmp(name, "--kind"))
		return take_list(a, value, take_kind);
	return take_list(a, value, take_rank);
}

static bool take_flag(void *to, const char *name)
{
	struct arguments *a = to;
	a->integer_us = a->integer_us || !strcmp(name, "--integer-us");
	return !strcmp(name, "--integer-us");
}

static int take_path(void *to, const char *path)
{
	struct arguments *a = to;
	a->path[a->paths++] = path;
	return 0;
}

static int take_arguments(struct arguments *a, int argc, char **argv)
{
	static const char *const valued[] = {"-o", "--format", "--window", "--kind", "--rank", NULL};
	static const struct arguments_taker taker = {
		.command = "export", .valued = valued, .value = take_value, .flag = take_flag, .rest = take_path};
	int code = arguments_take(&taker, a, argc, argv);
	if (!code && !a->paths)
		code = usage_error("export", "which timeline? Name files, or directories that hold some");
	if (!a->kinds)
		a->kinds = UINT32_MAX;
	return code;
}

/* ---- where to ---- */

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);
	return n >= m && !strcmp(s + n - m, end);
}

static bool is_directory(const char *path)
{
	struct stat st;
	return ends_with(path, "/") || (stat(path, &st) == 0 && S_ISDIR(st.st_mode));
}

static enum format format_of(const char *name)
{
	if (ends_with(name, ".json") || ends_with(name, ".json.gz"))
		return FORMAT_KINETO;
	if (ends_with(name, ".pftrace") || ends_with(name, ".perfetto-trace") || ends_with(name, ".pftrace.gz") ||
		ends_with(name, ".perfetto-trace.gz"))
		return FORMAT_PERFETTO;
	return FORMAT_UNKNOWN;
}

static int choose_format(struct arguments *a)
{
	enum format named = a->out && !is_directory(a->out) ? format_of(a->out) : FORMAT_UNKNOWN;
	if (named && a->format && named != a->format)
		return usage_error("export", "'%s' is not the name of a file in that format", a->out);
	if (!a->format)
		a->format = named;
	if (!a->format && a->out && !is_directory(a->out))
		return usage_error("export", "'%s' ends in none of .json, .json.gz, .pftrace: say --format", a->out);
	if (!a->format)
		a->format = FORMAT_KINETO;
	if (a->integer_us && a->format != FORMAT_KINETO)
		return usage_error("export", "--integer-us is for kineto");
	return 0;
}

/* As torch.profiler names files for TensorBoard. */
static char *file_name(const struct arguments *a, const struct trace *t)
{
	const struct timeline_header *h = trace_header(t);
	char host[sizeof(h->host)], *name = NULL;
	snprintf(host, sizeof(host), "%s", *h->host ? h->host : "host");
	for (char *s = host; *s; s++)
		if (*s == '/')
			*s = '_';
	const char *dir = a->out ? a->out : "", *slash = *dir && !ends_with(dir, "/") ? "/" : "";
	if (asprintf(&name, "%s%s%s_%u.%llu.%s", dir, slash, host, h->pid, (unsigned long long)h->start_ns,
				 a->format == FORMAT_KINETO ? "pt.trace.json.gz" : "pftrace") < 0)
		return NULL;
	return name;
}

/* ---- progress, and what is left when it is interrupted ---- */

struct progress {
	struct timespec began;
	uint64_t shown_ns;
	const char *path;
	unsigned index, count;
	bool shown;
};

static bool show_progress(void *arg, uint64_t done, uint64_t all)
{
	struct progress *p = arg;
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	uint64_t ns =
		(uint64_t)(now.tv_sec - p->began.tv_sec) * 1000000000u + (uint64_t)(now.tv_nsec - p->began.tv_nsec);
	bool last = done == all;
	if (!last && (ns < PROGRESS_AFTER_NS || ns - p->shown_ns < PROGRESS_EACH_NS))
		return true;
	if (last && !p->shown)
		return true;
	p->shown_ns = ns;
	p->shown = !last;
	if (last)
		fputs("\r\033[K", stderr);
	else
		fprintf(stderr, "\r%s: %u %%\033[K", p->path, all ? (unsigned)(100 * (double)done / (double)all) : 0);
	fflush(stderr);
	return true;
}

/* ---- */

static bool wanted(const struct arguments *a, const struct trace *t)
{
	for (unsigned i = 0; i < a->ranks; i++)
		if (a->rank[i] == trace_header(t)->rank)
			return true;
	return a->ranks == 0;
}

/* Leaves the ranks that are wanted; the first start of all. */
static uint64_t choose_ranks(const struct arguments *a, struct trace_set *set)
{
	unsigned kept = 0;
	uint64_t origin = UINT64_MAX, first, last;
	for (unsigned i = 0; i < set->count; i++) {
		if (!wanted(a, set->trace[i])) {
			trace_close(set->trace[i]);
			continue;
		}
		if (trace_span(set->trace[i], &first, &last) && first < origin)
			origin = first;
		set->trace[kept++] = set->trace[i];
	}
	set->count = kept;
	return origin == UINT64_MAX ? 0 : origin;
}

static uint64_t at(uint64_t origin, uint64_t ns)
{
	return ns < UINT64_MAX - origin ? origin + ns : UINT64_MAX;
}

/* Puts traces [i, i + n) into one file. */
static int write_file(const struct arguments *a, const struct trace_set *set, unsigned i, unsigned n,
					  uint64_t origin, const char *path)
{
	struct output o;
	struct progress p = {.path = path};
	const char *slash = strrchr(path, '/');
	struct export_request q = {
		.kinds = a->kinds,
		.from = at(origin, a->from),
		.to = at(origin, a->to),
		.origin = origin,
		.integer_us = a->integer_us,
		.count = set->count,
		.trace_name = slash ? slash + 1 : path,
		.progress = isatty(STDERR_FILENO) ? show_progress : NULL,
		.arg = &p,
	};
	uint64_t events = 0;
	int error = output_open(&o, path, ends_with(path, ".gz"));
	if (error)
		return failure("export", "%s: %s", path, output_error_text(error));
	clock_gettime(CLOCK_MONOTONIC, &p.began);
	for (q.index = i; q.index < i + n; q.index++)
		events += (a->format == FORMAT_KINETO ? export_kineto : export_perfetto)(set->trace[q.index], &q, &o);
	uint64_t bytes = o.bytes + o.used;
	error = output_close(&o);
	if (error)
		return failure("export", "%s: %s; nothing was kept", path, strerror(error));
	printf("%s: %llu events, %.1f MB%s\n", path, (unsigned long long)events, (double)bytes / 1e6,
		   ends_with(path, ".gz") ? " before compression" : "");
	return EXIT_OK;
}

static int export_set(const struct arguments *a, const struct trace_set *set, uint64_t origin)
{
	int code = EXIT_OK;
	if (a->out && !is_directory(a->out)) {
		if (set->count > 1 && a->format == FORMAT_KINETO)
			return usage_error("export",
							   "%u ranks do not fit one file of this format: name a directory, or one --rank",
							   set->count);
		return write_file(a, set, 0, set->count, origin, a->out);
	}
	if (a->out && mkdir(a->out, 0777) != 0 && errno != EEXIST)
		return failure("export", "%s: %s", a->out, strerror(errno));
	for (unsigned i = 0; i < set->count; i++) {
		char *path = file_name(a, set->trace[i]);
		int one = path ? write_file(a, set, i, 1, origin, path) : failure("export", "no memory");
		free(path);
		code = one ? one : code;
	}
	return code;
}

static void cannot_open(void *arg, const char *path, const char *why)
{
	(void)arg;
	failure("export", "%s: %s", path, why);
}

int cmd_export(int argc, char **argv)
{
	static struct arguments a = {.to = UINT64_MAX};
	struct trace_set set;
	a.path = calloc((size_t)argc, sizeof(*a.path));
	if (!a.path)
		return failure("export", "no memory for %d arguments", argc);
	int code = take_arguments(&a, argc, argv);
	if (!code)
		code = choose_format(&a);
	if (code) {
		free(a.path);
		return code;
	}
	bool all = trace_set_open(&set, a.path, a.paths, cannot_open, NULL);
	uint64_t origin = choose_ranks(&a, &set);
	if (set.count)
		code = export_set(&a, &set, origin);
	else if (all)
		code = failure("export", "no timeline is of the ranks asked for");
	trace_set_close(&set);
	free(a.path);
	int flushed = finish_output("export");
	return code ? code : !all ? EXIT_FAILED : flushed;
}

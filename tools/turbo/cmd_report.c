/*
 * cmd_report.c - `turbo report`: arguments, files, and the output that was asked for.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools/timeline/output.h"
#include "tools/timeline/report.h"
#include "arguments.h"
#include "turbo.h"

#define RANKS_MAX 1024

struct arguments {
	const char **path;
	unsigned paths;
	const char *html;
	bool json;
	struct report_options o;
	int rank[RANKS_MAX];
	unsigned ranks; /* 0: all */
};

static int take_ranks(struct arguments *a, const char *value)
{
	for (const char *s = value;; s++) {
		char *end;
		errno = 0;
		long n = strtol(s, &end, 10);
		if (end == s || errno || n < 0 || n > INT32_MAX || (*end && *end != ','))
			return usage_error("report", "--rank %s: numbers of ranks, with commas between them", value);
		if (a->ranks == RANKS_MAX)
			return usage_error("report", "--rank: more than %d ranks", RANKS_MAX);
		a->rank[a->ranks++] = (int)n;
		if (!*(s = end))
			return 0;
	}
}

static int take_value(void *to, const char *name, const char *value)
{
	struct arguments *a = to;
	if (!strcmp(name, "--window"))
		return window_take("report", value, &a->o.window_start, &a->o.window_end);
	if (!strcmp(name, "--rank"))
		return take_ranks(a, value);
	if (!strcmp(name, "--html")) {
		a->html = value;
		return *value ? 0 : usage_error("report", "--html needs the name of a file");
	}
	char *end;
	errno = 0;
	unsigned long n = strtoul(value, &end, 10);
	if (*value < '1' || *value > '9' || *end || errno || n > 100000)
		return usage_error("report", "--top %s: a number from 1 to 100000", value);
	a->o.top = (unsigned)n;
	return 0;
}

static bool take_flag(void *to, const char *name)
{
	struct arguments *a = to;
	a->json = a->json || !strcmp(name, "--json");
	return !strcmp(name, "--json");
}

static int take_path(void *to, const char *path)
{
	struct arguments *a = to;
	a->path[a->paths++] = path;
	return 0;
}

static int take_arguments(struct arguments *a, int argc, char **argv)
{
	static const char *const valued[] = {"--window", "--rank", "--html", "--top", NULL};
	static const struct arguments_taker taker = {
		.command = "report", .valued = valued, .value = take_value, .flag = take_flag, .rest = take_path};
	int code = arguments_take(&taker, a, argc, argv);
	return code || a->paths ? code : usage_error("report", "no FILE or DIR to report on");
}

/* ---- files ---- */

static void unreadable(void *arg, const char *path, const char *why)
{
	(void)arg;
	failure("report", "%s: %s", path, why);
}

static bool wanted(const struct arguments *a, int rank)
{
	for (unsigned i = 0; i < a->ranks; i++)
		if (a->rank[i] == rank)
			return true;
	return a->ranks == 0;
}

/* Moves those asked for to the front; how many. */
static unsigned choose(const struct arguments *a, struct trace_set *set)
{
	unsigned n = 0;
	for (unsigned i = 0; i < set->count; i++)
		if (wanted(a, trace_header(set->trace[i])->rank)) {
			struct trace *t = set->trace[i];
			set->trace[i] = set->trace[n];
			set->trace[n++] = t;
		}
	return n;
}

/* ---- output ---- */

static void show_progress(void *arg, uint64_t done, uint64_t total)
{
	int *shown = arg, percent = total ? (int)(100.0 * (double)done / (double)total) : 0;
	if (percent <= *shown)
		return;
	*shown = percent;
	fprintf(stderr, "\rturbo report: %d %% of %.1f M records", percent, (double)total / 1e6);
}

static unsigned style(void)
{
	const char *locale = getenv("LC_ALL"), *term = getenv("TERM"), *no = getenv("NO_COLOR");
	unsigned s = 0;
	if (!locale || !*locale)
		locale = getenv("LC_CTYPE");
	if (!locale || !*locale)
		locale = getenv("LANG");
	if (locale && (strcasestr(locale, "utf-8") || strcasestr(locale, "utf8")))
		s |= REPORT_UTF8;
	if (isatty(STDOUT_FILENO) && !(no && *no) && !(term && !strcmp(term, "dumb")))
		s |= REPORT_COLOUR;
	return s;
}

/* Of the terminal, where there is one. */
static unsigned columns(void)
{
	struct winsize size;
	bool known = isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
	return known && size.ws_col > REPORT_COLUMNS ? size.ws_col : REPORT_COLUMNS;
}

static ssize_t put(void *output, const char *bytes, size_t n)
{
	struct output *o = output;
	output_bytes(o, bytes, n);
	return o->error ? 0 : (ssize_t)n;
}

/* An older page stays until the new one is whole, and what is no regular file stays in any case. */
static int write_page(const struct report *r, const char *path)
{
	struct output out;
	int error = output_open(&out, path, false);
	if (error)
		return failure("report", "%s: %s", path, output_error_text(error));
	FILE *to = fopencookie(&out, "w", (cookie_io_functions_t){.write = put});
	bool ok = to && report_html(r, to);
	if (!ok)
		output_fail(&out, errno ? errno : EIO);
	if (to && fclose(to) != 0)
		output_fail(&out, errno);
	error = output_close(&out);
	if (error)
		return failure("report", "%s: %s", path, strerror(error));
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "turbo report: %s is written; open it in a browser\n", path);
	return EXIT_OK;
}

static int report(struct arguments *a, struct trace_set *set)
{
	int shown = 0, code = EXIT_OK;
	bool talks = isatty(STDERR_FILENO);
	unsigned count = choose(a, set);
	if (!count)
		return failure("report", set->count ? "no file is of a rank that --rank names"
											: "there is no timeline to report on");
	if (talks) {
		a->o.progress = show_progress;
		a->o.progress_arg = &shown;
	}
	a->o.fine = a->html != NULL;
	struct report *r = report_make(set->trace, count, &a->o);
	if (shown)
		fprintf(stderr, "\r%60s\r", "");
	if (a->html)
		code = write_page(r, a->html);
	if (a->json)
		report_json(r, stdout);
	else if (!a->html)
		report_text(r, stdout, style(), columns());
	report_free(r);
	int output = finish_output("report");
	return code ? code : output;
}

int cmd_report(int argc, char **argv)
{
	struct arguments a = {0};
	struct trace_set set = {0};
	a.path = calloc((size_t)argc, sizeof(*a.path));
	if (!a.path)
		return failure("report", "no memory for %d arguments", argc);
	int code = take_arguments(&a, argc, argv);
	if (!code) {
		bool all = trace_set_open(&set, a.path, a.paths, unreadable, NULL);
		code = set.count || all ? report(&a, &set) : EXIT_FAILED;
		trace_set_close(&set);
		if (!all)
			code = EXIT_FAILED;
	}
	free(a.path);
	return code;
}

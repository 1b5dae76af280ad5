/*
 * cmd_replay.c - `turbo replay`: arguments, one worker for each trace and mode, table or JSON.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "replay.h"
#include "turbo.h"

#define MODES_MAX 16
#define TRACE_COLUMNS 30
#define SIM_LIMIT_MOST (2ull << 40) /* what the simulated devices can have */

struct arguments {
	const char **trace;
	int traces;
	const struct replay_mode *mode[MODES_MAX];
	int modes;
	uint64_t limit;
	bool sim, touch, json;
	bool seed_given, ops_given;
	struct replay_make make;
};

/* ---- arguments ---- */

/* "4096", "512M", "1.5G" is not: a decimal number, then K, M, G or T (powers of 1024). */
static bool parse_bytes(const char *text, uint64_t *out)
{
	static const char units[] = "KMGT";
	char *end;
	errno = 0;
	uint64_t n = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || errno)
		return false;
	const char *unit = *end ? strchr(units, *end >= 'a' ? *end - 32 : *end) : NULL;
	for (const char *u = units; unit && u <= unit; u++)
		if (__builtin_mul_overflow(n, 1024u, &n))
			return false;
	*out = n;
	return n > 0 && (!*end || (unit && !end[1]));
}

static bool parse_number(const char *text, uint64_t *out)
{
	char *end;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && !errno;
}

static int take_mode(struct arguments *a, const char *name)
{
	const struct replay_mode *mode = replay_mode_find(name);
	if (!mode)
		return usage_error("replay", "no mode '%s'; there are bare, cache, deferred, stream and pool", name);
	if (a->modes == MODES_MAX)
		return usage_error("replay", "more than %d modes", MODES_MAX);
	a->mode[a->modes++] = mode;
	return 0;
}

/* An option that takes a value. 0, or an exit code. */
static int take_value(void *to, const char *name, const char *value)
{
	struct arguments *a = to;
	if (!strcmp(name, "--mode"))
		return take_mode(a, value);
	if (!strcmp(name, "--limit"))
		return parse_bytes(value, &a->limit)
				   ? 0
				   : usage_error("replay", "--limit %s: a number of bytes, or one with K, M, G or T", value);
	if (!strcmp(name, "--seed") || !strcmp(name, "--ops")) {
		bool seed = name[2] == 's';
		*(seed ? &a->seed_given : &a->ops_given) = true;
		return parse_number(value, seed ? &a->make.seed : &a->make.ops)
				   ? 0
				   : usage_error("replay", "%s %s: not a number", name, value);
	}
	if (!strcmp(name, "--generate"))
		a->make.shape = value;
	else if (!strcmp(name, "--import"))
		a->make.snapshot = value;
	else
		a->make.output = value;
	return 0;
}

static bool take_flag(void *to, const char *name)
{
	struct arguments *a = to;
	bool *flag = !strcmp(name, "--json")    ? &a->json
				 : !strcmp(name, "--sim")   ? &a->sim
				 : !strcmp(name, "--touch") ? &a->touch
											: NULL;
	if (flag)
		*flag = true;
	return flag != NULL;
}

static int take_trace(void *to, const char *path)
{
	struct arguments *a = to;
	a->trace[a->traces++] = path;
	return 0;
}

static int take_arguments(struct arguments *a, int argc, char **argv)
{
	static const char *const valued[] = {"--mode",     "--limit",  "--seed", "--ops",
										 "--generate", "--import", "-o",     NULL};
	static const struct arguments_taker taker = {
		.command = "replay", .valued = valued, .value = take_value, .flag = take_flag, .rest = take_trace};
	return arguments_take(&taker, a, argc, argv);
}

static int check_arguments(const struct arguments *a)
{
	bool makes = a->make.shape || a->make.snapshot;
	if (a->make.shape && a->make.snapshot)
		return usage_error("replay", "--generate and --import are two things to do");
	if (makes && a->traces)
		return usage_error("replay", "%s replays nothing: '%s' is one argument too many",
						   a->make.shape ? "--generate" : "--import", a->trace[0]);
	if (makes && (a->modes || a->limit || a->sim || a->touch || a->json))
		return usage_error("replay", "--mode, --limit, --sim, --touch and --json are for replaying");
	if (!a->make.shape && (a->seed_given || a->ops_given))
		return usage_error("replay", "--seed and --ops are for --generate");
	if (!makes && a->make.output)
		return usage_error("replay", "-o is for --generate and --import");
	if (!makes && !a->traces)
		return usage_error("replay", "no TRACE to replay");
	if (a->sim && a->limit && (a->limit < 1 << 20 || a->limit > SIM_LIMIT_MOST))
		return usage_error("replay", "--limit with --sim is from 1M to 2T");
	return 0;
}

/* ---- output ---- */

static double ratio(uint64_t a, uint64_t b)
{
	return b ? (double)a / (double)b : 0;
}

static void print_json_string(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			printf("\\%c", *s);
		else if ((unsigned char)*s < 0x20 || *s == 0x7f)
			printf("\\u%04x", *s);
		else
			putchar(*s);
	}
	putchar('"');
}

static void print_json(const struct replay_request *q, const struct replay_result *r, bool first)
{
	printf("%s{\"trace\": ", first ? "" : ",\n ");
	print_json_string(q->trace);
	printf(", \"mode\": \"%s\", \"ops\": %" PRIu64 ", \"ns_per_op\": %.1f, \"peak_reserved\": %" PRIu64
		   ", \"peak_live\": %" PRIu64 ", \"ratio\": %.4f, \"driver_calls\": %" PRIu64 ", \"oom\": %" PRIu64
		   "}",
		   q->mode->name, r->ops, ratio(r->ns, r->ops), r->peak_reserved, r->peak_live,
		   ratio(r->peak_reserved, r->peak_live), r->driver_calls, r->oom);
}

static const char *mib(uint64_t bytes, char buf[32])
{
	snprintf(buf, 32, "%.1f", (double)bytes / (1 << 20));
	return buf;
}

/* The end of a long path says most. */
static void print_trace_name(const char *path)
{
	size_t n = strlen(path);
	if (n > TRACE_COLUMNS)
		printf("...%s", path + n - (TRACE_COLUMNS - 3));
	else
		printf("%-*s", TRACE_COLUMNS, path);
}

static void print_row(const struct replay_request *q, const struct replay_result *r, bool first)
{
	char reserved[32], live[32];
	if (first)
		printf("%-*s %-8s %8s %9s %9s %9s %5s %8s %5s\n", TRACE_COLUMNS, "TRACE", "MODE", "OPS", "NS/OP",
			   "RES MiB", "LIVE MiB", "RATIO", "CALLS", "OOM");
	print_trace_name(q->trace);
	printf(" %-8s %8" PRIu64 " %9.0f %9s %9s %5.2f %8" PRIu64 " %5" PRIu64 "\n", q->mode->name, r->ops,
		   ratio(r->ns, r->ops), mib(r->peak_reserved, reserved), mib(r->peak_live, live),
		   ratio(r->peak_reserved, r->peak_live), r->driver_calls, r->oom);
}

/* ---- replaying ---- */

/* The modes asked for, else the usual ones that this libturbo has. */
static int choose_modes(struct arguments *a)
{
	for (int i = 0; i < a->modes; i++)
		if (!replay_mode_exists(a->mode[i]))
			return failure("replay", "mode %s: this libturbo has no TURBO_DEVMEM=%s", a->mode[i]->name,
						   a->mode[i]->name);
	bool chosen = a->modes > 0;
	for (const struct replay_mode *m = replay_modes; !chosen && m->name; m++)
		if (m->usual && replay_mode_exists(m))
			a->mode[a->modes++] = m;
	return 0;
}

static int replay(const struct arguments *a)
{
	char sim[4096];
	bool first = true, failed = false;
	struct replay_request q = {.limit = a->limit, .sim = a->sim, .touch = a->touch};
	struct trace_facts *facts = calloc((size_t)a->traces, sizeof(*facts));
	if (!facts)
		return failure("replay", "no memory for %d traces", a->traces);
	for (int t = 0; t < a->traces; t++)
		if (trace_examine("replay", a->trace[t], &facts[t]) != 0) {
			free(facts);
			return EXIT_FAILED;
		}
	if (a->sim && replay_sim_find(sim, sizeof(sim)))
		fprintf(stderr, "turbo replay: the driver is simulated (%s): the times are not a GPU's\n", sim);
	if (a->json)
		putchar('[');
	for (int t = 0; t < a->traces; t++)
		for (int m = 0; m < a->modes; m++) {
			struct replay_result result;
			q.trace = a->trace[t];
			q.mode = a->mode[m];
			q.facts = facts[t];
			if (!replay_in_child(&q, &result)) {
				failed = true;
				continue;
			}
			(a->json ? print_json : print_row)(&q, &result, first);
			first = false;
		}
	if (a->json)
		puts("]");
	free(facts);
	int code = finish_output("replay");
	return failed ? EXIT_FAILED : code;
}

int cmd_replay(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], REPLAY_WORKER))
		return replay_worker(argc, argv);
	struct arguments a = {.make = {.seed = 1, .ops = 20000}};
	a.trace = calloc((size_t)argc, sizeof(*a.trace));
	if (!a.trace)
		return failure("replay", "no memory for %d arguments", argc);
	int code = take_arguments(&a, argc, argv);
	if (!code)
		code = check_arguments(&a);
	if (!code && a.make.shape)
		code = replay_generate(&a.make);
	else if (!code && a.make.snapshot)
		code = replay_import(&a.make);
	else if (!code && !(code = choose_modes(&a)))
		code = replay(&a);
	free(a.trace);
	return code;
}

#include "cases.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util.h"

uint64_t case_random = 1;
const char *case_self;

static const char *current = "start";
static uint64_t case_started; /* atomic; 0: no case runs. Written by main, read by the watchdog */
static unsigned case_limit_s = 60;

const char *case_name(void)
{
	return current;
}

static __thread char reason[512];

const char *case_fail(const char *fmt, ...)
{
	char text[sizeof(reason)]; /* an argument may be an earlier reason */
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return memcpy(reason, text, sizeof(reason));
}

const char *case_skip(const char *fmt, ...)
{
	va_list ap;
	strcpy(reason, "skip: ");
	va_start(ap, fmt);
	vsnprintf(reason + 6, sizeof(reason) - 6, fmt, ap);
	va_end(ap);
	return reason;
}

void case_note(const char *key, const char *value)
{
	printf("note %s %s %s\n", case_name(), key, value);
}

void case_note_status(const char *key, CUresult r)
{
	case_note(key, r == CUDA_SUCCESS ? "CUDA_SUCCESS" : cuda_dl_error(r));
}

void case_note_number(const char *key, long long value)
{
	char text[32];
	snprintf(text, sizeof(text), "%lld", value);
	case_note(key, text);
}

void case_info(const char *key, double value)
{
	printf("info %s %s %.2f\n", case_name(), key, value);
}

static void *watchdog_main(void *arg)
{
	(void)arg;
	for (;;) {
		sleep_ms(200);
		uint64_t started = __atomic_load_n(&case_started, __ATOMIC_ACQUIRE);
		if (!started || now_ns() - started < (uint64_t)case_limit_s * 1000000000u)
			continue;
		printf("FAIL %s: no answer after %u s\n", current, case_limit_s);
		fflush(stdout);
		_exit(3);
	}
	return NULL;
}

/* The n-th case of all groups, or NULL. */
static const struct gpu_case *case_at(const struct case_suite *s, size_t n)
{
	for (size_t g = 0; s->groups[g]; g++)
		for (const struct gpu_case *c = s->groups[g]; c->name; c++)
			if (n-- == 0)
				return c;
	return NULL;
}

static bool known_case(const struct case_suite *s, const char *name)
{
	const struct gpu_case *c;
	for (size_t i = 0; (c = case_at(s, i)); i++)
		if (!strcmp(c->name, name))
			return true;
	return false;
}

static bool wanted(const char *name, int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		if (!strcmp(argv[i], name))
			return true;
	return argc == 0;
}

/* Runs one case with a fresh fixture; NULL, a skip or a reason. *lost: no other can follow it. */
static const char *run_case(const struct case_suite *s, const struct gpu_case *c, bool *lost)
{
	const char *why = s->open();
	if (why) {
		s->close();
		return why;
	}
	why = c->run();
	CUresult r = cu.cuCtxSynchronize();
	if (!why && r != CUDA_SUCCESS)
		why = case_fail("the context ends with %s", cuda_dl_error(r));
	*lost = r != CUDA_SUCCESS;
	s->close();
	return why;
}

static int run_cases(const struct case_suite *s, int argc, char **argv)
{
	int passed = 0, failed = 0, skipped = 0;
	bool lost = false;
	const struct gpu_case *c;
	for (size_t i = 0; !lost && (c = case_at(s, i)); i++) {
		if (!wanted(c->name, argc, argv))
			continue;
		current = c->name;
		uint64_t started = now_ns();
		__atomic_store_n(&case_started, started, __ATOMIC_RELEASE);
		const char *why = run_case(s, c, &lost);
		__atomic_store_n(&case_started, 0, __ATOMIC_RELEASE);
		double ms = (double)(now_ns() - started) / 1e6;
		bool skip = why && !strncmp(why, "skip: ", 6);
		if (!why)
			printf("ok %s (%.0f ms)\n", c->name, ms);
		else if (skip)
			printf("skip %s: %s\n", c->name, why + 6);
		else
			printf("FAIL %s: %s\n", c->name, why);
		fflush(stdout);
		passed += !why;
		skipped += skip;
		failed += why && !skip;
	}
	printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
	return lost ? 4 : failed ? 1 : 0;
}

static void print_stats(void)
{
	const char *turbo = getenv("GPU_TEST_TURBO");
	char command[8192], line[65536];
	if (!turbo || !getenv("LD_PRELOAD"))
		return;
	snprintf(command, sizeof(command), "env -u LD_PRELOAD '%s' stats %d --json", turbo, (int)getpid());
	FILE *f = popen(command, "r");
	if (f && fgets(line, sizeof(line), f))
		printf("stats %s", line);
	if (f)
		pclose(f);
}

static int usage(const struct case_suite *s)
{
	fprintf(stderr, "usage: %s [--list] [--seed N] [--timeout S]%s%s [CASE]...\n", s->program,
			s->options ? " " : "", s->options ? s->options : "");
	return 2;
}

/* The options; returns the index of the first case, or -1 - exit status. */
static int parse(const struct case_suite *s, int argc, char **argv, uint64_t *seed)
{
	const struct gpu_case *c;
	int i = 1, taken;
	for (; i < argc && !strncmp(argv[i], "--", 2); i++) {
		if (!strcmp(argv[i], "--list")) {
			for (size_t k = 0; (c = case_at(s, k)); k++)
				puts(c->name);
			return -1;
		} else if (!strcmp(argv[i], "--seed") && i + 1 < argc) {
			*seed = strtoull(argv[++i], NULL, 0);
		} else if (!strcmp(argv[i], "--timeout") && i + 1 < argc) {
			case_limit_s = (unsigned)atoi(argv[++i]);
		} else if (s->option && (taken = s->option(argc - i, argv + i)) > 0) {
			i += taken - 1;
		} else {
			return -1 - usage(s);
		}
	}
	for (int k = i; k < argc; k++)
		if (!known_case(s, argv[k]))
			return -1 - usage(s);
	return i;
}

int cases_main(const struct case_suite *s, int argc, char **argv)
{
	static char self[4096];
	uint64_t seed = 20261130;
	int first = parse(s, argc, argv, &seed);
	if (first < 0)
		return -1 - first;
	signal(SIGPIPE, SIG_IGN);
	setenv("CUDA_MODULE_LOADING", "EAGER", 0);
	const char *why = cuda_dl_open();
	if (why) {
		printf("skipped: %s\n", why);
		return 77;
	}
	case_self = readlink("/proc/self/exe", self, sizeof(self) - 1) > 0 ? self : argv[0];
	case_random = seed ? seed : 1;
	printf("seed %llu\n", (unsigned long long)seed);
	pthread_t watchdog;
	if (pthread_create(&watchdog, NULL, watchdog_main, NULL))
		return 1;
	int failed = run_cases(s, argc - first, argv + first);
	print_stats();
	return failed;
}

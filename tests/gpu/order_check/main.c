/*
 * order_check - the promises about pageable copies, on whatever driver is installed.
 *
 * usage: order_check [--list] [--seed N] [--timeout S] [--huge] [CASE]...
 * Prints `ok CASE`, `skip CASE: why` or `FAIL CASE: why`, one line a case, `note` lines that must
 * be the same bare and preloaded, and a count. Exit: 0, 1 a case failed, 2 usage, 3 a case hung,
 * 77 no GPU.
 */
#include "order.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct order_case *const groups[] = {reuse_cases, stream_cases, late_cases, capture_cases,
												  fault_cases, many_cases,   life_cases};
#define GROUPS (sizeof(groups) / sizeof(groups[0]))

static const char *current = "start";
static uint64_t case_started; /* atomic; 0: no case runs. Written by main, read by the watchdog */
static unsigned case_limit_s = 60;

const char *order_case_name(void)
{
	return current;
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

static void list_cases(void)
{
	for (size_t g = 0; g < GROUPS; g++)
		for (const struct order_case *c = groups[g]; c->name; c++)
			puts(c->name);
}

static bool known_case(const char *name)
{
	for (size_t g = 0; g < GROUPS; g++)
		for (const struct order_case *c = groups[g]; c->name; c++)
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

/* Runs one case with a fresh fixture; NULL, a skip or a reason. */
static const char *run_case(const struct order_case *c)
{
	const char *why = fixture_open();
	if (why)
		return why;
	why = c->run();
	CUresult r = cu.cuCtxSynchronize();
	if (!why && r != CUDA_SUCCESS)
		why = order_fail("the context ends with %s", cuda_dl_error(r));
	fixture_close();
	return why;
}

static int run_cases(int argc, char **argv)
{
	int passed = 0, failed = 0, skipped = 0;
	for (size_t g = 0; g < GROUPS; g++)
		for (const struct order_case *c = groups[g]; c->name; c++) {
			if (!wanted(c->name, argc, argv))
				continue;
			current = c->name;
			uint64_t started = now_ns();
			__atomic_store_n(&case_started, started, __ATOMIC_RELEASE);
			const char *why = run_case(c);
			__atomic_store_n(&case_started, 0, __ATOMIC_RELEASE);
			double ms = (double)(now_ns() - started) / 1e6;
			if (!why)
				printf("ok %s (%.0f ms)\n", c->name, ms);
			else if (!strncmp(why, "skip: ", 6))
				printf("skip %s: %s\n", c->name, why + 6);
			else
				printf("FAIL %s: %s\n", c->name, why);
			fflush(stdout);
			passed += !why;
			skipped += why && !strncmp(why, "skip: ", 6);
			failed += why && strncmp(why, "skip: ", 6);
		}
	printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
	return failed ? 1 : 0;
}

/* With libturbo.so preloaded by the test runner: its counters of this process, as one line. */
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

static int usage(void)
{
	fputs("usage: order_check [--list] [--seed N] [--timeout S] [--huge] [CASE]...\n", stderr);
	return 2;
}

int main(int argc, char **argv)
{
	uint64_t seed = 20261130;
	int i = 1;
	if (argc > 1 && !strcmp(argv[1], "--ipc-child"))
		return ipc_child_main(argc - 2, argv + 2);
	for (; i < argc && !strncmp(argv[i], "--", 2); i++) {
		if (!strcmp(argv[i], "--list")) {
			list_cases();
			return 0;
		} else if (!strcmp(argv[i], "--huge")) {
			fx.huge = true;
		} else if (!strcmp(argv[i], "--seed") && i + 1 < argc) {
			seed = strtoull(argv[++i], NULL, 0);
		} else if (!strcmp(argv[i], "--timeout") && i + 1 < argc) {
			case_limit_s = (unsigned)atoi(argv[++i]);
		} else {
			return usage();
		}
	}
	for (int k = i; k < argc; k++)
		if (!known_case(argv[k]))
			return usage();
	signal(SIGPIPE, SIG_IGN);
	setenv("CUDA_MODULE_LOADING", "EAGER", 0);
	const char *why = cuda_dl_open();
	if (why) {
		printf("skipped: %s\n", why);
		return 77;
	}
	static char self[4096];
	fx.self = readlink("/proc/self/exe", self, sizeof(self) - 1) > 0 ? self : argv[0];
	fx.random = seed ? seed : 1;
	printf("seed %llu\n", (unsigned long long)seed);
	pthread_t watchdog;
	if (pthread_create(&watchdog, NULL, watchdog_main, NULL))
		return 1;
	int failed = run_cases(argc - i, argv + i);
	print_stats();
	return failed;
}

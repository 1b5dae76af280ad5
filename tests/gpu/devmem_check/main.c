/*
 * devmem_check - the promises about device memory, on whatever driver is installed.
 *
 * usage: devmem_check [--list] [--seed N] [--timeout S] [--mode bare|cache|deferred|stream] [CASE]...
 * (common/cases.h). --mode says what TURBO_DEVMEM is; it changes what is expected, not what is done.
 */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct gpu_case *const groups[] = {early_cases,   wrong_cases,   async_cases, pool_cases,
												answer_cases,  capture_cases, share_cases, latency_cases,
												context_cases, NULL};

static const char *const mode_names[] = {"bare", "cache", "deferred", "stream"};

static int option(int argc, char **argv)
{
	if (argc < 2 || strcmp(argv[0], "--mode"))
		return 0;
	for (int i = 0; i < 4; i++)
		if (!strcmp(argv[1], mode_names[i])) {
			fx.mode = (enum check_mode)i;
			return 2;
		}
	return 0;
}

int child_main(int argc, char **argv)
{
	const char *name = argc > 0 ? argv[0] : "", *arg = argc > 1 ? argv[1] : "";
	alarm(120);
	if (cuda_dl_open())
		return 77;
	if (!strcmp(name, "fault"))
		return child_fault();
	if (!strcmp(name, "ipc"))
		return child_ipc();
	if (!strcmp(name, "mem_info"))
		return child_mem_info();
	if (!strcmp(name, "handover"))
		return child_handover(arg);
	return 2;
}

int main(int argc, char **argv)
{
	static const struct case_suite suite = {.program = "devmem_check",
											.groups = groups,
											.open = fixture_open,
											.close = fixture_close,
											.option = option,
											.options = "[--mode bare|cache|deferred|stream]"};
	if (argc > 1 && !strcmp(argv[1], "--child"))
		return child_main(argc - 2, argv + 2);
	return cases_main(&suite, argc, argv);
}

/*
 * order_check - the promises about pageable copies, on whatever driver is installed.
 *
 * usage: order_check [--list] [--seed N] [--timeout S] [--huge] [CASE]...   (common/cases.h)
 */
#include "order.h"

#include <string.h>

static const struct gpu_case *const groups[] = {reuse_cases, stream_cases, late_cases, capture_cases,
												fault_cases, many_cases,   life_cases, NULL};

static int option(int argc, char **argv)
{
	(void)argc;
	if (strcmp(argv[0], "--huge"))
		return 0;
	fx.huge = true;
	return 1;
}

int main(int argc, char **argv)
{
	static const struct case_suite suite = {.program = "order_check",
											.groups = groups,
											.open = fixture_open,
											.close = fixture_close,
											.option = option,
											.options = "[--huge]"};
	if (argc > 1 && !strcmp(argv[1], "--ipc-child"))
		return ipc_child_main(argc - 2, argv + 2);
	return cases_main(&suite, argc, argv);
}

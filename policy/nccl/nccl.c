/* nccl.c - the policy of the collective watchdog. */
#include <stdio.h>

#include "act.h"
#include "comms.h"
#include "file.h"
#include "flight_open.h"
#include "options.h"
#include "policy.h"
#include "progress.h"
#include "ras.h"
#include "stacks.h"
#include "stats.h"
#include "watch.h"

static void start(void)
{
	ras_start();
	flight_switch(option_get(OPT_NCCL_WATCHDOG) != 0 || option_get(OPT_NCCL_COALESCE) != 0);
}

static void fork_child(void)
{
	flight_fork_child();
	flight_file_fork_child();
	progress_fork_child();
	stacks_fork_child();
	act_fork_child();
	nccl_watch_fork_child();
}

static void stop(void)
{
	struct flight_page *page = flight_page();

	flight_switch(false);
	nccl_watch_stop();
	progress_stop();
	if (!page)
		return;
	atomic_store_explicit(&page->leaving, 1, memory_order_relaxed);
	flight_file_end();
}

static int summary(char *buf, int size)
{
	unsigned long long comms = stats_get(STATS_NCCL_COMMS), operations = stats_get(STATS_NCCL_OPERATIONS);

	if (!comms)
		return 0;
	return snprintf(buf, (size_t)size, "watched %llu NCCL calls of %llu communicators", operations, comms);
}

const struct policy nccl_policy = {
	.name = "nccl",
	.start = start,
	.context_gone = progress_context_gone,
	.quiet = progress_quiet,
	.fork_child = fork_child,
	.stop = stop,
	.summary = summary,
};

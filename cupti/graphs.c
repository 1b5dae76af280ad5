/* graphs.c - see graphs.h. */
#include "graphs.h"

#include <stdint.h>
#include <string.h>

#include "hooks.h"
#include "stats.h"

/* Calls of the functions whose names begin so; each is counted before it is made. */
static uint64_t calls_of(const char *prefix)
{
	uint64_t calls = 0;
	for (unsigned id = 0; id < HOOK_COUNT; id++)
		if (strncmp(hook_table[id].name, prefix, strlen(prefix)) == 0)
			calls += stats_cell_sum(id);
	return calls;
}

bool graphs_used(void)
{
	return calls_of("cuGraphInstantiate") || calls_of("cuGraphLaunch") || calls_of("cuGraphUpload");
}

/* Of the thread that moves. */
static uint64_t traced_calls; /* of cuGraphInstantiate, when GRAPH_TRACE was last on; 0 before */
static bool traced_now, traced_once, untraced_exists;

bool graphs_may_be_whole(void)
{
	if (!traced_now && calls_of("cuGraphInstantiate") != traced_calls)
		untraced_exists = true;
	return !untraced_exists;
}

void graphs_traced(bool now)
{
	/* A call that is under way when tracing ends has been counted, though its graph may come untraced: so the
	 * count is taken before the end, and such a graph can be missed only by a call that began just then. */
	if (traced_now && !now)
		traced_calls = calls_of("cuGraphInstantiate");
	traced_now = now;
	traced_once |= now;
}

bool graphs_may_resume(void)
{
	return !traced_once || traced_now || graphs_may_be_whole();
}

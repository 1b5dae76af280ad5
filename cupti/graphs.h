/*
 * graphs.h - what the program's CUDA graphs forbid CUPTI (measured: COST.md). Which graphs exist cannot be
 * known, so one that was ever instantiated counts. Any thread.
 */
#ifndef TURBO_CUPTI_GRAPHS_H
#define TURBO_CUPTI_GRAPHS_H

#include <stdbool.h>

/* The program has instantiated, uploaded or launched a graph. */
bool graphs_used(void);

/*
 * CUPTI_GRAPH_TRACE may be enabled: no graph was instantiated while it was not. One that was ends the process
 * at its next launch. graphs_traced() says that it is enabled now (true) or is about to be disabled (false). One
 * thread at a time: the one that moves (client.h).
 */
bool graphs_may_be_whole(void);
void graphs_traced(bool now);
/* False where GRAPH_TRACE was enabled once and a graph was instantiated after it had been disabled: whatever is enabled
 * then ends the process at that graph's next launch. The same thread. */
bool graphs_may_resume(void);

#endif

/*
 * graphs.h - calls of NCCL that were captured, and run when a graph is launched.
 *
 * A captured call is noted with its capture, and so of the graph that comes of it, of clones, of graphs that have it
 * as a child, and of what is instantiated of or updated from any of these. A launch of such an executable graph
 * is one FLIGHT_GRAPH operation of each communicator in it. Bodies of conditional nodes and launches by the device
 * are not seen: what they hold is not followed.
 *
 * Hook bodies (shim/cuda_graph.c, cuda_ctx.c) tell, inside the guard. Notes are behind a lock that no driver call is
 * made under; a launch takes none.
 */
#ifndef TURBO_NCCL_GRAPHS_H
#define TURBO_NCCL_GRAPHS_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "flight.h"

#define GRAPH_COMMS 8 /* communicators of a graph that are followed */

/* Notes of captures and graphs; executable graphs with such calls. Relaxed: who must see one has made it, or was told
 * by who did. */
extern _Atomic unsigned graphs_notes __attribute__((visibility("hidden")));
extern _Atomic unsigned graphs_execs __attribute__((visibility("hidden")));

/* Whether anything below but the launch has something to do: one load. */
static inline bool graphs_noted(void)
{
	return __builtin_expect(atomic_load_explicit(&graphs_notes, memory_order_relaxed) != 0, 0);
}
static inline bool graphs_runnable(void)
{
	return __builtin_expect(atomic_load_explicit(&graphs_execs, memory_order_relaxed) != 0, 0);
}

/* Before a capture ends: its number, 0 none; after it: what came of it, NULL when it failed. */
uint64_t graphs_capture_ending(CUstream stream);
void graphs_capture_ended(uint64_t capture, CUgraph graph);
/* `graph` is a new one with all that `of` has; or has it, too. */
void graphs_cloned(CUgraph graph, CUgraph of);
void graphs_child(CUgraph graph, CUgraph child);
void graphs_destroyed(CUgraph graph);
/* `exec` was made of `graph`, or updated from it. */
void graphs_instantiated(CUgraphExec exec, CUgraph graph);
void graphs_exec_destroyed(CUgraphExec exec);

struct graph_launch {
	uint64_t capture; /* that the launch becomes a part of; 0: it runs */
	CUgraphExec exec;
	unsigned n;
	struct flight_ticket ticket[GRAPH_COMMS];
};
/* Around a launch. False: nothing of it is followed, and nothing is to be ended. */
bool graphs_launch_begin(struct graph_launch *launch, CUgraphExec exec, CUstream stream);
void graphs_launch_end(struct graph_launch *launch, CUresult status);

void graphs_fork_child(void);

#endif

/*
 * cuda_graph.c - graphs: what becomes of the collectives that were captured into them is told to the watchdog, and
 * where the driver finds no memory for one, what libturbo keeps is given back and the call is made once more.
 *
 * While no collective was ever captured a call costs its count and one load. errno is as the real call left it.
 */
#include <cuda.h>

#include "doors.h"
#include "inside.h"
#include "make_room.h"
#include "real.h"
#include "stats.h"
#include "../policy/devmem/devmem.h"
#include "../policy/nccl/graphs.h"
#include "../policy/nccl/progress.h"

/* `call` is one of graphs.h's; libturbo's own graphs are nobody's. */
#define TELL_GRAPHS(known, status, call)                              \
	do {                                                              \
		if ((known) && (status) == CUDA_SUCCESS && !guard_inside()) { \
			int saved_ = inside_begin();                              \
			call;                                                     \
			inside_end(saved_);                                       \
		}                                                             \
	} while (0)

/* ---- what a graph is made of ---- */

TURBO_EXPORT CUresult cuGraphClone(CUgraph *clone, CUgraph of)
{
	CUresult status;

	stats_call(HOOK_cuGraphClone);
	status = REAL(cuGraphClone)(clone, of);
	TELL_GRAPHS(graphs_noted(), status, graphs_cloned(*clone, of));
	return status;
}

TURBO_EXPORT CUresult cuGraphDestroy(CUgraph graph)
{
	CUresult status;

	stats_call(HOOK_cuGraphDestroy);
	/* Before: its handle may be another graph's as soon as it is gone. */
	TELL_GRAPHS(graphs_noted(), CUDA_SUCCESS, graphs_destroyed(graph));
	status = REAL(cuGraphDestroy)(graph);
	return status;
}

TURBO_EXPORT CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
											   size_t count, CUgraph child)
{
	CUresult status;

	stats_call(HOOK_cuGraphAddChildGraphNode);
	status = REAL(cuGraphAddChildGraphNode)(node, graph, deps, count, child);
	TELL_GRAPHS(graphs_noted(), status, graphs_child(graph, child));
	return status;
}

static void added(CUgraph graph, const CUgraphNodeParams *params, CUresult status)
{
	TELL_GRAPHS(graphs_noted() && params && params->type == CU_GRAPH_NODE_TYPE_GRAPH, status,
				graphs_child(graph, params->graph.graph));
}

TURBO_EXPORT CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
									 CUgraphNodeParams *params)
{
	CUresult status;

	stats_call(HOOK_cuGraphAddNode);
	status = REAL(cuGraphAddNode)(node, graph, deps, count, params);
	added(graph, params, status);
	return status;
}

TURBO_EXPORT CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
										const CUgraphEdgeData *data, size_t count, CUgraphNodeParams *params)
{
	CUresult status;

	stats_call(HOOK_cuGraphAddNode_v2);
	status = REAL(cuGraphAddNode_v2)(node, graph, deps, data, count, params);
	added(graph, params, status);
	return status;
}

/* ---- executable graphs ---- */

/* One that is made where a forgotten one was is not that one. */
static void instantiated(CUgraphExec *exec, CUgraph graph, CUresult status)
{
	TELL_GRAPHS(graphs_noted() || graphs_runnable(), status, graphs_instantiated(*exec, graph));
}

#define INSTANTIATE(symbol, params, args)       \
	TURBO_EXPORT CUresult symbol params         \
	{                                           \
		CUresult status;                        \
		struct devmem_room room;                \
		stats_call(HOOK_##symbol);              \
		room = devmem_room_begin();             \
		do {                                    \
			status = REAL_GET(symbol) args;     \
		} while (made_room(status, &room, -1)); \
		instantiated(exec, graph, status);      \
		return status;                          \
	}

#define OLD_PARAMS (CUgraphExec * exec, CUgraph graph, CUgraphNode * node, char *text, size_t size)
#define NEW_PARAMS (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS * params)
INSTANTIATE(cuGraphInstantiate, OLD_PARAMS, (exec, graph, node, text, size))
INSTANTIATE(cuGraphInstantiate_v2, OLD_PARAMS, (exec, graph, node, text, size))
INSTANTIATE(cuGraphInstantiateWithFlags, (CUgraphExec * exec, CUgraph graph, unsigned long long flags),
			(exec, graph, flags))
INSTANTIATE(cuGraphInstantiateWithParams, NEW_PARAMS, (exec, graph, params))
INSTANTIATE(cuGraphInstantiateWithParams_ptsz, NEW_PARAMS, (exec, graph, params))

TURBO_EXPORT CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *node,
										CUgraphExecUpdateResult *result)
{
	CUresult status;

	stats_call(HOOK_cuGraphExecUpdate);
	status = REAL(cuGraphExecUpdate)(exec, graph, node, result);
	instantiated(&exec, graph, status);
	return status;
}

TURBO_EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
	CUresult status;

	stats_call(HOOK_cuGraphExecUpdate_v2);
	status = REAL(cuGraphExecUpdate_v2)(exec, graph, info);
	instantiated(&exec, graph, status);
	return status;
}

TURBO_EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec)
{
	CUresult status;

	stats_call(HOOK_cuGraphExecDestroy);
	TELL_GRAPHS(graphs_runnable(), CUDA_SUCCESS, graphs_exec_destroyed(exec));
	status = REAL(cuGraphExecDestroy)(exec);
	return status;
}

/* ---- launches ---- */

typedef CUresult launch_fn(CUgraphExec exec, CUstream stream);

static CUresult launch_real(launch_fn *real, CUgraphExec exec, CUstream stream)
{
	struct devmem_room room = devmem_room_begin();
	CUresult status;

	do {
		status = real(exec, stream);
	} while (made_room(status, &room, -1));
	return status;
}

/* The launch fills the GPU's queue, and waits where that is full. */
static CUresult launch_followed(launch_fn *real, CUgraphExec exec, CUstream stream, CUstream on)
{
	struct graph_launch launch;
	int saved = inside_begin();
	bool followed = graphs_launch_begin(&launch, exec, on);

	inside_end(saved);
	bool waits = progress_wait_begin(FLIGHT_WAIT_GPU);
	CUresult status = launch_real(real, exec, stream);
	progress_wait_end(waits);
	saved = inside_begin();
	if (followed)
		graphs_launch_end(&launch, status);
	inside_end(saved);
	return status;
}

#define LAUNCH(symbol, on)                                          \
	TURBO_EXPORT CUresult symbol(CUgraphExec exec, CUstream stream) \
	{                                                               \
		stats_call(HOOK_##symbol);                                  \
		if (doors_on())                                             \
			doors_graph_launch(HOOK_##symbol, stream, DOOR_CALLER); \
		if (graphs_runnable() && !guard_inside())                   \
			return launch_followed(REAL(symbol), exec, stream, on); \
		return launch_real(REAL(symbol), exec, stream);             \
	}

LAUNCH(cuGraphLaunch, stream)
LAUNCH(cuGraphLaunch_ptsz, stream ? stream : CU_STREAM_PER_THREAD)

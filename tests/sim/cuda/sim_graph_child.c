/*
 * sim_graph_child.c - graphs made of graphs: clones, and children, whose nodes become the parent's when they are added.
 */
#include <stdlib.h>

#include "sim_graph.h"

static bool is_graph(const struct sim_graph *g)
{
	return g && g->magic == SIM_MAGIC_GRAPH;
}

/* The objects of `from` are the graph's, too. */
static bool objects_add(struct sim_graph *g, const struct sim_graph *from)
{
	size_t count = (size_t)(g->objects.count + from->objects.count);
	struct sim_cmd **cmds = realloc(g->objects.cmds, (count + 1) * sizeof *cmds);
	if (!cmds)
		return false;
	g->objects.cmds = cmds;
	for (int i = 0; i < from->objects.count; i++) {
		from->objects.cmds[i]->refs++;
		cmds[g->objects.count++] = from->objects.cmds[i];
	}
	return true;
}

/* All nodes of `from`, in a row behind `deps`. The last one, or NULL: out of memory. */
static struct sim_node *nodes_add(struct sim_graph *g, const struct sim_graph *from,
								  struct sim_node *const *deps, int count)
{
	struct sim_node *last = NULL;
	int n = from->count;
	for (struct sim_node *node = from->first; n-- > 0; node = node->next) {
		if (node->cmd)
			node->cmd->refs++;
		last = sim_graph_add(g, node->cmd, last ? &last : deps, last ? 1 : count);
		if (!last)
			return NULL;
	}
	return last ? last : sim_graph_add(g, NULL, deps, count);
}

static CUresult add_child(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps, size_t count,
						  CUgraph child)
{
	struct sim_graph *g = (struct sim_graph *)graph, *from = (struct sim_graph *)child;
	struct sim_node *node = NULL;
	if (!out || !is_graph(g) || !is_graph(from) || g == from || (count && !deps))
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (objects_add(g, from))
		node = nodes_add(g, from, (struct sim_node *const *)deps, (int)count);
	sim_unlock();
	*out = (CUgraphNode)node;
	return node ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
SIM_FN(cuGraphAddChildGraphNode, S_DEV,
	   (CUgraphNode * out, CUgraph g, const CUgraphNode *deps, size_t count, CUgraph child),
	   add_child(out, g, deps, count, child))

/* Of the nodes that this function can add, children alone. */
static CUresult add_node(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t count,
						 const CUgraphNodeParams *params)
{
	if (!params || params->type != CU_GRAPH_NODE_TYPE_GRAPH)
		return CUDA_ERROR_NOT_SUPPORTED;
	return add_child(out, g, deps, count, params->graph.graph);
}
SIM_FN(cuGraphAddNode, S_DEV,
	   (CUgraphNode * out, CUgraph g, const CUgraphNode *deps, size_t count, CUgraphNodeParams *params),
	   add_node(out, g, deps, count, params))
SIM_FN(cuGraphAddNode_v2, S_DEV,
	   (CUgraphNode * out, CUgraph g, const CUgraphNode *deps, const CUgraphEdgeData *edges, size_t count,
		CUgraphNodeParams *params),
	   ((void)edges, add_node(out, g, deps, count, params)))

static CUresult clone_graph(CUgraph *out, CUgraph of)
{
	struct sim_graph *from = (struct sim_graph *)of, *g;
	if (!out || !is_graph(from))
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	g = sim_graph_new();
	if (g && (!objects_add(g, from) || (from->count && !nodes_add(g, from, NULL, 0)))) {
		sim_graph_free(g);
		g = NULL;
	}
	sim_unlock();
	*out = (CUgraph)g;
	return g ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
SIM_FN(cuGraphClone, S_DEV, (CUgraph * out, CUgraph of), clone_graph(out, of))

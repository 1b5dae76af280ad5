/*
 * sim_graph.c - graphs: lists of commands that replay. A launch runs the nodes one after
 * another on its stream, in the order of their capture; a memory copy node reads its
 * source again at each launch.
 */
#include <stdlib.h>
#include <string.h>

#include "sim_graph.h"
#include "sim_graph_mem.h"

struct exec {
	uint32_t magic;
	struct sim_cmd **cmds;
	int count;
	uint32_t id;     /* for a tracer */
	unsigned traced; /* sim_trace_epoch() of a launch; 0: never launched under a tracer */
	bool whole;      /* made while graphs were recorded whole */
	struct sim_objects objects;
	struct sim_op *last; /* launches of one executable graph follow each other */
};

struct sim_graph *sim_graph_new(void)
{
	struct sim_graph *g = calloc(1, sizeof *g);
	if (g) {
		g->magic = SIM_MAGIC_GRAPH;
		g->tail = &g->first;
	}
	return g;
}

void sim_graph_free(struct sim_graph *g)
{
	for (struct sim_node *n = g->first, *next; n; n = next) {
		next = n->next;
		sim_cmd_put(n->cmd);
		free(n->deps);
		free(n);
	}
	sim_objects_clear(&g->objects);
	g->magic = 0;
	free(g);
}

struct sim_node *sim_graph_add(struct sim_graph *g, struct sim_cmd *cmd, struct sim_node *const *deps,
							   int count)
{
	struct sim_node *n = calloc(1, sizeof *n);
	struct sim_node **copy = calloc((size_t)count + 1, sizeof *copy);
	if (!n || !copy) {
		free(n);
		free(copy);
		return NULL;
	}
	if (count)
		memcpy(copy, deps, (size_t)count * sizeof *copy);
	n->cmd = cmd;
	n->deps = copy;
	n->dep_count = count;
	*g->tail = n;
	g->tail = &n->next;
	g->count++;
	return n;
}

static bool is_graph(const struct sim_graph *g)
{
	return g && g->magic == SIM_MAGIC_GRAPH;
}
static bool is_exec(const struct exec *x)
{
	return x && x->magic == SIM_MAGIC_EXEC;
}

CUresult cuGraphCreate(CUgraph *out, unsigned int flags)
{
	SIM_ENTER(cuGraphCreate, S_CTX);
	if (!out || flags)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUgraph)sim_graph_new();
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphDestroy(CUgraph graph)
{
	SIM_ENTER(cuGraphDestroy, S_DEV);
	if (!is_graph((struct sim_graph *)graph))
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	sim_graph_free((struct sim_graph *)graph);
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
	SIM_ENTER(cuGraphGetNodes, S_DEV);
	struct sim_graph *g = (struct sim_graph *)graph;
	if (!is_graph(g) || !count)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	size_t i = 0;
	for (struct sim_node *n = g->first; n; n = n->next, i++)
		if (nodes && i < *count)
			nodes[i] = (CUgraphNode)n;
	if (!nodes || i < *count)
		*count = i;
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
	SIM_ENTER(cuGraphNodeGetType, S_DEV);
	const struct sim_node *n = (struct sim_node *)node;
	if (!n || !type)
		return CUDA_ERROR_INVALID_VALUE;
	static const CUgraphNodeType types[] = {
		[CMD_NOP] = CU_GRAPH_NODE_TYPE_EMPTY,
		[CMD_COPY] = CU_GRAPH_NODE_TYPE_MEMCPY,
		[CMD_SET] = CU_GRAPH_NODE_TYPE_MEMSET,
		[CMD_KERNEL] = CU_GRAPH_NODE_TYPE_KERNEL,
		[CMD_HOST] = CU_GRAPH_NODE_TYPE_HOST,
		[CMD_CALLBACK] = CU_GRAPH_NODE_TYPE_HOST,
		[CMD_WAIT_VALUE] = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
		[CMD_WRITE_VALUE] = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
		[CMD_GRAPH_ALLOC] = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
		[CMD_GRAPH_FREE] = CU_GRAPH_NODE_TYPE_MEM_FREE,
		[CMD_WAIT_EVENT] = CU_GRAPH_NODE_TYPE_WAIT_EVENT,
		[CMD_RECORD_EVENT] = CU_GRAPH_NODE_TYPE_EVENT_RECORD,
		[CMD_WAIT_IPC] = CU_GRAPH_NODE_TYPE_WAIT_EVENT,
		[CMD_RECORD_IPC] = CU_GRAPH_NODE_TYPE_EVENT_RECORD,
	};
	*type = n->cmd ? types[n->cmd->kind] : CU_GRAPH_NODE_TYPE_EMPTY;
	return CUDA_SUCCESS;
}

/* ---- executable graphs ---- */

static void exec_clear(struct exec *x)
{
	for (int i = 0; i < x->count; i++)
		sim_cmd_put(x->cmds[i]);
	sim_objects_clear(&x->objects);
	free(x->cmds);
	x->cmds = NULL;
	x->count = 0;
}

static bool exec_fill(struct exec *x, const struct sim_graph *g)
{
	struct sim_cmd **cmds = calloc((size_t)g->count + 1, sizeof *cmds);
	if (!cmds)
		return false;
	int count = 0;
	for (struct sim_node *n = g->first; n; n = n->next) {
		if (n->cmd) {
			n->cmd->refs++;
			cmds[count++] = n->cmd;
		}
	}
	exec_clear(x);
	x->cmds = cmds;
	x->count = count;
	return sim_objects_copy(&x->objects, &g->objects);
}

static CUresult instantiate(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
	(void)flags;
	if (!out || !is_graph((struct sim_graph *)graph))
		return CUDA_ERROR_INVALID_VALUE;
	struct exec *x = calloc(1, sizeof *x);
	sim_lock();
	bool ok = x && exec_fill(x, (struct sim_graph *)graph);
	if (ok)
		x->id = ++sim.next_graph;
	sim_unlock();
	if (!ok) {
		free(x);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	x->whole = sim_trace_whole_graphs();
	x->magic = SIM_MAGIC_EXEC;
	*out = (CUgraphExec)x;
	return CUDA_SUCCESS;
}
SIM_FN(cuGraphInstantiateWithFlags, S_CTX, (CUgraphExec * out, CUgraph g, unsigned long long flags),
	   instantiate(out, g, flags))

static CUresult instantiate_old(CUgraphExec *out, CUgraph g, CUgraphNode *bad, char *text, size_t size)
{
	if (bad)
		*bad = NULL;
	if (text && size)
		*text = 0;
	return instantiate(out, g, 0);
}
SIM_FN(cuGraphInstantiate, S_CTX, (CUgraphExec * out, CUgraph g, CUgraphNode *bad, char *text, size_t size),
	   instantiate_old(out, g, bad, text, size))
SIM_FN(cuGraphInstantiate_v2, S_CTX,
	   (CUgraphExec * out, CUgraph g, CUgraphNode *bad, char *text, size_t size),
	   instantiate_old(out, g, bad, text, size))

static CUresult instantiate_params(bool per_thread, CUgraphExec *out, CUgraph g,
								   CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
	(void)per_thread;
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = instantiate(out, g, p->flags);
	p->hErrNode_out = NULL;
	p->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
	return result;
}
SIM_TWIN(cuGraphInstantiateWithParams, _ptsz, S_DEV,
		 (CUgraphExec * out, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS *p), instantiate_params, out, g, p)

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
	SIM_ENTER(cuGraphExecDestroy, S_DEV);
	struct exec *x = (struct exec *)exec;
	if (!is_exec(x))
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	exec_clear(x); /* a launch under way holds its own references */
	sim_op_put(x->last);
	x->magic = 0;
	free(x);
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
	SIM_ENTER(cuGraphExecUpdate_v2, S_CTX);
	struct exec *x = (struct exec *)exec;
	struct sim_graph *g = (struct sim_graph *)graph;
	if (!is_exec(x) || !is_graph(g) || !info)
		return CUDA_ERROR_INVALID_VALUE;
	memset(info, 0, sizeof *info);
	CUresult result = CUDA_SUCCESS;
	sim_lock();
	int i = 0;
	for (struct sim_node *n = g->first; n; n = n->next)
		if (n->cmd && (i == x->count || x->cmds[i++]->kind != n->cmd->kind))
			result = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
	if (i != x->count)
		result = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
	if (result == CUDA_SUCCESS && !exec_fill(x, g))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	sim_unlock();
	info->result =
		result == CUDA_SUCCESS ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
	return result;
}

/* What CUPTI has made of a graph does not survive cuptiFinalize: seen on an H200. Which error it is was not. */
static CUresult launch_traced(struct exec *x, struct sim_ctx *ctx)
{
	unsigned now = sim_trace_epoch();
	if (x->traced && x->traced != now) {
		sim_complain("launch of a graph that was launched before cuptiFinalize");
		sim_ctx_stick(ctx, CUDA_ERROR_LAUNCH_FAILED);
		return CUDA_ERROR_LAUNCH_FAILED;
	}
	x->traced = now;
	/* A real one dies of a signal (H200, CUPTI 13.0.1). */
	if (!x->whole && sim_trace_whole_graphs()) {
		sim_complain("launch under CUPTI_ACTIVITY_KIND_GRAPH_TRACE of a graph that was made without it");
		sim_ctx_stick(ctx, CUDA_ERROR_LAUNCH_FAILED);
		return CUDA_ERROR_LAUNCH_FAILED;
	}
	return CUDA_SUCCESS;
}

/* keep may be NULL. */
static CUresult submit_keep(struct sim_stream *s, struct sim_cmd *keep, struct sim_op **op)
{
	if (!keep)
		return CUDA_SUCCESS;
	sim_op_put(*op);
	return sim_submit(s, keep, op);
}

static CUresult launch(bool per_thread, CUgraphExec exec, CUstream stream)
{
	struct exec *x = (struct exec *)exec;
	if (!is_exec(x))
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_stream *s;
	struct sim_op *op = NULL;
	sim_lock();
	CUresult result = sim_stream_get(stream, per_thread, &s);
	if (result == CUDA_SUCCESS && !s->capture)
		result = launch_traced(x, s->ctx);
	/* An empty node first: it waits for the launch before this one. */
	if (result == CUDA_SUCCESS && !s->capture)
		result = sim_submit_after(s, sim_cmd_new(CMD_NOP), &x->last, x->last ? 1 : 0, &op);
	if (result == CUDA_SUCCESS && s->capture)
		result = sim_capture_refuse(s);
	bool pageable = false;
	for (int i = 0; i < x->count && result == CUDA_SUCCESS; i++) {
		pageable = pageable || (x->cmds[i]->kind == CMD_COPY && x->cmds[i]->copy.pageable);
		sim_op_put(op);
		x->cmds[i]->refs++;
		sim_thread.graph = x->id;
		sim_thread.node = (uint32_t)i + 1;
		result = sim_submit(s, x->cmds[i], &op);
		sim_thread.graph = sim_thread.node = 0;
	}
	if (result == CUDA_SUCCESS && is_exec(x))
		result = submit_keep(s, sim_graph_mem_keep(x->cmds, x->count), &op);
	if (result == CUDA_SUCCESS && is_exec(x))
		result = submit_keep(s, sim_objects_keep(&x->objects), &op);
	if (op) {
		sim_op_put(x->last);
		x->last = sim_op_get(op);
		if (pageable)
			sim_op_wait(op);
		sim_op_put(op);
	}
	sim_unlock();
	return result;
}
SIM_TWIN(cuGraphLaunch, _ptsz, S_DEV, (CUgraphExec x, CUstream s), launch, x, s)

static CUresult upload(bool per_thread, CUgraphExec exec, CUstream stream)
{
	struct sim_stream *s;
	if (!is_exec((struct exec *)exec))
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	CUresult result = sim_stream_get(stream, per_thread, &s);
	if (result == CUDA_SUCCESS && s->capture)
		result = sim_capture_refuse(s);
	else if (result == CUDA_SUCCESS)
		result = sim_submit(s, sim_cmd_new(CMD_NOP), NULL);
	sim_unlock();
	return result;
}
SIM_TWIN(cuGraphUpload, _ptsz, S_DEV, (CUgraphExec x, CUstream s), upload, x, s)

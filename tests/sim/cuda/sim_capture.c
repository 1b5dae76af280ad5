/*
 * sim_capture.c - the rules of stream capture.
 *
 * A capturing stream has a frontier: the nodes that its next node depends on. An event
 * recorded in it carries the frontier to other streams, which so join the capture.
 */
#include <stdlib.h>
#include <string.h>

#include "sim_graph.h"

static struct sim_capture *captures; /* begun and not yet ended */

static void capture_put(struct sim_capture *c)
{
	if (c && --c->refs == 0)
		free(c);
}

static void invalidate(struct sim_capture *c)
{
	if (c->graph)
		c->invalidated = true;
}

static bool frontier_set(struct sim_node ***list, int *count, struct sim_node *const *from, int n)
{
	struct sim_node **copy = malloc((size_t)(n ? n : 1) * sizeof *copy);
	if (!copy)
		return false;
	if (n)
		memcpy(copy, from, (size_t)n * sizeof *copy);
	free(*list);
	*list = copy;
	*count = n;
	return true;
}

static bool frontier_add(struct sim_stream *s, struct sim_node *const *from, int n)
{
	struct sim_node **list = realloc(s->frontier, (size_t)(s->frontier_count + n + 1) * sizeof *list);
	if (!list)
		return false;
	s->frontier = list;
	for (int i = 0; i < n; i++) {
		bool have = false;
		for (int j = 0; j < s->frontier_count; j++)
			have = have || list[j] == from[i];
		if (!have)
			list[s->frontier_count++] = from[i];
	}
	return true;
}

static void leave(struct sim_stream *s)
{
	capture_put(s->capture);
	s->capture = NULL;
	free(s->frontier);
	s->frontier = NULL;
	s->frontier_count = 0;
}

/* All streams leave; the graph stays with the caller. */
static void capture_end(struct sim_capture *c)
{
	for (struct sim_ctx *ctx = sim.contexts; ctx; ctx = ctx->next)
		for (struct sim_stream *s = ctx->streams; s; s = s->next)
			if (s->capture == c)
				leave(s);
	for (struct sim_capture **p = &captures; *p; p = &(*p)->next) {
		if (*p == c) {
			*p = c->next;
			break;
		}
	}
	c->graph = NULL;
	__atomic_sub_fetch(&sim.live_captures, 1, __ATOMIC_RELEASE);
	capture_put(c);
}

/* ---- rules asked for by the other files ---- */

CUresult sim_capture_unsafe_locked(void)
{
	if (sim_thread.capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_SUCCESS;
	uint64_t me = sim_thread_id();
	CUresult result = CUDA_SUCCESS;
	for (struct sim_capture *c = captures; c; c = c->next) {
		bool mine = c->thread == me && c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
		bool global = c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
					  sim_thread.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
		if (mine || global) {
			invalidate(c);
			result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	}
	return result;
}

CUresult sim_capture_unsafe(void)
{
	sim_lock();
	CUresult result = sim_capture_unsafe_locked();
	sim_unlock();
	return result;
}

CUresult sim_capture_host_looks(struct sim_stream *s)
{
	if (s->capture)
		return sim_capture_refuse(s);
	if (s->legacy && sim_capture_implicit(s->ctx))
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	return sim_capture_unsafe_locked();
}

CUresult sim_capture_refuse(struct sim_stream *s)
{
	invalidate(s->capture);
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

bool sim_capture_implicit(struct sim_ctx *ctx)
{
	bool found = false;
	for (struct sim_stream *s = ctx->streams; s; s = s->next) {
		if (s->blocking && s->capture) {
			invalidate(s->capture);
			found = true;
		}
	}
	return found;
}

bool sim_capture_in_ctx(struct sim_ctx *ctx)
{
	bool found = false;
	for (struct sim_stream *s = ctx->streams; s; s = s->next) {
		if (s->capture) {
			invalidate(s->capture);
			found = true;
		}
	}
	return found;
}

CUresult sim_capture_add(struct sim_stream *s, struct sim_cmd *cmd)
{
	struct sim_capture *c = s->capture;
	CUresult result = c->invalidated ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
	struct sim_node *node = NULL;
	if (result == CUDA_SUCCESS) {
		node = sim_graph_add(c->graph, cmd, s->frontier, s->frontier_count);
		if (!node || !frontier_set(&s->frontier, &s->frontier_count, &node, 1))
			result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (!node)
		sim_cmd_put(cmd);
	return result;
}

CUresult sim_capture_record(struct sim_stream *s, struct sim_event *e)
{
	if (s->capture->invalidated)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	sim_capture_forget_event(e);
	if (!frontier_set(&e->nodes, &e->node_count, s->frontier, s->frontier_count))
		return CUDA_ERROR_OUT_OF_MEMORY;
	e->capture = s->capture;
	e->capture->refs++;
	return CUDA_SUCCESS;
}

CUresult sim_capture_wait_event(struct sim_stream *s, struct sim_event *e)
{
	struct sim_capture *from = e->capture, *to = s->capture;
	if (s->legacy && sim_capture_implicit(s->ctx))
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	if (to && to->invalidated)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (!from) {
		if (!sim_event_recorded(e))
			return CUDA_SUCCESS; /* never recorded */
		invalidate(to);
		return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	}
	if (!from->graph)
		return CUDA_ERROR_INVALID_VALUE;
	if (from->invalidated)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (to && to != from) {
		invalidate(to);
		invalidate(from);
		return CUDA_ERROR_STREAM_CAPTURE_MERGE;
	}
	if (s->legacy) {
		invalidate(from);
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	if (!to) {
		s->capture = from;
		from->refs++;
	}
	return frontier_add(s, e->nodes, e->node_count) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_capture_event_used(struct sim_event *e)
{
	if (!e->capture->graph) /* that capture has ended */
		return CUDA_ERROR_INVALID_VALUE;
	invalidate(e->capture);
	return CUDA_ERROR_CAPTURED_EVENT;
}

void sim_capture_stream_gone(struct sim_stream *s)
{
	struct sim_capture *c = s->capture;
	if (!c)
		return;
	invalidate(c);
	if (c->origin != s) {
		leave(s);
		return;
	}
	struct sim_graph *graph = c->to_graph ? NULL : c->graph;
	capture_end(c);
	if (graph)
		sim_graph_free(graph);
}

void sim_capture_forget_event(struct sim_event *e)
{
	free(e->nodes);
	e->nodes = NULL;
	e->node_count = 0;
	capture_put(e->capture);
	e->capture = NULL;
}

/* ---- begin and end ---- */

static CUresult begin_locked(struct sim_stream *s, CUstreamCaptureMode mode, struct sim_graph *graph,
							 struct sim_node *const *deps, size_t count)
{
	if (s->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (s->legacy)
		return sim_capture_implicit(s->ctx) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
											: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	struct sim_capture *c = calloc(1, sizeof *c);
	if (!c || !frontier_set(&s->frontier, &s->frontier_count, deps, (int)count)) {
		free(c);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	c->graph = graph ? graph : sim_graph_new();
	if (!c->graph) {
		free(c);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	c->refs = 2;
	c->to_graph = graph != NULL;
	c->mode = mode;
	c->thread = sim_thread_id();
	c->id = sim.next_id++;
	c->origin = s;
	c->next = captures;
	captures = c;
	s->capture = c;
	__atomic_add_fetch(&sim.live_captures, 1, __ATOMIC_RELEASE);
	return CUDA_SUCCESS;
}

static CUresult begin(bool per_thread, CUstream handle, CUstreamCaptureMode mode, CUgraph graph,
					  const CUgraphNode *deps, size_t count, bool to_graph)
{
	struct sim_graph *g = (struct sim_graph *)graph;
	if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED || (to_graph && (!g || g->magic != SIM_MAGIC_GRAPH)))
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_stream *s;
	sim_lock();
	CUresult result = sim_stream_get(handle, per_thread, &s);
	if (result == CUDA_SUCCESS)
		result = begin_locked(s, mode, g, (struct sim_node *const *)deps, count);
	sim_unlock();
	return result;
}
SIM_TWIN(cuStreamBeginCapture, _ptsz, S_DEV, (CUstream s), begin, s, CU_STREAM_CAPTURE_MODE_GLOBAL, NULL,
		 NULL, 0, false)
SIM_TWIN(cuStreamBeginCapture_v2, _ptsz, S_DEV, (CUstream s, CUstreamCaptureMode mode), begin, s, mode, NULL,
		 NULL, 0, false)
SIM_TWIN(cuStreamBeginCaptureToGraph, _ptsz, S_DEV,
		 (CUstream s, CUgraph g, const CUgraphNode *deps, const CUgraphEdgeData *edges, size_t n,
		  CUstreamCaptureMode mode),
		 begin, s, mode, g, deps, edges || deps ? n : 0, true)

/* Marks everything the nodes depend on, themselves included. */
static void walk(struct sim_node *const *from, int count, unsigned mark)
{
	for (int i = 0; i < count; i++) {
		if (from[i]->mark == mark)
			continue;
		from[i]->mark = mark;
		walk(from[i]->deps, from[i]->dep_count, mark);
	}
}

/* Every stream that joined must have been waited for by the origin. */
static bool all_joined(const struct sim_capture *c)
{
	static unsigned walks;
	const struct sim_stream *origin = c->origin;
	walk(origin->frontier, origin->frontier_count, ++walks);
	for (struct sim_ctx *ctx = sim.contexts; ctx; ctx = ctx->next)
		for (struct sim_stream *s = ctx->streams; s; s = s->next)
			for (int i = 0; s->capture == c && i < s->frontier_count; i++)
				if (s->frontier[i]->mark != walks)
					return false;
	return true;
}

static CUresult end_locked(struct sim_stream *s, CUgraph *out)
{
	struct sim_capture *c = s->capture;
	if (s->legacy && sim_capture_implicit(s->ctx))
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	if (!c)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (c->origin != s) {
		invalidate(c);
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	}
	/* Whatever the answer, the capture is over. */
	bool wrong_thread = c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->thread != sim_thread_id();
	CUresult result = c->invalidated  ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
					  : wrong_thread  ? CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD
					  : all_joined(c) ? CUDA_SUCCESS
									  : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	struct sim_graph *graph = c->graph;
	bool own = !c->to_graph;
	capture_end(c);
	if (result == CUDA_SUCCESS)
		*out = (CUgraph)graph;
	else if (own)
		sim_graph_free(graph);
	return result;
}

static CUresult end(bool per_thread, CUstream handle, CUgraph *out)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = NULL;
	struct sim_stream *s;
	sim_lock();
	CUresult result = sim_stream_get(handle, per_thread, &s);
	if (result == CUDA_SUCCESS)
		result = end_locked(s, out);
	sim_unlock();
	return result;
}
SIM_TWIN(cuStreamEndCapture, _ptsz, S_DEV, (CUstream s, CUgraph *out), end, s, out)

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	SIM_ENTER(cuThreadExchangeStreamCaptureMode, S_DEV);
	if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	CUstreamCaptureMode old = sim_thread.capture_mode;
	sim_thread.capture_mode = *mode;
	*mode = old;
	return CUDA_SUCCESS;
}

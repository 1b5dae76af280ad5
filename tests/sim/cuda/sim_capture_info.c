/*
 * sim_capture_info.c - questions about a stream's capture, and changing its frontier.
 */
#include <stdlib.h>
#include <string.h>

#include "sim_graph.h"

static CUstreamCaptureStatus status_of(const struct sim_stream *s)
{
	if (!s->capture)
		return CU_STREAM_CAPTURE_STATUS_NONE;
	return s->capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

/* Asking about the legacy stream while a blocking stream captures is an error that
 * breaks nothing. */
static bool blocked(const struct sim_stream *s)
{
	for (struct sim_stream *other = s->ctx->streams; s->legacy && other; other = other->next)
		if (other->blocking && other->capture)
			return true;
	return false;
}

struct answer {
	CUstreamCaptureStatus *status;
	cuuint64_t *id;
	CUgraph *graph;
	const CUgraphNode **deps;
	const CUgraphEdgeData **edges;
	size_t *count;
};

static CUresult info(bool per_thread, CUstream handle, struct answer a)
{
	if (!a.status)
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_stream *s;
	sim_lock();
	CUresult result = sim_stream_get(handle, per_thread, &s);
	if (result == CUDA_SUCCESS)
		result = __atomic_load_n(&s->ctx->sticky, __ATOMIC_ACQUIRE);
	if (result == CUDA_SUCCESS && blocked(s))
		result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	if (result == CUDA_SUCCESS) {
		*a.status = status_of(s);
		if (*a.status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
			if (a.id)
				*a.id = s->capture->id;
			if (a.graph)
				*a.graph = (CUgraph)s->capture->graph;
			if (a.deps)
				*a.deps = (const CUgraphNode *)s->frontier;
			if (a.edges)
				*a.edges = NULL;
			if (a.count)
				*a.count = (size_t)s->frontier_count;
		}
	}
	sim_unlock();
	return result;
}

static CUresult info1(bool pt, CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id)
{
	return info(pt, s, (struct answer){.status = status, .id = id});
}
static CUresult info2(bool pt, CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *g,
					  const CUgraphNode **deps, const CUgraphEdgeData **edges, size_t *n)
{
	return info(pt, s, (struct answer){status, id, g, deps, edges, n});
}
SIM_TWIN(cuStreamIsCapturing, _ptsz, S_HOST, (CUstream s, CUstreamCaptureStatus *status), info1, s, status,
		 NULL)
SIM_TWIN(cuStreamGetCaptureInfo, _ptsz, S_DEV, (CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id),
		 info1, s, status, id)
SIM_TWIN(cuStreamGetCaptureInfo_v2, _ptsz, S_DEV,
		 (CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *g, const CUgraphNode **deps,
		  size_t *n),
		 info2, s, status, id, g, deps, NULL, n)
SIM_TWIN(cuStreamGetCaptureInfo_v3, _ptsz, S_DEV,
		 (CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *g, const CUgraphNode **deps,
		  const CUgraphEdgeData **edges, size_t *n),
		 info2, s, status, id, g, deps, edges, n)

static CUresult update(bool per_thread, CUstream handle, CUgraphNode *deps, size_t n, unsigned flags)
{
	if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (n && !deps))
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_stream *s;
	sim_lock();
	CUresult result = sim_stream_get(handle, per_thread, &s);
	if (result == CUDA_SUCCESS && status_of(s) != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		result = CUDA_ERROR_ILLEGAL_STATE;
	if (result == CUDA_SUCCESS) {
		size_t keep = flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES ? (size_t)s->frontier_count : 0;
		struct sim_node **list = realloc(s->frontier, (keep + n + 1) * sizeof *list);
		if (list) {
			if (n)
				memcpy(list + keep, deps, n * sizeof *list);
			s->frontier = list;
			s->frontier_count = (int)(keep + n);
		} else {
			result = CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	sim_unlock();
	return result;
}
SIM_TWIN(cuStreamUpdateCaptureDependencies, _ptsz, S_DEV,
		 (CUstream s, CUgraphNode *deps, size_t n, unsigned flags), update, s, deps, n, flags)
SIM_TWIN(cuStreamUpdateCaptureDependencies_v2, _ptsz, S_DEV,
		 (CUstream s, CUgraphNode *deps, const CUgraphEdgeData *edges, size_t n, unsigned flags), update, s,
		 deps, edges || n ? n : 0, flags)

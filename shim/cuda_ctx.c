/*
 * cuda_ctx.c - the driver calls that begin and end things: the driver itself,
 * captures, streams. Contexts: cuda_ctx_end.c.
 *
 * Bodies are thin: count, guard, policy, real call. A call made by libturbo itself
 * goes straight to the real function. errno is as the real call left it.
 */
#include <cuda.h>

#include "capture.h"
#include "doors.h"
#include "inside.h"
#include "life.h"
#include "real.h"
#include "stats.h"
#include "tell_trace.h"
#include "../policy/devmem/devmem.h"
#include "../policy/nccl/graphs.h"

TURBO_EXPORT CUresult cuInit(unsigned int flags)
{
	CUresult status;

	stats_call(HOOK_cuInit);
	real_drop_unloaded(); /* a driver that was unloaded before its first use */
	status = REAL(cuInit)(flags);
	if (status == CUDA_SUCCESS && !guard_inside()) {
		int saved = inside_begin();
		life_cuda_ready();
		inside_end(saved);
	}
	return status;
}

/* ---- captures ---- */

/*
 * capture.h hears of a capture before the driver does: between the two no thread of
 * ours may start an unsafe call that would break it. A begin that fails is taken back,
 * unless the stream was capturing already.
 */
static bool capture_begin(CUstream stream, bool per_thread)
{
	bool noted;
	int saved;

	if (guard_inside() || !life_cuda())
		return false;
	saved = inside_begin();
	noted = capture_note_begin(stream, per_thread);
	inside_end(saved);
	return noted;
}

static void capture_end(CUstream stream, bool per_thread, CUresult status)
{
	int saved;

	if (guard_inside() || !life_cuda())
		return;
	saved = inside_begin();
	if (status == CUDA_SUCCESS)
		capture_note_end(stream, per_thread);
	else
		capture_note_end_failed(stream, per_thread);
	inside_end(saved);
}

/* Memory freed on it is still in its order: a mark can be recorded only now. */
static void stream_going(CUstream stream)
{
	int saved;

	if (guard_inside() || !life_cuda())
		return;
	saved = inside_begin();
	devmem_stream_gone(stream);
	inside_end(saved);
}

/* Destroying a stream ends its capture. */
static void stream_gone(CUstream stream, CUresult status)
{
	int saved;

	if (status != CUDA_SUCCESS || guard_inside() || !life_cuda())
		return;
	saved = inside_begin();
	capture_note_stream_gone(stream);
	inside_end(saved);
}

#define BEGIN_CAPTURE(symbol, stream, per_thread, ...)     \
	do {                                                   \
		CUresult status;                                   \
		bool noted;                                        \
		stats_call(HOOK_##symbol);                         \
		DOOR_WAITS();                                      \
		noted = capture_begin(stream, per_thread);         \
		status = REAL(symbol)(__VA_ARGS__);                \
		if (noted && status != CUDA_SUCCESS)               \
			capture_end(stream, per_thread, CUDA_SUCCESS); \
		return status;                                     \
	} while (0)

TURBO_EXPORT CUresult cuStreamBeginCapture(CUstream stream)
{
	BEGIN_CAPTURE(cuStreamBeginCapture, stream, false, stream);
}

TURBO_EXPORT CUresult cuStreamBeginCapture_ptsz(CUstream stream)
{
	BEGIN_CAPTURE(cuStreamBeginCapture_ptsz, stream, true, stream);
}

TURBO_EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
	BEGIN_CAPTURE(cuStreamBeginCapture_v2, stream, false, stream, mode);
}

TURBO_EXPORT CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode)
{
	BEGIN_CAPTURE(cuStreamBeginCapture_v2_ptsz, stream, true, stream, mode);
}

TURBO_EXPORT CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *deps,
												  const CUgraphEdgeData *data, size_t count,
												  CUstreamCaptureMode mode)
{
	BEGIN_CAPTURE(cuStreamBeginCaptureToGraph, stream, false, stream, graph, deps, data, count, mode);
}

TURBO_EXPORT CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
													   const CUgraphNode *deps, const CUgraphEdgeData *data,
													   size_t count, CUstreamCaptureMode mode)
{
	BEGIN_CAPTURE(cuStreamBeginCaptureToGraph_ptsz, stream, true, stream, graph, deps, data, count, mode);
}

/* Before the call and after it: collectives that were captured are the graph's now. */
static uint64_t graph_ending(CUstream stream)
{
	if (!graphs_noted() || guard_inside())
		return 0;
	int saved = inside_begin();
	uint64_t capture = graphs_capture_ending(stream);
	inside_end(saved);
	return capture;
}

static void graph_ended(uint64_t capture, const CUgraph *graph, CUresult status)
{
	if (!graphs_noted() || guard_inside())
		return;
	int saved = inside_begin();
	graphs_capture_ended(capture, status == CUDA_SUCCESS ? *graph : NULL);
	inside_end(saved);
}

#define END_CAPTURE(symbol, per_thread, on)                       \
	TURBO_EXPORT CUresult symbol(CUstream stream, CUgraph *graph) \
	{                                                             \
		CUresult status;                                          \
		stats_call(HOOK_##symbol);                                \
		DOOR_STREAM_OF(symbol, stream);                           \
		uint64_t capture = graph_ending(on);                      \
		status = REAL(symbol)(stream, graph);                     \
		capture_end(stream, per_thread, status);                  \
		graph_ended(capture, graph, status);                      \
		return status;                                            \
	}

END_CAPTURE(cuStreamEndCapture, false, stream)
END_CAPTURE(cuStreamEndCapture_ptsz, true, stream ? stream : CU_STREAM_PER_THREAD)

TURBO_EXPORT CUresult cuStreamDestroy(CUstream stream)
{
	CUresult status;

	stats_call(HOOK_cuStreamDestroy);
	if (doors_on())
		doors_stream_gone(stream, DOOR_CALLER);
	TELL_TRACE(true, devmem_trace_destroy(stream));
	stream_going(stream);
	status = REAL(cuStreamDestroy)(stream);
	stream_gone(stream, status);
	return status;
}

TURBO_EXPORT CUresult cuStreamDestroy_v2(CUstream stream)
{
	CUresult status;

	stats_call(HOOK_cuStreamDestroy_v2);
	if (doors_on())
		doors_stream_gone(stream, DOOR_CALLER);
	TELL_TRACE(true, devmem_trace_destroy(stream));
	stream_going(stream);
	status = REAL(cuStreamDestroy_v2)(stream);
	stream_gone(stream, status);
	return status;
}

/*
 * cuda_ctx.c - the driver calls that begin and end things: the driver itself,
 * captures, streams, contexts.
 *
 * Bodies are thin: count, guard, policy, real call. A call made by libturbo itself
 * goes straight to the real function. errno is as the real call left it.
 */
#include <cuda.h>
#include <errno.h>

#include "capture.h"
#include "guard.h"
#include "life.h"
#include "real.h"
#include "stats.h"
#include "tell_trace.h"
#include "../policy/policy.h"
#include "../policy/devmem/devmem.h"

/* Around what is ours; leave() takes the errno that enter() returned. */
static int enter(void)
{
	guard_enter();
	return errno;
}

static void leave(int saved)
{
	errno = saved;
	guard_leave();
}

TURBO_EXPORT CUresult cuInit(unsigned int flags)
{
	CUresult status;

	stats_call(HOOK_cuInit);
	real_drop_unloaded(); /* a driver that was unloaded before its first use */
	status = REAL(cuInit)(flags);
	if (status == CUDA_SUCCESS && !guard_inside()) {
		int saved = enter();
		life_cuda_ready();
		leave(saved);
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
	saved = enter();
	noted = capture_note_begin(stream, per_thread);
	leave(saved);
	return noted;
}

static void capture_end(CUstream stream, bool per_thread, CUresult status)
{
	int saved;

	if (guard_inside() || !life_cuda())
		return;
	saved = enter();
	if (status == CUDA_SUCCESS)
		capture_note_end(stream, per_thread);
	else
		capture_note_end_failed(stream, per_thread);
	leave(saved);
}

/* Memory freed on it is still in its order: a mark can be recorded only now. */
static void stream_going(CUstream stream)
{
	int saved;

	if (guard_inside() || !life_cuda())
		return;
	saved = enter();
	devmem_stream_gone(stream);
	leave(saved);
}

/* Destroying a stream ends its capture. */
static void stream_gone(CUstream stream, CUresult status)
{
	int saved;

	if (status != CUDA_SUCCESS || guard_inside() || !life_cuda())
		return;
	saved = enter();
	capture_note_stream_gone(stream);
	leave(saved);
}

#define BEGIN_CAPTURE(symbol, stream, per_thread, ...)     \
	do {                                                   \
		CUresult status;                                   \
		bool noted;                                        \
		stats_call(HOOK_##symbol);                         \
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

TURBO_EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	CUresult status;

	stats_call(HOOK_cuStreamEndCapture);
	status = REAL(cuStreamEndCapture)(stream, graph);
	capture_end(stream, false, status);
	return status;
}

TURBO_EXPORT CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
	CUresult status;

	stats_call(HOOK_cuStreamEndCapture_ptsz);
	status = REAL(cuStreamEndCapture_ptsz)(stream, graph);
	capture_end(stream, true, status);
	return status;
}

TURBO_EXPORT CUresult cuStreamDestroy(CUstream stream)
{
	CUresult status;

	stats_call(HOOK_cuStreamDestroy);
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
	TELL_TRACE(true, devmem_trace_destroy(stream));
	stream_going(stream);
	status = REAL(cuStreamDestroy_v2)(stream);
	stream_gone(stream, status);
	return status;
}

/* ---- contexts ---- */

static void context_gone(CUcontext ctx, CUdevice device)
{
	int saved;

	if (guard_inside() || !life_cuda() || (!ctx && device < 0)) /* cuCtxDestroy(NULL) */
		return;
	saved = enter();
	capture_context_gone(ctx, device);
	policies_context_gone(ctx, device);
	leave(saved);
}

/* Before the real call: the policies' own handles still exist and can be given back. */
TURBO_EXPORT CUresult cuCtxDestroy(CUcontext ctx)
{
	stats_call(HOOK_cuCtxDestroy);
	context_gone(ctx, -1);
	return REAL(cuCtxDestroy)(ctx);
}

TURBO_EXPORT CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	stats_call(HOOK_cuCtxDestroy_v2);
	context_gone(ctx, -1);
	return REAL(cuCtxDestroy_v2)(ctx);
}

/*
 * A primary context's handle cannot be asked for without retaining it, and whether a
 * release was the last one is known afterwards only: both are told after the fact, by
 * device. A context that another thread has made meanwhile makes GetState say "active";
 * it has the handle of the old one, and the policies find their own handles dead.
 */
static void primary_reset(CUdevice device, CUresult status)
{
	if (status == CUDA_SUCCESS)
		context_gone(NULL, device);
}

static void primary_released(CUdevice device, CUresult status)
{
	unsigned int flags;
	int active = 1, saved = errno;

	if (status != CUDA_SUCCESS || guard_inside() || !life_cuda() || !REAL_HAS(cuDevicePrimaryCtxGetState))
		return;
	if (REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active) == CUDA_SUCCESS && !active)
		context_gone(NULL, device);
	errno = saved;
}

/* A reset takes what libturbo keeps along with the program's own memory; it is given back before
 * where that costs no wait. */
static void before_reset(CUdevice device)
{
	int saved;

	if (guard_inside() || !life_cuda())
		return;
	saved = enter();
	devmem_resetting(device);
	leave(saved);
}

static void before_release(CUdevice device)
{
	(void)device; /* whether it is the last one is not known */
}

/* Threads of the policies' own must not use a context that is going. */
static bool quiet_begin(void)
{
	int saved;

	if (guard_inside() || !life_cuda())
		return false;
	saved = enter();
	policies_quiet(true);
	leave(saved);
	return true;
}

static void quiet_end(bool begun)
{
	int saved = errno;

	if (begun)
		policies_quiet(false);
	errno = saved;
}

#define PRIMARY(symbol, before, told)             \
	TURBO_EXPORT CUresult symbol(CUdevice device) \
	{                                             \
		CUresult status;                          \
		bool quiet;                               \
		stats_call(HOOK_##symbol);                \
		before(device);                           \
		quiet = quiet_begin();                    \
		status = REAL(symbol)(device);            \
		told(device, status);                     \
		quiet_end(quiet);                         \
		return status;                            \
	}

PRIMARY(cuDevicePrimaryCtxReset, before_reset, primary_reset)
PRIMARY(cuDevicePrimaryCtxReset_v2, before_reset, primary_reset)
PRIMARY(cuDevicePrimaryCtxRelease, before_release, primary_released)
PRIMARY(cuDevicePrimaryCtxRelease_v2, before_release, primary_released)

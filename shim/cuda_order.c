/*
 * cuda_order.c - waiting for streams and events: counted, and told to the recorder of
 * TURBO_DEVMEM_TRACE. Every call goes to the driver as it is.
 */
#include <cuda.h>

#include "capture.h"
#include "real.h"
#include "stats.h"
#include "tell_trace.h"

/* What is captured happens when a graph is launched, not now. */
static bool done(CUresult status)
{
	return status == CUDA_SUCCESS && !capture_live();
}

#define SYNCHRONIZE(symbol, per_thread)                                                 \
	TURBO_EXPORT CUresult symbol(CUstream stream)                                       \
	{                                                                                   \
		stats_call(HOOK_##symbol);                                                      \
		CUresult status = REAL(symbol)(stream);                                         \
		TELL_TRACE(done(status), devmem_trace_sync(traced_stream(stream, per_thread))); \
		return status;                                                                  \
	}

SYNCHRONIZE(cuStreamSynchronize, false)
SYNCHRONIZE(cuStreamSynchronize_ptsz, true)

#define WAIT(symbol, per_thread)                                                                     \
	TURBO_EXPORT CUresult symbol(CUstream stream, CUevent event, unsigned int flags)                 \
	{                                                                                                \
		stats_call(HOOK_##symbol);                                                                   \
		CUresult status = REAL(symbol)(stream, event, flags);                                        \
		TELL_TRACE(done(status), devmem_trace_wait_event(traced_stream(stream, per_thread), event)); \
		return status;                                                                               \
	}

WAIT(cuStreamWaitEvent, false)
WAIT(cuStreamWaitEvent_ptsz, true)

#define RECORD(symbol, per_thread)                                                              \
	TURBO_EXPORT CUresult symbol(CUevent event, CUstream stream)                                \
	{                                                                                           \
		stats_call(HOOK_##symbol);                                                              \
		CUresult status = REAL(symbol)(event, stream);                                          \
		TELL_TRACE(done(status), devmem_trace_event(event, traced_stream(stream, per_thread))); \
		return status;                                                                          \
	}

RECORD(cuEventRecord, false)
RECORD(cuEventRecord_ptsz, true)

#define RECORD_FLAGS(symbol, per_thread)                                                        \
	TURBO_EXPORT CUresult symbol(CUevent event, CUstream stream, unsigned int flags)            \
	{                                                                                           \
		stats_call(HOOK_##symbol);                                                              \
		CUresult status = REAL(symbol)(event, stream, flags);                                   \
		TELL_TRACE(done(status), devmem_trace_event(event, traced_stream(stream, per_thread))); \
		return status;                                                                          \
	}

RECORD_FLAGS(cuEventRecordWithFlags, false)
RECORD_FLAGS(cuEventRecordWithFlags_ptsz, true)

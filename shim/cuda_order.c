/*
 * cuda_order.c - waiting for streams and events: counted, and told to the recorder of
 * TURBO_DEVMEM_TRACE. Every call goes to the driver as it is; an error that lasts is told to the policy.
 */
#include <cuda.h>

#include "capture.h"
#include "real.h"
#include "stats.h"
#include "tell_failure.h"
#include "tell_trace.h"

/* What is captured happens when a graph is launched, not now. */
static bool done(CUresult status)
{
	return status == CUDA_SUCCESS && !capture_live();
}

/* A function and its twin, whose default stream is the thread's own. `params` and `args` in parentheses;
 * `tell` is one of trace.h's, about the stream `on`. */
#define ORDER(symbol, params, args, tell)  \
	ONE(symbol, false, params, args, tell) \
	ONE(symbol##_ptsz, true, params, args, tell)

#define ONE(symbol, per_thread, params, args, tell)      \
	TURBO_EXPORT CUresult symbol params                  \
	{                                                    \
		CUstream on = traced_stream(stream, per_thread); \
		stats_call(HOOK_##symbol);                       \
		CUresult status = REAL(symbol) args;             \
		tell_failure(status);                            \
		TELL_TRACE(done(status), tell);                  \
		return status;                                   \
	}

ORDER(cuStreamSynchronize, (CUstream stream), (stream), devmem_trace_sync(on))
ORDER(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags), (stream, event, flags),
	  devmem_trace_wait_event(on, event))
ORDER(cuEventRecord, (CUevent event, CUstream stream), (event, stream), devmem_trace_event(event, on))
ORDER(cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned int flags), (event, stream, flags),
	  devmem_trace_event(event, on))

TURBO_EXPORT CUresult cuEventSynchronize(CUevent event)
{
	stats_call(HOOK_cuEventSynchronize);
	CUresult status = REAL(cuEventSynchronize)(event);
	tell_failure(status);
	return status;
}

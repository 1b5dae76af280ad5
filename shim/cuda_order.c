/*
 * cuda_order.c - waiting for streams and events: counted, and told to the recorder of TURBO_DEVMEM_TRACE and,
 * where the program waits, to the timeline and the watchdog. Every call goes to the driver as it is; an error that lasts is
 * told to the policy.
 */
#include <cuda.h>

#include "capture.h"
#include "real.h"
#include "stats.h"
#include "tell_failure.h"
#include "tell_trace.h"
#include "tell_wait.h"
#include "../policy/nccl/progress.h"

/* What is captured happens when a graph is launched, not now. */
static bool done(CUresult status)
{
	return status == CUDA_SUCCESS && !capture_live();
}

/* A function and its twin, whose default stream is the thread's own. `params` and `args` in parentheses;
 * `tell` is one of trace.h's, about the stream `on`; `waits`: the program does, for the device. */
#define ORDER(symbol, waits, params, args, tell)  \
	ONE(symbol, waits, false, params, args, tell) \
	ONE(symbol##_ptsz, waits, true, params, args, tell)

#define ONE(symbol, waits, per_thread, params, args, tell)          \
	TURBO_EXPORT CUresult symbol params                             \
	{                                                               \
		CUstream on = traced_stream(stream, per_thread);            \
		uint64_t since = waits ? events_begin() : 0;                \
		stats_call(HOOK_##symbol);                                  \
		bool begun = waits && progress_wait_begin(FLIGHT_WAIT_GPU); \
		CUresult status = REAL(symbol) args;                        \
		progress_wait_end(begun);                                   \
		tell_wait(since, #symbol, status);                          \
		tell_failure(status);                                       \
		TELL_TRACE(done(status), tell);                             \
		return status;                                              \
	}

ORDER(cuStreamSynchronize, true, (CUstream stream), (stream), devmem_trace_sync(on))
ORDER(cuStreamWaitEvent, false, (CUstream stream, CUevent event, unsigned int flags), (stream, event, flags),
	  devmem_trace_wait_event(on, event))
ORDER(cuEventRecord, false, (CUevent event, CUstream stream), (event, stream), devmem_trace_event(event, on))
ORDER(cuEventRecordWithFlags, false, (CUevent event, CUstream stream, unsigned int flags),
	  (event, stream, flags), devmem_trace_event(event, on))

TURBO_EXPORT CUresult cuEventSynchronize(CUevent event)
{
	uint64_t since = events_begin();
	stats_call(HOOK_cuEventSynchronize);
	bool begun = progress_wait_begin(FLIGHT_WAIT_GPU);
	CUresult status = REAL(cuEventSynchronize)(event);
	progress_wait_end(begun);
	tell_wait(since, "cuEventSynchronize", status);
	tell_failure(status);
	return status;
}

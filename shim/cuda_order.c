/*
 * cuda_order.c - recording events, waiting for streams and events, asking them: counted, and told to the recorder of TURBO_DEVMEM_TRACE and,
 * where the program waits, to the timeline and the watchdog. Every call goes to the driver as it is, unless
 * all-gathers are pending (doors.h); an error that lasts is told to the policy.
 */
#include <cuda.h>

#include "capture.h"
#include "doors.h"
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
 * `tell` is one of trace.h's, about the stream `on`; `waits`: the program does, for the device. `before`, an expression that is true
 * when it has given `status`, and `after`, when the real call has succeeded: what it is for pending all-gathers. */
#define ORDER(symbol, waits, params, args, tell, before, after)  \
	ONE(symbol, waits, false, params, args, tell, before, after) \
	ONE(symbol##_ptsz, waits, true, params, args, tell, before, after)

#define ONE(symbol, waits, per_thread, params, args, tell, before, after) \
	TURBO_EXPORT CUresult symbol params                                   \
	{                                                                     \
		const enum hook_id id __attribute__((unused)) = HOOK_##symbol;    \
		CUstream on = traced_stream(stream, per_thread);                  \
		uint64_t since = waits ? events_begin() : 0, mark = 0;            \
		CUresult status = CUDA_SUCCESS;                                   \
		stats_call(HOOK_##symbol);                                        \
		bool taken = doors_on() && before;                                \
		bool begun = waits && progress_wait_begin(FLIGHT_WAIT_GPU);       \
		if (!taken)                                                       \
			status = REAL(symbol) args;                                   \
		progress_wait_end(begun);                                         \
		if (doors_on() && !taken && status == CUDA_SUCCESS)               \
			after;                                                        \
		(void)mark;                                                       \
		tell_wait(since, #symbol, status);                                \
		tell_failure(status);                                             \
		TELL_TRACE(done(status), tell);                                   \
		return status;                                                    \
	}

#define RECORD(flags) doors_record(id, event, stream, flags, DOOR_CALLER, &status, &mark)
#define RECORDED doors_recorded(id, event, stream, mark, DOOR_CALLER)

ORDER(cuStreamSynchronize, true, (CUstream stream), (stream), devmem_trace_sync(on),
	  (doors_stream_sync(id, stream, DOOR_CALLER), false), (void)0)
ORDER(cuStreamWaitEvent, false, (CUstream stream, CUevent event, unsigned int flags), (stream, event, flags),
	  devmem_trace_wait_event(on, event), (doors_stream_wait(id, stream, event, DOOR_CALLER), false),
	  doors_stream_waited(id, stream, event, DOOR_CALLER))
ORDER(cuEventRecord, false, (CUevent event, CUstream stream), (event, stream), devmem_trace_event(event, on),
	  RECORD(0), RECORDED)
ORDER(cuEventRecordWithFlags, false, (CUevent event, CUstream stream, unsigned int flags),
	  (event, stream, flags), devmem_trace_event(event, on), RECORD(flags), RECORDED)

TURBO_EXPORT CUresult cuEventSynchronize(CUevent event)
{
	uint64_t since = events_begin();
	stats_call(HOOK_cuEventSynchronize);
	if (doors_on())
		doors_event_sync(event, DOOR_CALLER);
	bool begun = progress_wait_begin(FLIGHT_WAIT_GPU);
	CUresult status = REAL(cuEventSynchronize)(event);
	progress_wait_end(begun);
	tell_wait(since, "cuEventSynchronize", status);
	tell_failure(status);
	return status;
}

/* ---- what only pending all-gathers are asked about ---- */

TURBO_EXPORT CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
	CUresult status;

	stats_call(HOOK_cuEventCreate);
	status = REAL(cuEventCreate)(event, flags);
	if (doors_on() && status == CUDA_SUCCESS)
		doors_event_made(*event, flags, DOOR_CALLER);
	return status;
}

TURBO_EXPORT CUresult cuEventQuery(CUevent event)
{
	stats_call(HOOK_cuEventQuery);
	if (doors_on() && doors_event_query(event, DOOR_CALLER))
		return CUDA_ERROR_NOT_READY;
	return REAL(cuEventQuery)(event);
}

#define STREAM_QUERY(symbol)                                                      \
	TURBO_EXPORT CUresult symbol(CUstream stream)                                 \
	{                                                                             \
		stats_call(HOOK_##symbol);                                                \
		if (doors_on() && doors_stream_query(HOOK_##symbol, stream, DOOR_CALLER)) \
			return CUDA_ERROR_NOT_READY;                                          \
		return REAL(symbol)(stream);                                              \
	}

STREAM_QUERY(cuStreamQuery)
STREAM_QUERY(cuStreamQuery_ptsz)

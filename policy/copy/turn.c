#include "turn.h"

#include "pause.h"
#include "real.h"

bool turn_is_legacy(const struct copy_call *call)
{
	return call->stream == CU_STREAM_LEGACY || (!call->stream && !call->per_thread);
}

static CUresult passed(CUevent event)
{
	uint64_t since = clock_ns();
	CUresult r;
	while ((r = REAL(cuEventQuery)(event)) == CUDA_ERROR_NOT_READY)
		pause_poll(since);
	return r;
}

CUresult turn_wait(const struct copy_call *call)
{
	/* An event, not cuStreamQuery: only work on the stream is ordered with the legacy or
	 * the blocking streams. Polled, because a wait inside the driver may hold up other
	 * threads' calls. */
	CUevent event;
	CUresult r = REAL(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING);
	if (r != CUDA_SUCCESS)
		return r;
	r = call->per_thread ? REAL(cuEventRecord_ptsz)(event, call->stream)
						 : REAL(cuEventRecord)(event, call->stream);
	if (r == CUDA_SUCCESS)
		r = passed(event);
	REAL(cuEventDestroy_v2)(event);
	return r;
}

/*
 * coalesce_doors.c - see coalesce.h: calls of the driver on their way past all-gathers that wait.
 *
 * While some do, whatever is submitted to the device by anybody has them launched first: a device may have one queue for
 * all streams (CUDA_DEVICE_MAX_CONNECTIONS=1), and a kernel that fills it may wait for what they bring. But for what cannot matter: records
 * behind them, waits on their stream that add nothing, and records on streams that theirs has waited for.
 */
#include <stddef.h>

#include "capture.h"
#include "coalesce.h"
#include "coalesce_held.h"
#include "coalesce_launching.h"
#include "flight_thread.h"
#include "real.h"
#include "stats.h"

/* ---- calls of the driver ---- */

void coalesce_before_stream(CUstream stream, bool per_thread, enum hook_id id)
{
	(void)stream;
	(void)per_thread;
	(void)id;
	launching(stream && stream == held_stream() ? LAUNCHING_MUST : LAUNCHING_MAY, STATS_NCCL_LAUNCH_WORK);
}

void coalesce_before_wait(void)
{
	launching(LAUNCHING_MUST, STATS_NCCL_LAUNCH_WAIT);
}

void coalesce_before_stream_sync(CUstream stream, bool per_thread)
{
	(void)per_thread;
	launching(stream && stream == held_stream() ? LAUNCHING_MUST : LAUNCHING_TRY, STATS_NCCL_LAUNCH_WAIT);
}

void coalesce_before_event_sync(CUevent event)
{
	launching(coalesce_events_queued(event) ? LAUNCHING_MUST : LAUNCHING_TRY, STATS_NCCL_LAUNCH_WAIT);
}

/* The batch's stream has waited for it already, or it is over. */
static bool adds_nothing(CUevent event)
{
	struct gather_stream *place = held_place();

	if (place && coalesce_streams_has(place, event))
		return true;
	return !capture_live() && REAL(cuEventQuery)(event) == CUDA_SUCCESS;
}

void coalesce_before_stream_wait(CUstream stream, bool per_thread, CUevent event)
{
	(void)per_thread;
	if (coalesce_events_queued(event))
		launching(LAUNCHING_MUST, STATS_NCCL_LAUNCH_WAIT);
	else if (!stream || stream != held_stream())
		launching(LAUNCHING_MAY, STATS_NCCL_LAUNCH_WORK);
	else if (!adds_nothing(event))
		launching(LAUNCHING_MUST, STATS_NCCL_LAUNCH_ORDER);
}

void coalesce_stream_waited(CUstream stream, bool per_thread, CUevent event)
{
	(void)per_thread;
	coalesce_streams_waited(stream, event);
}

void coalesce_stream_gone(CUstream stream)
{
	coalesce_streams_gone(stream);
}

bool coalesce_stream_query(CUstream stream, bool per_thread)
{
	(void)per_thread;
	return stream && stream == held_stream() && launching_pending();
}

/* ---- events ---- */

void coalesce_event_made(CUevent event, unsigned flags)
{
	CUcontext ctx = NULL;

	REAL(cuCtxGetCurrent)(&ctx);
	coalesce_events_made(event, flags, ctx);
}

bool coalesce_event_is_ours(CUevent event)
{
	return coalesce_events_find(event) != NULL;
}

bool coalesce_event_query(CUevent event)
{
	return coalesce_events_queued(event);
}

void coalesce_event_gone(CUevent event, bool destroyed)
{
	if (destroyed)
		coalesce_events_gone(event);
	else if (coalesce_events_queued(event))
		launching(LAUNCHING_MUST, STATS_NCCL_LAUNCH_WAIT);
}

/* Behind the batch; what cannot be queued has it launched. */
static bool queue_record(CUevent event, CUstream stream)
{
	struct held_event *place = coalesce_events_find(event);
	bool queued = false;

	if (flight_thread.depth || !launching_lock(LAUNCHING_MUST))
		return false;
	if (launching_pending() && stream == held_stream()) {
		queued = place && held_add_record(place, event);
		if (!queued)
			launching_locked(STATS_NCCL_LAUNCH_EVENT);
	}
	held_unlock();
	return queued;
}

bool coalesce_record(CUevent event, CUstream stream, bool per_thread, unsigned flags, CUresult *status)
{
	struct gather_stream *place = held_place();

	*status = CUDA_SUCCESS;
	if (stream && stream == held_stream()) {
		if (!flags && queue_record(event, stream))
			return true;
		launching(LAUNCHING_MUST, STATS_NCCL_LAUNCH_EVENT);
	} else if (coalesce_events_queued(event)) {
		launching(LAUNCHING_MUST, STATS_NCCL_LAUNCH_EVENT);
	} else if ((!stream && per_thread) || !place || !coalesce_streams_follows(place, stream)) {
		launching(LAUNCHING_MAY, STATS_NCCL_LAUNCH_WORK);
	}
	return false;
}

/* coalesce.c - nothing is coalesced yet: the doors are there, and nobody behind them. */
#include "coalesce.h"

/* Each on a line of its own: the one is read by every call, the other changes with every batch. */
_Atomic bool coalesce_on __attribute__((aligned(64)));
_Atomic uint32_t coalesce_pending __attribute__((aligned(64)));

bool coalesce_gather(const struct flight_call *call, const void *from, void *to, int *result)
{
	(void)call;
	(void)from;
	(void)to;
	(void)result;
	return false;
}

void coalesce_before_nccl(void *comm)
{
	(void)comm;
}

void coalesce_before_stream(CUstream stream, bool per_thread, enum hook_id id)
{
	(void)stream;
	(void)per_thread;
	(void)id;
}

void coalesce_before_stream_wait(CUstream stream, bool per_thread, CUevent event)
{
	(void)stream;
	(void)per_thread;
	(void)event;
}

void coalesce_stream_waited(CUstream stream, bool per_thread, CUevent event)
{
	(void)stream;
	(void)per_thread;
	(void)event;
}

void coalesce_before_wait(void) {}

void coalesce_event_made(CUevent event, unsigned flags)
{
	(void)event;
	(void)flags;
}

bool coalesce_record(CUevent event, CUstream stream, bool per_thread, unsigned flags, CUresult *status)
{
	(void)event;
	(void)stream;
	(void)per_thread;
	(void)flags;
	(void)status;
	return false;
}

bool coalesce_event_query(CUevent event)
{
	(void)event;
	return false;
}

bool coalesce_stream_query(CUstream stream, bool per_thread)
{
	(void)stream;
	(void)per_thread;
	return false;
}

void coalesce_event_gone(CUevent event, bool destroyed)
{
	(void)event;
	(void)destroyed;
}

void coalesce_stream_gone(CUstream stream)
{
	(void)stream;
}

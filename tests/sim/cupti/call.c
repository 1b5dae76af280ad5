/*
 * call.c - what the driver tells: calls become API, synchronization and event records and
 * callbacks.
 */
#include <string.h>
#include <unistd.h>

#include "internal.h"

static uint64_t client_now(void)
{
	CUpti_TimestampCallbackFunc clock = __atomic_load_n(&cu.clock, __ATOMIC_ACQUIRE);
	return clock ? clock() : now_ns();
}

/* ---- records of the call itself ---- */

static void put_wait(const struct sim_call *call, uint64_t end)
{
	static const CUpti_ActivitySynchronizationType types[] = {
		[TRACE_EVENT] = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE,
		[TRACE_STREAM_EVENT] = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT,
		[TRACE_STREAM] = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE,
		[TRACE_CONTEXT] = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE,
	};
	RECORD(CUpti_ActivitySynchronization2, s);
	s.r.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
	s.r.type = types[call->wait];
	s.r.start = call->start;
	s.r.end = end;
	s.r.correlationId = call->correlation;
	s.r.contextId = call->context;
	s.r.streamId = call->stream ? call->stream : CUPTI_SYNCHRONIZATION_INVALID_VALUE;
	s.r.cudaEventId = call->event ? call->event : CUPTI_SYNCHRONIZATION_INVALID_VALUE;
	if (conf.toolkit >= 120800)
		s.r.returnValue = call->result;
	record_put(&s, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, call->generation, NULL);
}

static void put_event(const struct sim_call *call)
{
	RECORD(CUpti_ActivityCudaEvent2, e);
	e.r.kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT;
	e.r.correlationId = call->correlation;
	e.r.contextId = call->context;
	e.r.streamId = call->stream;
	e.r.eventId = call->event;
	if (conf.toolkit >= 120800)
		e.r.deviceId = call->device;
	record_put(&e, CUPTI_ACTIVITY_KIND_CUDA_EVENT, call->generation, NULL);
}

static void put_external(const struct sim_call *call)
{
	for (uint32_t kind = 0; kind < sizeof me.depth / sizeof me.depth[0]; kind++) {
		if (!me.depth[kind])
			continue;
		RECORD(CUpti_ActivityExternalCorrelation, x);
		x.r.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
		x.r.externalKind = kind;
		x.r.externalId = me.external[kind][me.depth[kind] - 1];
		x.r.correlationId = call->correlation;
		record_put(&x, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, call->generation, NULL);
	}
}

static void put_api(const struct sim_call *call, uint64_t end)
{
	RECORD(CUpti_ActivityAPI, a);
	a.r.kind = call->runtime ? CUPTI_ACTIVITY_KIND_RUNTIME : CUPTI_ACTIVITY_KIND_DRIVER;
	a.r.cbid = (CUpti_CallbackId)call->id;
	a.r.start = call->start;
	a.r.end = end;
	a.r.processId = (uint32_t)getpid();
	a.r.threadId = thread_number();
	a.r.correlationId = call->correlation;
	a.r.returnValue = call->result;
	record_put(&a, a.r.kind, call->generation, NULL);
}

/* What is to be recorded of this call. */
static void wanted(const struct sim_call *call, bool *api, bool *external, bool *wait, bool *event)
{
	pthread_mutex_lock(&cu.lock);
	const bool *one_by_one = call->runtime ? cu.runtime_on : cu.driver_on;
	*api = call->id && one_by_one[call->id];
	*external = *api && kind_on(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, 0);
	*wait = call->wait && kind_on(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, call->context);
	*event = call->recorded && kind_on(CUPTI_ACTIVITY_KIND_CUDA_EVENT, call->context);
	pthread_mutex_unlock(&cu.lock);
}

/* ---- the tracer ---- */

static void enter(struct sim_call *call)
{
	if (me.inside != INSIDE_NOTHING)
		return; /* what the client does in a callback is not its program's doing */
	call->seen = true;
	call->tail = &call->items;
	call->id = cbid_of(call->symbol, call->runtime);
	pthread_mutex_lock(&cu.lock);
	call->generation = cu.generation;
	call->correlation = call->outer && call->outer->runtime && call->outer->seen ? call->outer->correlation
																				 : ++cu.correlation;
	pthread_mutex_unlock(&cu.lock);
	call->start = client_now();
	callback_run(call, CUPTI_API_ENTER);
	if (fault(FAULT_SLOW_API))
		usleep((useconds_t)fault(FAULT_SLOW_API));
}

static void leave(struct sim_call *call)
{
	if (!call->seen)
		return;
	uint64_t end = client_now();
	items_put(call);
	if (__atomic_load_n(&cu.generation, __ATOMIC_ACQUIRE) != call->generation)
		return;
	bool api, external, wait, event;
	wanted(call, &api, &external, &wait, &event);
	if (event)
		put_event(call);
	if (wait)
		put_wait(call, end);
	if (external)
		put_external(call);
	if (api)
		put_api(call, end);
	callback_run(call, CUPTI_API_EXIT);
}

static bool whole_graphs(void)
{
	return kind_on(CUPTI_ACTIVITY_KIND_GRAPH_TRACE, 0);
}

const struct sim_tracer tracer = {enter, leave, item_submitted, whole_graphs};

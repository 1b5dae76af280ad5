/*
 * activity.c - the functions that say what is to be recorded, and those that ask.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

CUptiResult cuptiGetVersion(uint32_t *version)
{
	ENTER();
	if (!version)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*version = conf.version;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetTimestamp(uint64_t *timestamp)
{
	ENTER();
	if (!timestamp)
		return CUPTI_ERROR_INVALID_PARAMETER;
	CUpti_TimestampCallbackFunc clock = __atomic_load_n(&cu.clock, __ATOMIC_ACQUIRE);
	*timestamp = clock ? clock() : now_ns();
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock)
{
	ENTER();
	if (!clock)
		return CUPTI_ERROR_INVALID_PARAMETER;
	NOT_INSIDE(INSIDE_REQUEST);
	CUptiResult result = attach();
	if (result != CUPTI_SUCCESS)
		return result;
	__atomic_store_n(&cu.clock_real_ns, now_ns(), __ATOMIC_RELAXED);
	__atomic_store_n(&cu.clock_began, clock(), __ATOMIC_RELAXED);
	__atomic_store_n(&cu.clock, clock, __ATOMIC_RELEASE);
	return result;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
										   CUpti_BuffersCallbackCompleteFunc complete)
{
	ENTER();
	if (!request || !complete)
		return CUPTI_ERROR_INVALID_PARAMETER;
	NOT_INSIDE(INSIDE_REQUEST);
	CUptiResult result = attach();
	if (result != CUPTI_SUCCESS)
		return result;
	/* Buffers that an earlier client gave are completed to this one. */
	control_take();
	pthread_mutex_lock(&cu.lock);
	cu.request = request;
	cu.complete = complete;
	pthread_mutex_unlock(&cu.lock);
	pthread_mutex_unlock(&cu.control);
	return CUPTI_SUCCESS;
}

/* ---- kinds ---- */

static void one_by_one(uint32_t kind, bool on)
{
	if (kind == CUPTI_ACTIVITY_KIND_DRIVER)
		memset(cu.driver_on, on, sizeof cu.driver_on);
	if (kind == CUPTI_ACTIVITY_KIND_RUNTIME)
		memset(cu.runtime_on, on, sizeof cu.runtime_on);
}

static CUptiResult set_kind(CUpti_ActivityKind kind, bool on)
{
	if (!kind_known(kind)) {
		complain("%s of unknown kind %d", on ? "enabling" : "disabling", (int)kind);
		return CUPTI_ERROR_INVALID_KIND;
	}
	if (on && fault(FAULT_DENY))
		return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
	control_take();
	pthread_mutex_lock(&cu.lock);
	__atomic_store_n(&cu.on[kind], on, __ATOMIC_RELAXED);
	one_by_one(kind, on);
	pthread_mutex_unlock(&cu.lock);
	pthread_mutex_unlock(&cu.control);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
	NEED_DRIVER();
	NOT_INSIDE(INSIDE_REQUEST);
	return set_kind(kind, true);
}

CUptiResult cuptiActivityEnableAndDump(CUpti_ActivityKind kind)
{
	NEED_DRIVER();
	NOT_INSIDE(INSIDE_REQUEST);
	return set_kind(kind, true);
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind)
{
	NEED_DRIVER();
	NOT_INSIDE(INSIDE_REQUEST);
	return set_kind(kind, false);
}

static CUptiResult set_in_context(CUcontext context, CUpti_ActivityKind kind, bool on)
{
	uint32_t id, device;
	if (!kind_known(kind))
		return CUPTI_ERROR_INVALID_KIND;
	if (!context || !cu.driver->context(context, &id, &device))
		return CUPTI_ERROR_INVALID_CONTEXT;
	if (on && fault(FAULT_DENY))
		return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
	control_take();
	pthread_mutex_lock(&cu.lock);
	struct setting *s = cu.settings;
	while (s && (s->kind != (uint32_t)kind || s->context != id))
		s = s->next;
	if (!s) {
		s = calloc(1, sizeof *s);
		if (!s)
			abort();
		s->kind = kind;
		s->context = id;
		s->next = cu.settings;
		cu.settings = s;
	}
	s->on = on;
	pthread_mutex_unlock(&cu.lock);
	pthread_mutex_unlock(&cu.control);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnableContext(CUcontext context, CUpti_ActivityKind kind)
{
	NEED_DRIVER();
	NOT_INSIDE(INSIDE_REQUEST);
	return set_in_context(context, kind, true);
}

CUptiResult cuptiActivityDisableContext(CUcontext context, CUpti_ActivityKind kind)
{
	NEED_DRIVER();
	NOT_INSIDE(INSIDE_REQUEST);
	return set_in_context(context, kind, false);
}

static CUptiResult set_api(bool *table, CUpti_CallbackId id, bool on)
{
	if (!id || id >= CBIDS)
		return CUPTI_ERROR_INVALID_PARAMETER;
	pthread_mutex_lock(&cu.lock);
	table[id] = on;
	pthread_mutex_unlock(&cu.lock);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId id, uint8_t enable)
{
	NEED_DRIVER();
	return set_api(cu.driver_on, id, enable != 0);
}

CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId id, uint8_t enable)
{
	NEED_DRIVER();
	return set_api(cu.runtime_on, id, enable != 0);
}

/* ---- delivering ---- */

CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
	NEED_DRIVER();
	NOT_INSIDE(INSIDE_REQUEST);
	NOT_INSIDE(INSIDE_COMPLETE);
	return flush(flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
}

CUptiResult cuptiActivityFlush(CUcontext context, uint32_t stream, uint32_t flag)
{
	(void)context;
	(void)stream;
	return cuptiActivityFlushAll(flag);
}

CUptiResult cuptiActivityFlushPeriod(uint32_t ms)
{
	NEED_DRIVER();
	pthread_mutex_lock(&cu.lock);
	cu.flush_ms = ms; /* full buffers, which is all it concerns, are given back at once anyway */
	pthread_mutex_unlock(&cu.lock);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *dropped)
{
	ENTER();
	(void)context;
	(void)stream;
	if (!dropped)
		return CUPTI_ERROR_INVALID_PARAMETER;
	pthread_mutex_lock(&cu.lock);
	*dropped = cu.dropped;
	cu.dropped = 0;
	pthread_mutex_unlock(&cu.lock);
	return CUPTI_SUCCESS;
}

/* ---- attributes ---- */

static size_t attribute_size(CUpti_ActivityAttribute attr)
{
	switch (attr) {
	case CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER:
	case CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED:
	case CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER: return 1;
	default:
		return (unsigned)attr <= CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE_DEVICE_GRAPHS ? sizeof(size_t) : 0;
	}
}

static CUptiResult attribute_check(CUpti_ActivityAttribute attr, const size_t *size, const void *value)
{
	size_t need = attribute_size(attr);
	if (!size || !value || !need)
		return CUPTI_ERROR_INVALID_PARAMETER;
	return *size < need ? CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT : CUPTI_SUCCESS;
}

CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attr, size_t *size, void *value)
{
	NEED_DRIVER();
	CUptiResult result = attribute_check(attr, size, value);
	if (result != CUPTI_SUCCESS)
		return result;
	size_t now = 0;
	memcpy(&now, value, attribute_size(attr));
	pthread_mutex_lock(&cu.lock);
	cu.attribute[attr] = now;
	if (attr == CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER)
		cu.zeroed = now != 0;
	if (attr == CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER) {
		if (cu.per_thread != (now != 0) && cu.ever_asked)
			result = CUPTI_ERROR_INVALID_OPERATION;
		else
			cu.per_thread = now != 0;
	}
	pthread_mutex_unlock(&cu.lock);
	return result;
}

CUptiResult cuptiActivityGetAttribute(CUpti_ActivityAttribute attr, size_t *size, void *value)
{
	NEED_DRIVER();
	CUptiResult result = attribute_check(attr, size, value);
	if (result != CUPTI_SUCCESS)
		return result;
	pthread_mutex_lock(&cu.lock);
	size_t now = cu.attribute[attr];
	if (attr == CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER)
		now = cu.per_thread;
	pthread_mutex_unlock(&cu.lock);
	*size = attribute_size(attr);
	memcpy(value, &now, *size);
	return CUPTI_SUCCESS;
}

/* ---- external correlation ---- */

static bool external_valid(CUpti_ExternalCorrelationKind kind)
{
	return kind > CUPTI_EXTERNAL_CORRELATION_KIND_INVALID && kind < CUPTI_EXTERNAL_CORRELATION_KIND_SIZE;
}

CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id)
{
	NEED_DRIVER();
	if (!external_valid(kind))
		return CUPTI_ERROR_INVALID_PARAMETER;
	int *depth = &me.depth[kind];
	if (*depth == (int)(sizeof me.external[0] / sizeof me.external[0][0]))
		return CUPTI_ERROR_OUT_OF_MEMORY;
	me.external[kind][(*depth)++] = id;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t *last)
{
	NEED_DRIVER();
	if (!external_valid(kind))
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (!me.depth[kind])
		return CUPTI_ERROR_QUEUE_EMPTY;
	uint64_t id = me.external[kind][--me.depth[kind]];
	if (last)
		*last = id;
	return CUPTI_SUCCESS;
}

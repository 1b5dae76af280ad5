/*
 * ask.c - ids, names of results, and switches that change nothing here.
 */
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

CUptiResult cuptiGetContextId(CUcontext context, uint32_t *id)
{
	NEED_DRIVER();
	uint32_t device;
	if (!id)
		return CUPTI_ERROR_INVALID_PARAMETER;
	return context && cu.driver->context(context, id, &device) ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_CONTEXT;
}

CUptiResult cuptiGetDeviceId(CUcontext context, uint32_t *id)
{
	NEED_DRIVER();
	uint32_t unused;
	if (!id)
		return CUPTI_ERROR_INVALID_PARAMETER;
	return cu.driver->context(context, &unused, id) ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_DEVICE;
}

CUptiResult cuptiGetStreamIdEx(CUcontext context, CUstream stream, uint8_t per_thread, uint32_t *id)
{
	NEED_DRIVER();
	uint32_t unused;
	if (!id)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (!cu.driver->context(context, &unused, &unused))
		return CUPTI_ERROR_INVALID_CONTEXT;
	return cu.driver->stream(context, stream, per_thread != 0, id) ? CUPTI_SUCCESS
																   : CUPTI_ERROR_INVALID_STREAM;
}

CUptiResult cuptiGetStreamId(CUcontext context, CUstream stream, uint32_t *id)
{
	return cuptiGetStreamIdEx(context, stream, 0, id);
}

CUptiResult cuptiGetResultString(CUptiResult result, const char **text)
{
	static const char *const names[] = {
#define N(name) [CUPTI_##name] = "CUPTI_" #name
		N(SUCCESS),
		N(ERROR_INVALID_PARAMETER),
		N(ERROR_INVALID_DEVICE),
		N(ERROR_INVALID_CONTEXT),
		N(ERROR_INVALID_OPERATION),
		N(ERROR_OUT_OF_MEMORY),
		N(ERROR_PARAMETER_SIZE_NOT_SUFFICIENT),
		N(ERROR_API_NOT_IMPLEMENTED),
		N(ERROR_MAX_LIMIT_REACHED),
		N(ERROR_NOT_READY),
		N(ERROR_NOT_COMPATIBLE),
		N(ERROR_NOT_INITIALIZED),
		N(ERROR_QUEUE_EMPTY),
		N(ERROR_INVALID_STREAM),
		N(ERROR_INVALID_KIND),
		N(ERROR_DISABLED),
		N(ERROR_NOT_SUPPORTED),
		N(ERROR_INSUFFICIENT_PRIVILEGES),
		N(ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED),
		N(ERROR_UNKNOWN),
#undef N
	};
	ENTER();
	if (!text)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*text = (unsigned)result < sizeof names / sizeof names[0] ? names[result] : NULL;
	return *text ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult cuptiGetErrorMessage(CUptiResult result, const char **text)
{
	return cuptiGetResultString(result, text);
}

CUptiResult cuptiGetLastError(void)
{
	ENTER();
	return CUPTI_SUCCESS;
}

static CUpti_ActivityThreadIdType thread_id_type = CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT; /* relaxed atomic */

CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type)
{
	ENTER();
	if ((unsigned)type >= CUPTI_ACTIVITY_THREAD_ID_TYPE_SIZE)
		return CUPTI_ERROR_INVALID_PARAMETER;
	__atomic_store_n(&thread_id_type, type, __ATOMIC_RELAXED);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetThreadIdType(CUpti_ActivityThreadIdType *type)
{
	ENTER();
	if (!type)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*type = __atomic_load_n(&thread_id_type, __ATOMIC_RELAXED);
	return CUPTI_SUCCESS;
}

uint32_t thread_number(void)
{
	if (__atomic_load_n(&thread_id_type, __ATOMIC_RELAXED) == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM)
		return (uint32_t)syscall(SYS_gettid);
	return (uint32_t)(uintptr_t)pthread_self();
}

/* What these add is not simulated: they are accepted. */
#define SWITCH(function)             \
	CUptiResult function(uint8_t on) \
	{                                \
		NEED_DRIVER();               \
		(void)on;                    \
		return CUPTI_SUCCESS;        \
	}
SWITCH(cuptiActivityEnableLatencyTimestamps)
SWITCH(cuptiActivityEnableLaunchAttributes)
SWITCH(cuptiActivityEnableDeviceGraph)
SWITCH(cuptiActivityEnableAllocationSource)
SWITCH(cuptiActivityEnableAllSyncRecords)
SWITCH(cuptiActivityEnableCudaEventDeviceTimestamps)

/* Needs hardware that the simulated device has not. */
CUptiResult cuptiActivityEnableHWTrace(uint8_t on)
{
	NEED_DRIVER();
	return on ? CUPTI_ERROR_NOT_SUPPORTED : CUPTI_SUCCESS;
}

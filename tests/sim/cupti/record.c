/*
 * record.c - how long records are, and walking them.
 */
#include "internal.h"

/* Bytes a record in this header's version, as the real library steps over them; and what it was
 * before `since`. */
static const struct layout {
	uint16_t size, before;
	uint32_t since;
} layouts[KINDS] = {
	[CUPTI_ACTIVITY_KIND_MEMCPY] = {sizeof(CUpti_ActivityMemcpy6), sizeof(CUpti_ActivityMemcpy5), 120800},
	[CUPTI_ACTIVITY_KIND_MEMSET] = {sizeof(CUpti_ActivityMemset4), 0, 0},
	[CUPTI_ACTIVITY_KIND_KERNEL] = {sizeof(CUpti_ActivityKernel10), sizeof(CUpti_ActivityKernel9), 130000},
	[CUPTI_ACTIVITY_KIND_DRIVER] = {sizeof(CUpti_ActivityAPI), 0, 0},
	[CUPTI_ACTIVITY_KIND_RUNTIME] = {sizeof(CUpti_ActivityAPI), 0, 0},
	[CUPTI_ACTIVITY_KIND_DEVICE] = {sizeof(CUpti_ActivityDevice5), 0, 0},
	[CUPTI_ACTIVITY_KIND_CONTEXT] = {sizeof(CUpti_ActivityContext3), 0, 0},
	[CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL] = {sizeof(CUpti_ActivityKernel10), sizeof(CUpti_ActivityKernel9),
											   130000},
	[CUPTI_ACTIVITY_KIND_NAME] = {sizeof(CUpti_ActivityName), 0, 0},
	[CUPTI_ACTIVITY_KIND_MARKER] = {sizeof(CUpti_ActivityMarker2), 0, 0},
	[CUPTI_ACTIVITY_KIND_MARKER_DATA] = {sizeof(CUpti_ActivityMarkerData2), 0, 0},
	[CUPTI_ACTIVITY_KIND_OVERHEAD] = {sizeof(CUpti_ActivityOverhead3), sizeof(CUpti_ActivityOverhead2),
									  120400},
	[CUPTI_ACTIVITY_KIND_CDP_KERNEL] = {sizeof(CUpti_ActivityCdpKernel), 0, 0},
	[CUPTI_ACTIVITY_KIND_PREEMPTION] = {sizeof(CUpti_ActivityPreemption), 0, 0},
	[CUPTI_ACTIVITY_KIND_ENVIRONMENT] = {sizeof(CUpti_ActivityEnvironment), 0, 0},
	[CUPTI_ACTIVITY_KIND_MEMCPY2] = {sizeof(CUpti_ActivityMemcpyPtoP4), 0, 0},
	[CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER] = {sizeof(CUpti_ActivityUnifiedMemoryCounter3), 0, 0},
	[CUPTI_ACTIVITY_KIND_FUNCTION] = {sizeof(CUpti_ActivityFunction), 0, 0},
	[CUPTI_ACTIVITY_KIND_MODULE] = {sizeof(CUpti_ActivityModule), 0, 0},
	[CUPTI_ACTIVITY_KIND_DEVICE_ATTRIBUTE] = {sizeof(CUpti_ActivityDeviceAttribute), 0, 0},
	[CUPTI_ACTIVITY_KIND_OPENACC_DATA] = {sizeof(CUpti_ActivityOpenAccData), 0, 0},
	[CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH] = {sizeof(CUpti_ActivityOpenAccLaunch), 0, 0},
	[CUPTI_ACTIVITY_KIND_OPENACC_OTHER] = {sizeof(CUpti_ActivityOpenAccOther), 0, 0},
	[CUPTI_ACTIVITY_KIND_CUDA_EVENT] = {sizeof(CUpti_ActivityCudaEvent2), sizeof(CUpti_ActivityCudaEvent),
										120800},
	[CUPTI_ACTIVITY_KIND_STREAM] = {sizeof(CUpti_ActivityStream), 0, 0},
	[CUPTI_ACTIVITY_KIND_SYNCHRONIZATION] = {sizeof(CUpti_ActivitySynchronization2),
											 sizeof(CUpti_ActivitySynchronization), 120800},
	[CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION] = {sizeof(CUpti_ActivityExternalCorrelation), 0, 0},
	[CUPTI_ACTIVITY_KIND_NVLINK] = {sizeof(CUpti_ActivityNvLink4), 0, 0},
	[CUPTI_ACTIVITY_KIND_MEMORY] = {sizeof(CUpti_ActivityMemory), 0, 0},
	[CUPTI_ACTIVITY_KIND_PCIE] = {sizeof(CUpti_ActivityPcie), 0, 0},
	[CUPTI_ACTIVITY_KIND_OPENMP] = {sizeof(CUpti_ActivityOpenMp), 0, 0},
	[CUPTI_ACTIVITY_KIND_INTERNAL_LAUNCH_API] = {sizeof(CUpti_ActivityAPI), 0, 0},
	[CUPTI_ACTIVITY_KIND_MEMORY2] = {sizeof(CUpti_ActivityMemory4), 0, 0},
	[CUPTI_ACTIVITY_KIND_MEMORY_POOL] = {sizeof(CUpti_ActivityMemoryPool3), 0, 0},
	[CUPTI_ACTIVITY_KIND_GRAPH_TRACE] = {sizeof(CUpti_ActivityGraphTrace2), sizeof(CUpti_ActivityGraphTrace),
										 120300},
	[CUPTI_ACTIVITY_KIND_JIT] = {sizeof(CUpti_ActivityJit2), 0, 0},
	[CUPTI_ACTIVITY_KIND_DEVICE_GRAPH_TRACE] = {sizeof(CUpti_ActivityDeviceGraphTrace), 0, 0},
	[CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS] = {sizeof(CUpti_ActivityMemDecompress), 0, 0},
};

bool kind_known(uint32_t kind)
{
	return kind < KINDS && layouts[kind].size;
}

size_t record_size(uint32_t kind)
{
	if (!kind_known(kind))
		return 0;
	const struct layout *l = &layouts[kind];
	return (conf.toolkit < l->since ? l->before : l->size) + conf.grow;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, CUpti_Activity **record)
{
	ENTER();
	if (!buffer || !record)
		return CUPTI_ERROR_INVALID_PARAMETER;
	const uint8_t *at = buffer, *end = buffer + valid;
	if (*record)
		at = (const uint8_t *)*record + record_size((*record)->kind);
	if (at >= end)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	size_t left = (size_t)(end - at);
	size_t size = left < sizeof(CUpti_ActivityKind) ? 0 : record_size(((const CUpti_Activity *)at)->kind);
	if (!size)
		return CUPTI_ERROR_INVALID_KIND;
	if (size > left)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	*record = (CUpti_Activity *)at;
	return CUPTI_SUCCESS;
}

bool kind_on(uint32_t kind, uint32_t context)
{
	for (const struct setting *s = cu.settings; s; s = s->next)
		if (s->kind == kind && s->context == context)
			return s->on;
	return __atomic_load_n(&cu.on[kind], __ATOMIC_RELAXED);
}

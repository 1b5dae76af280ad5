/*
 * test_timeline_decode_layout.c - the beginnings of records in cupti_abi.h are those of the header that the build has,
 * where there is one: else this does not compile.
 */
#include <stddef.h>
#include <stdint.h>

#include "cupti/cupti_abi.h"

#if __has_include(<cupti_activity.h>) && __has_include(<cupti_callbacks.h>)
#include <cupti_activity.h>
#include <cupti_callbacks.h>

#define SAME(ours, member, theirs, their_member)                                                  \
	_Static_assert(offsetof(struct ours, member) == offsetof(theirs, their_member) &&             \
					   sizeof(((struct ours *)0)->member) >= sizeof(((theirs *)0)->their_member), \
				   #theirs "." #their_member)

SAME(cupti_kernel, registers, CUpti_ActivityKernel9, registersPerThread);
SAME(cupti_kernel, start, CUpti_ActivityKernel9, start);
SAME(cupti_kernel, end, CUpti_ActivityKernel9, end);
SAME(cupti_kernel, device, CUpti_ActivityKernel9, deviceId);
SAME(cupti_kernel, context, CUpti_ActivityKernel9, contextId);
SAME(cupti_kernel, stream, CUpti_ActivityKernel9, streamId);
SAME(cupti_kernel, grid, CUpti_ActivityKernel9, gridX);
SAME(cupti_kernel, block, CUpti_ActivityKernel9, blockX);
SAME(cupti_kernel, static_shared, CUpti_ActivityKernel9, staticSharedMemory);
SAME(cupti_kernel, dynamic_shared, CUpti_ActivityKernel9, dynamicSharedMemory);
SAME(cupti_kernel, correlation, CUpti_ActivityKernel9, correlationId);
SAME(cupti_kernel, name, CUpti_ActivityKernel9, name);
SAME(cupti_kernel, graph_node, CUpti_ActivityKernel9, graphNodeId);
SAME(cupti_kernel, graph, CUpti_ActivityKernel9, graphId);
SAME(cupti_kernel, cluster, CUpti_ActivityKernel9, clusterX);
SAME(cupti_memcpy, direction, CUpti_ActivityMemcpy5, copyKind);
SAME(cupti_memcpy, from, CUpti_ActivityMemcpy5, srcKind);
SAME(cupti_memcpy, to, CUpti_ActivityMemcpy5, dstKind);
SAME(cupti_memcpy, flags, CUpti_ActivityMemcpy5, flags);
SAME(cupti_memcpy, bytes, CUpti_ActivityMemcpy5, bytes);
SAME(cupti_memcpy, start, CUpti_ActivityMemcpy5, start);
SAME(cupti_memcpy, device, CUpti_ActivityMemcpy5, deviceId);
SAME(cupti_memcpy, correlation, CUpti_ActivityMemcpy5, correlationId);
SAME(cupti_memcpy, graph_node, CUpti_ActivityMemcpy5, graphNodeId);
SAME(cupti_memcpy, graph, CUpti_ActivityMemcpy5, graphId);
SAME(cupti_memcpy2, start, CUpti_ActivityMemcpyPtoP4, start);
SAME(cupti_memcpy2, from_device, CUpti_ActivityMemcpyPtoP4, srcDeviceId);
SAME(cupti_memcpy2, to_device, CUpti_ActivityMemcpyPtoP4, dstDeviceId);
SAME(cupti_memcpy2, correlation, CUpti_ActivityMemcpyPtoP4, correlationId);
SAME(cupti_memcpy2, graph, CUpti_ActivityMemcpyPtoP4, graphId);
SAME(cupti_memset, bytes, CUpti_ActivityMemset4, bytes);
SAME(cupti_memset, start, CUpti_ActivityMemset4, start);
SAME(cupti_memset, device, CUpti_ActivityMemset4, deviceId);
SAME(cupti_memset, correlation, CUpti_ActivityMemset4, correlationId);
SAME(cupti_memset, memory_kind, CUpti_ActivityMemset4, memoryKind);
SAME(cupti_memset, graph, CUpti_ActivityMemset4, graphId);
SAME(cupti_call, callback, CUpti_ActivityAPI, cbid);
SAME(cupti_call, start, CUpti_ActivityAPI, start);
SAME(cupti_call, thread, CUpti_ActivityAPI, threadId);
SAME(cupti_call, correlation, CUpti_ActivityAPI, correlationId);
SAME(cupti_call, returned, CUpti_ActivityAPI, returnValue);
SAME(cupti_wait, type, CUpti_ActivitySynchronization, type);
SAME(cupti_wait, start, CUpti_ActivitySynchronization, start);
SAME(cupti_wait, context, CUpti_ActivitySynchronization, contextId);
SAME(cupti_wait, stream, CUpti_ActivitySynchronization, streamId);
SAME(cupti_overhead, overhead, CUpti_ActivityOverhead2, overheadKind);
SAME(cupti_overhead, object_kind, CUpti_ActivityOverhead2, objectKind);
SAME(cupti_overhead, object, CUpti_ActivityOverhead2, objectId);
SAME(cupti_overhead, start, CUpti_ActivityOverhead2, start);
SAME(cupti_graph, correlation, CUpti_ActivityGraphTrace, correlationId);
SAME(cupti_graph, start, CUpti_ActivityGraphTrace, start);
SAME(cupti_graph, device, CUpti_ActivityGraphTrace, deviceId);
SAME(cupti_graph, graph, CUpti_ActivityGraphTrace, graphId);
SAME(cupti_graph, stream, CUpti_ActivityGraphTrace, streamId);
SAME(cupti_callback_data, site, CUpti_CallbackData, callbackSite);
SAME(cupti_subscriber_params, old_name_size, CUpti_SubscriberParams, oldSubscriberSize);
#define VALUE(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)

VALUE(CUPTI_ATTR_ZEROED_OUT, CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER);
VALUE(CUPTI_OTHER_CLIENT, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
VALUE(CUPTI_NO_PRIVILEGE, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
VALUE(CUPTI_DOMAIN_DRIVER, CUPTI_CB_DOMAIN_DRIVER_API);
VALUE(CUPTI_DOMAIN_RUNTIME, CUPTI_CB_DOMAIN_RUNTIME_API);
VALUE(CUPTI_SITE_EXIT, CUPTI_API_EXIT);
VALUE(CUPTI_GRAPH_TRACE, CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
VALUE(CUPTI_SYNCHRONIZATION, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
VALUE(CUPTI_OVERHEAD, CUPTI_ACTIVITY_KIND_OVERHEAD);
VALUE(CUPTI_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMCPY2);
VALUE(CUPTI_THREAD_ID_SYSTEM, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
#endif

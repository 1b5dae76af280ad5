/*
 * test_timeline_layout.c - the beginnings of records in cupti_abi.h are those of the CUPTI header that the build has, and so
 * are its numbers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "cupti/cupti_abi.h"

#if __has_include(<cupti_activity.h>) && __has_include(<cupti_callbacks.h>)
#include <cupti_activity.h>
#include <cupti_callbacks.h>

static const struct {
	const char *what;
	size_t ours, theirs, our_size, their_size;
} members[] = {
#define SAME(our_type, our, their_type, their)                                               \
	{                                                                                        \
#their_type "." #their, offsetof(struct our_type, our), offsetof(their_type, their), \
			sizeof(((struct our_type *)0)->our), sizeof(((their_type *)0)->their)            \
	}
	SAME(cupti_kernel, registers, CUpti_ActivityKernel9, registersPerThread),
	SAME(cupti_kernel, start, CUpti_ActivityKernel9, start),
	SAME(cupti_kernel, end, CUpti_ActivityKernel9, end),
	SAME(cupti_kernel, device, CUpti_ActivityKernel9, deviceId),
	SAME(cupti_kernel, context, CUpti_ActivityKernel9, contextId),
	SAME(cupti_kernel, stream, CUpti_ActivityKernel9, streamId),
	SAME(cupti_kernel, grid, CUpti_ActivityKernel9, gridX),
	SAME(cupti_kernel, block, CUpti_ActivityKernel9, blockX),
	SAME(cupti_kernel, static_shared, CUpti_ActivityKernel9, staticSharedMemory),
	SAME(cupti_kernel, dynamic_shared, CUpti_ActivityKernel9, dynamicSharedMemory),
	SAME(cupti_kernel, correlation, CUpti_ActivityKernel9, correlationId),
	SAME(cupti_kernel, name, CUpti_ActivityKernel9, name),
	SAME(cupti_kernel, graph_node, CUpti_ActivityKernel9, graphNodeId),
	SAME(cupti_kernel, graph, CUpti_ActivityKernel9, graphId),
	SAME(cupti_kernel, cluster, CUpti_ActivityKernel9, clusterX),
	SAME(cupti_memcpy, direction, CUpti_ActivityMemcpy5, copyKind),
	SAME(cupti_memcpy, from, CUpti_ActivityMemcpy5, srcKind),
	SAME(cupti_memcpy, to, CUpti_ActivityMemcpy5, dstKind),
	SAME(cupti_memcpy, flags, CUpti_ActivityMemcpy5, flags),
	SAME(cupti_memcpy, bytes, CUpti_ActivityMemcpy5, bytes),
	SAME(cupti_memcpy, start, CUpti_ActivityMemcpy5, start),
	SAME(cupti_memcpy, device, CUpti_ActivityMemcpy5, deviceId),
	SAME(cupti_memcpy, correlation, CUpti_ActivityMemcpy5, correlationId),
	SAME(cupti_memcpy, graph_node, CUpti_ActivityMemcpy5, graphNodeId),
	SAME(cupti_memcpy, graph, CUpti_ActivityMemcpy5, graphId),
	SAME(cupti_memcpy2, start, CUpti_ActivityMemcpyPtoP4, start),
	SAME(cupti_memcpy2, from_device, CUpti_ActivityMemcpyPtoP4, srcDeviceId),
	SAME(cupti_memcpy2, to_device, CUpti_ActivityMemcpyPtoP4, dstDeviceId),
	SAME(cupti_memcpy2, correlation, CUpti_ActivityMemcpyPtoP4, correlationId),
	SAME(cupti_memcpy2, graph, CUpti_ActivityMemcpyPtoP4, graphId),
	SAME(cupti_memset, bytes, CUpti_ActivityMemset4, bytes),
	SAME(cupti_memset, start, CUpti_ActivityMemset4, start),
	SAME(cupti_memset, device, CUpti_ActivityMemset4, deviceId),
	SAME(cupti_memset, correlation, CUpti_ActivityMemset4, correlationId),
	SAME(cupti_memset, memory_kind, CUpti_ActivityMemset4, memoryKind),
	SAME(cupti_memset, graph, CUpti_ActivityMemset4, graphId),
	SAME(cupti_call, callback, CUpti_ActivityAPI, cbid),
	SAME(cupti_call, start, CUpti_ActivityAPI, start),
	SAME(cupti_call, thread, CUpti_ActivityAPI, threadId),
	SAME(cupti_call, correlation, CUpti_ActivityAPI, correlationId),
	SAME(cupti_call, returned, CUpti_ActivityAPI, returnValue),
	SAME(cupti_wait, type, CUpti_ActivitySynchronization, type),
	SAME(cupti_wait, start, CUpti_ActivitySynchronization, start),
	SAME(cupti_wait, context, CUpti_ActivitySynchronization, contextId),
	SAME(cupti_wait, stream, CUpti_ActivitySynchronization, streamId),
	SAME(cupti_overhead, overhead, CUpti_ActivityOverhead2, overheadKind),
	SAME(cupti_overhead, object_kind, CUpti_ActivityOverhead2, objectKind),
	SAME(cupti_overhead, object, CUpti_ActivityOverhead2, objectId),
	SAME(cupti_overhead, start, CUpti_ActivityOverhead2, start),
	SAME(cupti_graph, correlation, CUpti_ActivityGraphTrace, correlationId),
	SAME(cupti_graph, start, CUpti_ActivityGraphTrace, start),
	SAME(cupti_graph, device, CUpti_ActivityGraphTrace, deviceId),
	SAME(cupti_graph, graph, CUpti_ActivityGraphTrace, graphId),
	SAME(cupti_graph, stream, CUpti_ActivityGraphTrace, streamId),
	SAME(cupti_callback_data, site, CUpti_CallbackData, callbackSite),
	SAME(cupti_subscriber_params, old_name_size, CUpti_SubscriberParams, oldSubscriberSize),
};

static const struct {
	const char *what;
	int ours, theirs;
} numbers[] = {
#define SAME_NUMBER(our, their)          \
	{                                    \
#their, (int)(our), (int)(their) \
	}
	SAME_NUMBER(CUPTI_ATTR_ZEROED_OUT, CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER),
	SAME_NUMBER(CUPTI_OTHER_CLIENT, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED),
	SAME_NUMBER(CUPTI_NO_PRIVILEGE, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES),
	SAME_NUMBER(CUPTI_DOMAIN_DRIVER, CUPTI_CB_DOMAIN_DRIVER_API),
	SAME_NUMBER(CUPTI_DOMAIN_RUNTIME, CUPTI_CB_DOMAIN_RUNTIME_API),
	SAME_NUMBER(CUPTI_SITE_EXIT, CUPTI_API_EXIT),
	SAME_NUMBER(CUPTI_GRAPH_TRACE, CUPTI_ACTIVITY_KIND_GRAPH_TRACE),
	SAME_NUMBER(CUPTI_SYNCHRONIZATION, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION),
	SAME_NUMBER(CUPTI_OVERHEAD, CUPTI_ACTIVITY_KIND_OVERHEAD),
	SAME_NUMBER(CUPTI_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMCPY2),
	SAME_NUMBER(CUPTI_THREAD_ID_SYSTEM, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM),
};

static void members_are_where_cupti_has_them(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		/* Three coordinates are one array of ours. */
		if (members[i].ours != members[i].theirs || members[i].our_size % members[i].their_size)
			fail_msg("%s: offset %zu, not %zu", members[i].what, members[i].theirs, members[i].ours);
}

static void numbers_are_cuptis(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (numbers[i].ours != numbers[i].theirs)
			fail_msg("%s is %d, not %d", numbers[i].what, numbers[i].theirs, numbers[i].ours);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_are_where_cupti_has_them),
		cmocka_unit_test(numbers_are_cuptis),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
	puts("no CUPTI headers");
	return 77;
}
#endif

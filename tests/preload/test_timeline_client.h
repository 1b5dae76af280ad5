/*
 * test_timeline_client.h - a profiler inside the program that uses CUPTI as torch.profiler does: it subscribes,
 * records sessions into buffers of its own, reads them when a session has ended, and goes.
 */
#ifndef TEST_TIMELINE_CLIENT_H
#define TEST_TIMELINE_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Not cupti.h: it has no place for __CUDA_API_VERSION_INTERNAL. */
#include <cupti_activity.h>
#include <cupti_version.h>

/* CUPTI as the client reaches it. */
struct cupti_api {
#define CUPTI_FUNCTIONS(F)                    \
	F(cuptiSubscribe)                         \
	F(cuptiUnsubscribe)                       \
	F(cuptiEnableCallback)                    \
	F(cuptiEnableDomain)                      \
	F(cuptiActivityRegisterCallbacks)         \
	F(cuptiActivityRegisterTimestampCallback) \
	F(cuptiActivityEnable)                    \
	F(cuptiActivityDisable)                   \
	F(cuptiActivityEnableDriverApi)           \
	F(cuptiActivityFlushAll)                  \
	F(cuptiActivityGetNextRecord)             \
	F(cuptiActivityGetNumDroppedRecords)      \
	F(cuptiActivitySetAttribute)              \
	F(cuptiActivityPushExternalCorrelationId) \
	F(cuptiActivityPopExternalCorrelationId)  \
	F(cuptiGetTimestamp)                      \
	F(cuptiFinalize)
#define F(name) __typeof__(&name) name;
	CUPTI_FUNCTIONS(F)
#undef F
};
extern struct cupti_api cupti;
void cupti_by_link(void);
void cupti_by_dlsym(void); /* as Python packages do */

#define KERNEL_MAX 4096
struct client_kernel {
	uint64_t start, end, node;
	uint32_t grid, correlation, graph, stream;
};

/* What the newest session recorded. */
struct client_session {
	int kernels, copies, memsets, launches, externals, calls, waits; /* records; launches: cuLaunchKernel's */
	uint64_t copied_bytes, external_sum;
	int callbacks;  /* of beginning launches */
	int orphans;    /* kernels without the record of a call with their correlation */
	int disordered; /* records that end before they start, or lie outside the session */
	int strangers;  /* buffers completed that were not the client's, or twice */
	int missing;    /* buffers that did not come back */
	int empty;      /* kernels that have no times */
	size_t dropped;
	struct client_kernel kernel[KERNEL_MAX];
};
extern struct client_session session;

void client_subscribe(void);
void client_unsubscribe(void);
/* Between these a session records; its records are in `session` after the second. */
void client_start(void);
void client_stop(void);
void client_keep_kinds(bool keep); /* client_stop leaves the kinds enabled */
/* Detaches CUPTI from a callback, as torch.profiler does with TEARDOWN_CUPTI. The subscription is gone then. */
void client_teardown(void (*launch)(void));
void client_use_own_clock(void);
uint64_t client_now(void);

/* Kernels of the newest session: with that grid, of graphs, and pairs that cannot be told apart by
 * correlation and node. */
int client_of_grid(uint32_t grid);
int client_in_graphs(void);
int client_doubles(void);

#endif

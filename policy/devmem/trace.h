/*
 * trace.h - TURBO_DEVMEM_TRACE: the program's allocations as a trace for `turbo replay`.
 *
 * Hook bodies ask devmem_tracing() first: one relaxed load while nothing is recorded. An
 * allocation is told after it has succeeded, a free and a destruction before they are carried out,
 * so that an address or a handle that another thread gets at once is never recorded twice.
 *
 * All functions: any thread, inside the guard; errno is kept; no driver call but the question of
 * devmem_trace_allocated(). While recording they take a mutex, and one call in some thousand
 * writes to the file. What fails is said once and ends the recording, never the program. A
 * forked child records nothing.
 *
 * Streams are the program's handles; where an ABI variant makes the default stream the thread's
 * own, the caller passes CU_STREAM_PER_THREAD. cuMemAlloc and cuMemFree have no stream: NULL.
 */
#ifndef TURBO_DEVMEM_TRACE_H
#define TURBO_DEVMEM_TRACE_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

#include "../policy.h"

extern const struct policy devmem_trace_policy;

/* Set when the option names a file, cleared when recording ends. */
extern bool devmem_trace_on;

static inline bool devmem_tracing(void)
{
	return __atomic_load_n(&devmem_trace_on, __ATOMIC_RELAXED);
}

void devmem_trace_alloc(CUdeviceptr ptr, size_t bytes, CUstream stream, int device);
/* The same on the current context's device; nothing while a capture is live, whose memory belongs
 * to a graph. */
void devmem_trace_allocated(CUdeviceptr ptr, size_t bytes, CUstream stream);
/* Memory that was never seen (managed, from before) leaves no line. */
void devmem_trace_free(CUdeviceptr ptr, CUstream stream);
/* `stream` waits for what `other` has been given so far. */
void devmem_trace_wait(CUstream stream, CUstream other);
void devmem_trace_sync(CUstream stream);
void devmem_trace_destroy(CUstream stream);

/* The same as devmem_trace_wait() in two steps. Which stream an event was recorded on is
 * remembered for the last few thousand events; a wait for an older one leaves no line. */
void devmem_trace_event(CUevent event, CUstream stream);
void devmem_trace_wait_event(CUstream stream, CUevent event);

#endif

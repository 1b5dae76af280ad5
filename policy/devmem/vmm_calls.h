/*
 * vmm_calls.h - how vmm*.c call the driver.
 */
#ifndef TURBO_DEVMEM_VMM_CALLS_H
#define TURBO_DEVMEM_VMM_CALLS_H

#include "heap.h"
#include "calls.h"

/* Neither disturbs nor is disturbed by a capture that another thread has or begins. */
#define RELAXED(call)                                                     \
	({                                                                    \
		CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;       \
		bool changed_ = !REAL(cuThreadExchangeStreamCaptureMode)(&mode_); \
		__typeof__(call) r_ = (call);                                     \
		if (changed_)                                                     \
			REAL(cuThreadExchangeStreamCaptureMode)(&mode_);              \
		r_;                                                               \
	})

/* The five functions about marks. */
void vmm_marks_init(struct heap_backend *backend);

#endif

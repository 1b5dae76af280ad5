/*
 * vmm_calls.h - how vmm*.c call the driver.
 */
#ifndef TURBO_DEVMEM_VMM_CALLS_H
#define TURBO_DEVMEM_VMM_CALLS_H

#include "cache_relaxed.h"
#include "heap.h"
#include "calls.h"

/* Neither disturbs nor is disturbed by a capture that another thread has or begins. */
#define RELAXED(call)                          \
	({                                         \
		CUstreamCaptureMode mode_;             \
		bool changed_ = relaxed_begin(&mode_); \
		__typeof__(call) r_ = (call);          \
		if (changed_)                          \
			relaxed_end(mode_);                \
		r_;                                    \
	})

/* The five functions about marks. */
void vmm_marks_init(struct heap_backend *backend);

#endif

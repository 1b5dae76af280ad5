/*
 * cache_relaxed.h - relaxed capture mode around calls of ours: a capture of another thread neither
 * refuses them nor is broken by them.
 */
#ifndef TURBO_DEVMEM_CACHE_RELAXED_H
#define TURBO_DEVMEM_CACHE_RELAXED_H

#include <cuda.h>
#include <stdbool.h>

#include "calls.h"

/* *mode gets what the thread was in; false: nothing was changed. */
static inline bool relaxed_begin(CUstreamCaptureMode *mode)
{
	*mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	return REAL(cuThreadExchangeStreamCaptureMode)(mode) == CUDA_SUCCESS;
}

/* Once more when it fails: the program must find its thread as it left it. */
static inline void relaxed_end(CUstreamCaptureMode mode)
{
	CUstreamCaptureMode again = mode;
	if (REAL(cuThreadExchangeStreamCaptureMode)(&mode) != CUDA_SUCCESS)
		REAL(cuThreadExchangeStreamCaptureMode)(&again);
}

static inline void pop_context(void)
{
	CUcontext popped;
	if (REAL(cuCtxPopCurrent_v2)(&popped) != CUDA_SUCCESS)
		REAL(cuCtxPopCurrent_v2)(&popped);
}

#endif

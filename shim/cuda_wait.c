/*
 * cuda_wait.c - calls that are the driver's alone and may wait for the GPU: the watchdog sees a thread that is in
 * one. Others that wait: cuda_order.c, cuda_mem.c, cuda_copy.c, cuda_graph.c.
 */
#include <cuda.h>

#include "real.h"
#include "stats.h"
#include "../policy/nccl/progress.h"

#define WAITS(symbol, params, args)                        \
	TURBO_EXPORT CUresult symbol params                    \
	{                                                      \
		stats_call(HOOK_##symbol);                         \
		bool begun = progress_wait_begin(FLIGHT_WAIT_GPU); \
		CUresult status = REAL_GET(symbol) args;           \
		progress_wait_end(begun);                          \
		return status;                                     \
	}

/* They wait for the whole device, and stop every other thread's launches until then. */
WAITS(cuMemFreeHost, (void *memory), (memory))
WAITS(cuMemHostUnregister, (void *memory), (memory))

WAITS(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *copy), (copy))
WAITS(cuMemcpy2D_v2_ptds, (const CUDA_MEMCPY2D *copy), (copy))
WAITS(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *copy), (copy))
WAITS(cuMemcpy2DUnaligned_v2_ptds, (const CUDA_MEMCPY2D *copy), (copy))
WAITS(cuMemcpy3D_v2, (const CUDA_MEMCPY3D *copy), (copy))
WAITS(cuMemcpy3D_v2_ptds, (const CUDA_MEMCPY3D *copy), (copy))

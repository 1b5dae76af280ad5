/*
 * cuda_wait.c - calls that are the driver's alone and may wait for the GPU: the watchdog sees a thread that is in
 * one. Others that wait: cuda_order.c, cuda_mem.c, cuda_host.c, cuda_copy.c,
 * cuda_graph.c.
 */
#include <cuda.h>

#include "doors.h"
#include "real.h"
#include "stats.h"
#include "../policy/nccl/progress.h"

/* `door`: what it is for pending all-gathers, a statement. */
#define WAITS(symbol, params, args, door)                  \
	TURBO_EXPORT CUresult symbol params                    \
	{                                                      \
		stats_call(HOOK_##symbol);                         \
		door;                                              \
		bool begun = progress_wait_begin(FLIGHT_WAIT_GPU); \
		CUresult status = REAL_GET(symbol) args;           \
		progress_wait_end(begun);                          \
		return status;                                     \
	}

WAITS(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *copy), (copy), DOOR_UNNAMED_OF(cuMemcpy2D_v2))
WAITS(cuMemcpy2D_v2_ptds, (const CUDA_MEMCPY2D *copy), (copy), DOOR_UNNAMED_OF(cuMemcpy2D_v2_ptds))
WAITS(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *copy), (copy), DOOR_UNNAMED_OF(cuMemcpy2DUnaligned_v2))
WAITS(cuMemcpy2DUnaligned_v2_ptds, (const CUDA_MEMCPY2D *copy), (copy),
	  DOOR_UNNAMED_OF(cuMemcpy2DUnaligned_v2_ptds))
WAITS(cuMemcpy3D_v2, (const CUDA_MEMCPY3D *copy), (copy), DOOR_UNNAMED_OF(cuMemcpy3D_v2))
WAITS(cuMemcpy3D_v2_ptds, (const CUDA_MEMCPY3D *copy), (copy), DOOR_UNNAMED_OF(cuMemcpy3D_v2_ptds))

/* A launch waits when the queue is full; and a kernel's first one, under lazy loading, until the device is idle, which
 * it never is while a collective waits for the launch behind it. */
#define LAUNCHES(suffix)                                                                               \
	WAITS(cuLaunchKernel##suffix,                                                                      \
		  (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, \
		   unsigned shared, CUstream stream, void **params, void **extra),                             \
		  (f, gx, gy, gz, bx, by, bz, shared, stream, params, extra),                                  \
		  DOOR_STREAM_OF(cuLaunchKernel##suffix, stream))                                              \
	WAITS(cuLaunchKernelEx##suffix,                                                                    \
		  (const CUlaunchConfig *config, CUfunction f, void **params, void **extra),                   \
		  (config, f, params, extra),                                                                  \
		  DOOR_STREAM_OF(cuLaunchKernelEx##suffix, config ? config->hStream : NULL))                   \
	WAITS(cuLaunchCooperativeKernel##suffix,                                                           \
		  (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, \
		   unsigned shared, CUstream stream, void **params),                                           \
		  (f, gx, gy, gz, bx, by, bz, shared, stream, params),                                         \
		  DOOR_STREAM_OF(cuLaunchCooperativeKernel##suffix, stream))

LAUNCHES()
LAUNCHES(_ptsz)

/*
 * cuda_copy.c - the copies between host and device, in every ABI.
 *
 * Bodies are thin: count, size, guard, policy, real call. A copy below the policy's
 * smallest size, or made by libturbo itself, goes straight to the real function.
 */
#include <cuda.h>

#include "guard.h"
#include "real.h"
#include "stats.h"
#include "../policy/copy/copy.h"

/* False: the real call is to be made, unchanged. */
static bool staged(const struct copy_call *call, CUresult *status)
{
	if (guard_inside())
		return false;
	guard_enter();
	bool taken = copy_take(call, status);
	guard_leave();
	return taken;
}

/* Relaxed: a value from before cuInit or after exit only passes a copy through. */
#define WORTH_A_LOOK(bytes) ((bytes) >= __atomic_load_n(&copy_min_bytes, __ATOMIC_RELAXED))

/* A host pointer as the address that struct copy_call wants. */
#define ADDRESS(host) ((CUdeviceptr)(uintptr_t)(host))

/*
 * One entry point: counts, offers the call to the policy, or makes the real call with
 * `...` as its arguments.
 */
#define COPY_BODY(symbol, direction, waits, ptsz, to, from, count, on, ...)                    \
	do {                                                                                       \
		CUresult status;                                                                       \
		stats_call(HOOK_##symbol);                                                             \
		if (WORTH_A_LOOK(count) &&                                                             \
			staged(&(struct copy_call){direction, waits, ptsz, to, from, count, on}, &status)) \
			return status;                                                                     \
		return REAL_GET(symbol)(__VA_ARGS__);                                                  \
	} while (0)

TURBO_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t n)
{
	COPY_BODY(cuMemcpyHtoD_v2, COPY_H2D, true, false, dst, ADDRESS(src), n, NULL, dst, src, n);
}

TURBO_EXPORT CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr dst, const void *src, size_t n)
{
	COPY_BODY(cuMemcpyHtoD_v2_ptds, COPY_H2D, true, true, dst, ADDRESS(src), n, NULL, dst, src, n);
}

TURBO_EXPORT CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t n)
{
	COPY_BODY(cuMemcpyDtoH_v2, COPY_D2H, true, false, ADDRESS(dst), src, n, NULL, dst, src, n);
}

TURBO_EXPORT CUresult cuMemcpyDtoH_v2_ptds(void *dst, CUdeviceptr src, size_t n)
{
	COPY_BODY(cuMemcpyDtoH_v2_ptds, COPY_D2H, true, true, ADDRESS(dst), src, n, NULL, dst, src, n);
}

TURBO_EXPORT CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
	COPY_BODY(cuMemcpy, COPY_UNIFIED, true, false, dst, src, n, NULL, dst, src, n);
}

TURBO_EXPORT CUresult cuMemcpy_ptds(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
	COPY_BODY(cuMemcpy_ptds, COPY_UNIFIED, true, true, dst, src, n, NULL, dst, src, n);
}

TURBO_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t n, CUstream stream)
{
	COPY_BODY(cuMemcpyHtoDAsync_v2, COPY_H2D, false, false, dst, ADDRESS(src), n, stream, dst, src, n,
			  stream);
}

TURBO_EXPORT CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr dst, const void *src, size_t n, CUstream stream)
{
	COPY_BODY(cuMemcpyHtoDAsync_v2_ptsz, COPY_H2D, false, true, dst, ADDRESS(src), n, stream, dst, src, n,
			  stream);
}

TURBO_EXPORT CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t n, CUstream stream)
{
	COPY_BODY(cuMemcpyDtoHAsync_v2, COPY_D2H, false, false, ADDRESS(dst), src, n, stream, dst, src, n,
			  stream);
}

TURBO_EXPORT CUresult cuMemcpyDtoHAsync_v2_ptsz(void *dst, CUdeviceptr src, size_t n, CUstream stream)
{
	COPY_BODY(cuMemcpyDtoHAsync_v2_ptsz, COPY_D2H, false, true, ADDRESS(dst), src, n, stream, dst, src, n,
			  stream);
}

TURBO_EXPORT CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream)
{
	COPY_BODY(cuMemcpyAsync, COPY_UNIFIED, false, false, dst, src, n, stream, dst, src, n, stream);
}

TURBO_EXPORT CUresult cuMemcpyAsync_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream)
{
	COPY_BODY(cuMemcpyAsync_ptsz, COPY_UNIFIED, false, true, dst, src, n, stream, dst, src, n, stream);
}

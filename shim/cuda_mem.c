/*
 * cuda_mem.c - cuMemAlloc, cuMemFree, and the calls that show what is free or wait for it.
 *
 * Bodies are thin: count, guard, policy, real call. A call made by libturbo itself, or while
 * the policy is off, goes straight to the real function.
 */
#include <cuda.h>

#include "guard.h"
#include "real.h"
#include "stats.h"
#include "../policy/devmem/devmem.h"

/* Headers before CUDA 13.1 do not have it. */
CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext ctx);

/* Relaxed: a value from before cuInit or after exit only passes a call through. */
static bool offered(void)
{
	return __atomic_load_n(&devmem_mode, __ATOMIC_RELAXED) != DEVMEM_OFF && !guard_inside();
}

TURBO_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *ptr, size_t bytes)
{
	CUresult status;

	stats_call(HOOK_cuMemAlloc_v2);
	if (offered()) {
		guard_enter();
		bool taken = devmem_alloc(ptr, bytes, &status);
		guard_leave();
		if (taken)
			return status;
	}
	return REAL(cuMemAlloc_v2)(ptr, bytes);
}

TURBO_EXPORT CUresult cuMemFree_v2(CUdeviceptr ptr)
{
	CUresult status;

	stats_call(HOOK_cuMemFree_v2);
	if (offered()) {
		guard_enter();
		bool taken = devmem_free(ptr, &status);
		guard_leave();
		if (taken)
			return status;
	}
	return REAL(cuMemFree_v2)(ptr);
}

TURBO_EXPORT CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
	CUresult status;

	stats_call(HOOK_cuMemGetInfo_v2);
	status = REAL(cuMemGetInfo_v2)(available, total);
	if (status == CUDA_SUCCESS && available && total && offered()) {
		guard_enter();
		devmem_info(available, *total);
		guard_leave();
	}
	return status;
}

static void synchronized(CUcontext ctx, CUresult status)
{
	if (status != CUDA_SUCCESS || !offered())
		return;
	guard_enter();
	devmem_synchronized(ctx);
	guard_leave();
}

TURBO_EXPORT CUresult cuCtxSynchronize(void)
{
	CUresult status;

	stats_call(HOOK_cuCtxSynchronize);
	status = REAL(cuCtxSynchronize)();
	synchronized(NULL, status);
	return status;
}

TURBO_EXPORT CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
	CUresult status;

	stats_call(HOOK_cuCtxSynchronize_v2);
	status = REAL(cuCtxSynchronize_v2)(ctx);
	synchronized(ctx, status);
	return status;
}

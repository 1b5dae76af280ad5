/*
 * cuda_host.c - pinned host memory: taking, giving back, and what the driver is asked about it. Pointer attributes:
 * cuda_query.c.
 *
 * Bodies are thin: count, guard, policy, real call. A call made by libturbo itself, or while the policy is off, goes
 * straight to the real function. The watchdog sees a thread that is in one of those that wait.
 */
#include <cuda.h>

#include "doors.h"
#include "guard.h"
#include "real.h"
#include "stats.h"
#include "../policy/hostmem/pinned.h"
#include "../policy/nccl/progress.h"

/* Relaxed: a stale value only passes a call through. */
static bool offered(void)
{
	return __builtin_expect(__atomic_load_n(&pinned_on, __ATOMIC_RELAXED), 0) && !guard_inside();
}

/* They wait for pages, and for the device where it must map them. */
static CUresult alloc(void **memory, size_t bytes, unsigned flags)
{
	CUresult status;

	if (offered()) {
		guard_enter();
		bool taken = pinned_alloc(memory, bytes, flags, &status);
		guard_leave();
		if (taken)
			return status;
	}
	return flags == PINNED_ALLOC_HOST ? REAL(cuMemAllocHost_v2)(memory, bytes)
									  : REAL(cuMemHostAlloc)(memory, bytes, flags);
}

TURBO_EXPORT CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
	stats_call(HOOK_cuMemHostAlloc);
	bool begun = progress_wait_begin(FLIGHT_WAIT_GPU);
	/* A flag that is not known is the driver's business; ours must not be taken for one. */
	CUresult status =
		flags & PINNED_ALLOC_HOST ? REAL(cuMemHostAlloc)(memory, bytes, flags) : alloc(memory, bytes, flags);
	progress_wait_end(begun);
	return status;
}

TURBO_EXPORT CUresult cuMemAllocHost_v2(void **memory, size_t bytes)
{
	stats_call(HOOK_cuMemAllocHost_v2);
	bool begun = progress_wait_begin(FLIGHT_WAIT_GPU);
	CUresult status = alloc(memory, bytes, PINNED_ALLOC_HOST);
	progress_wait_end(begun);
	return status;
}

/* These wait for the whole device, and stop every other thread's launches until then. */
static CUresult release(void *memory)
{
	CUresult status;

	if (offered()) {
		guard_enter();
		bool taken = pinned_free(memory, &status);
		guard_leave();
		if (taken)
			return status;
	}
	return REAL(cuMemFreeHost)(memory);
}

TURBO_EXPORT CUresult cuMemFreeHost(void *memory)
{
	stats_call(HOOK_cuMemFreeHost);
	DOOR_WAITS();
	bool begun = progress_wait_begin(FLIGHT_WAIT_GPU);
	CUresult status = release(memory);
	progress_wait_end(begun);
	return status;
}

/* What the driver is to be asked about instead of memory that the program has freed. */
static void *asked(void *memory)
{
	CUdeviceptr at = (CUdeviceptr)(uintptr_t)memory;

	return pinned_near(at) && !guard_inside() ? (void *)(uintptr_t)pinned_asked(at) : memory;
}

TURBO_EXPORT CUresult cuMemHostUnregister(void *memory)
{
	stats_call(HOOK_cuMemHostUnregister);
	DOOR_WAITS();
	bool begun = progress_wait_begin(FLIGHT_WAIT_GPU);
	CUresult status = REAL(cuMemHostUnregister)(asked(memory));
	progress_wait_end(begun);
	return status;
}

TURBO_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *memory, unsigned flags)
{
	stats_call(HOOK_cuMemHostGetDevicePointer_v2);
	return REAL(cuMemHostGetDevicePointer_v2)(device, asked(memory), flags);
}

TURBO_EXPORT CUresult cuMemHostGetFlags(unsigned *flags, void *memory)
{
	stats_call(HOOK_cuMemHostGetFlags);
	return REAL(cuMemHostGetFlags)(flags, asked(memory));
}

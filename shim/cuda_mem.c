/*
 * cuda_mem.c - cuMemAlloc, cuMemFree, and the calls that show what is free or wait for it.
 *
 * Bodies are thin: count, guard, policy, real call. A call made by libturbo itself, or while
 * the policy is off, goes straight to the real function.
 */
#include <cuda.h>

#include "doors.h"
#include "events.h"
#include "guard.h"
#include "make_room.h"
#include "../policy/devmem/calls.h"
#include "stats.h"
#include "tell_failure.h"
#include "tell_trace.h"
#include "tell_wait.h"
#include "../policy/devmem/devmem.h"
#include "../policy/devmem/stream.h"
#include "../policy/hostmem/pinned.h"
#include "../policy/nccl/progress.h"

/* Headers before CUDA 13.1 do not have it. */
CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext ctx);

/* Relaxed: a value from before cuInit or after exit only passes a call through. */
static bool offered(void)
{
	return __atomic_load_n(&devmem_mode, __ATOMIC_RELAXED) != DEVMEM_OFF && !guard_inside();
}

/* Memory of the stream-ordered heap is nobody else's, whatever became of the policy. */
static bool heap_offered(void)
{
	return __atomic_load_n(&stream_state, __ATOMIC_RELAXED) != STREAM_NONE && !guard_inside();
}

/* The driver's alone. */
static CUresult passed_alloc(CUdeviceptr *ptr, size_t bytes)
{
	struct devmem_room room = devmem_room_begin();
	uint64_t since = events_begin();
	CUresult status;

	do
		status = REAL(cuMemAlloc_v2)(ptr, bytes);
	while (made_room(status, &room, -1));
	events_end(EVENT_DEVMEM_MISS, since, bytes, status != CUDA_SUCCESS);
	if (__builtin_expect(status == CUDA_ERROR_OUT_OF_MEMORY, 0))
		events_end(EVENT_DEVMEM_OOM, since, bytes, true);
	return status;
}

TURBO_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *ptr, size_t bytes)
{
	CUresult status;
	bool taken = false;

	stats_call(HOOK_cuMemAlloc_v2);
	if (offered()) {
		guard_enter();
		taken = devmem_alloc(ptr, bytes, &status);
		guard_leave();
	}
	if (!taken)
		status = passed_alloc(ptr, bytes);
	TELL_TRACE(status == CUDA_SUCCESS, devmem_trace_allocated(*ptr, bytes, NULL));
	return status;
}

static CUresult free_mem(CUdeviceptr ptr)
{
	CUresult status;

	if (offered() || heap_offered()) {
		guard_enter();
		bool taken = devmem_free(ptr, &status);
		guard_leave();
		if (taken)
			return status;
	}
	return calls_free(ptr, 0);
}

TURBO_EXPORT CUresult cuMemFree_v2(CUdeviceptr ptr)
{
	stats_call(HOOK_cuMemFree_v2);
	DOOR_WAITS();
	TELL_TRACE(true, devmem_trace_free(ptr, NULL));
	bool begun = progress_wait_begin(FLIGHT_WAIT_GPU);
	CUresult status = free_mem(ptr);
	progress_wait_end(begun);
	return status;
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

/* What the policy wants back when the wait is over. */
static uint64_t synchronizing(CUcontext ctx)
{
	uint64_t token;

	if (!offered())
		return DEVMEM_SYNC_NONE;
	guard_enter();
	token = devmem_synchronizing(ctx);
	guard_leave();
	return token;
}

static void synchronized(CUcontext ctx, uint64_t token, CUresult status)
{
	tell_failure(status);
	if (status != CUDA_SUCCESS || guard_inside())
		return;
	guard_enter();
	if (devmem_mode_now() != DEVMEM_OFF)
		devmem_synchronized(ctx, token);
	pinned_synchronized();
	guard_leave();
}

TURBO_EXPORT CUresult cuCtxSynchronize(void)
{
	CUresult status;
	uint64_t token, since = events_begin();
	bool begun;

	stats_call(HOOK_cuCtxSynchronize);
	DOOR_WAITS();
	token = synchronizing(NULL);
	begun = progress_wait_begin(FLIGHT_WAIT_GPU);
	status = REAL(cuCtxSynchronize)();
	progress_wait_end(begun);
	tell_wait(since, "cuCtxSynchronize", status);
	synchronized(NULL, token, status);
	return status;
}

TURBO_EXPORT CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
	CUresult status;
	uint64_t token, since = events_begin();
	bool begun;

	stats_call(HOOK_cuCtxSynchronize_v2);
	DOOR_WAITS();
	token = synchronizing(ctx);
	begun = progress_wait_begin(FLIGHT_WAIT_GPU);
	status = REAL(cuCtxSynchronize_v2)(ctx);
	progress_wait_end(begun);
	tell_wait(since, "cuCtxSynchronize_v2", status);
	synchronized(ctx, token, status);
	return status;
}

/*
 * cuda_pool.c - stream-ordered allocation and memory pools.
 *
 * Bodies are thin: count, guard, policy, real call. While TURBO_DEVMEM is not `stream` a call
 * costs its count and one load more. Pool functions make the real call first, whose errors are
 * the program's, and tell the policy what came of it.
 */
#include <cuda.h>
#include <errno.h>

#include "doors.h"
#include "guard.h"
#include "make_room.h"
#include "../policy/devmem/calls.h"
#include "stats.h"
#include "tell_trace.h"
#include "../policy/devmem/devmem.h"
#include "../policy/devmem/pool.h"
#include "../policy/devmem/stream.h"

static inline bool offered(void)
{
	return __atomic_load_n(&stream_state, __ATOMIC_RELAXED) != STREAM_NONE && !guard_inside();
}

/* As offered(), for what only tells: nothing is told to a process that is exiting. */
static inline bool told(void)
{
	return __atomic_load_n(&stream_state, __ATOMIC_RELAXED) == STREAM_SERVING && !guard_inside();
}

/* ---- allocation ---- */

static bool alloc(CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool, CUstream stream, bool per_thread,
				  CUresult *status)
{
	bool taken;

	if (!told())
		return false;
	guard_enter();
	taken = devmem_alloc_async(ptr, bytes, pool, stream, per_thread, status);
	guard_leave();
	return taken;
}

/* The real call has found no memory: true, what the heap does not use was given back. */
static bool heap_made_room(CUresult status, CUmemoryPool pool, CUstream stream, bool per_thread)
{
	bool made;

	if (status != CUDA_ERROR_OUT_OF_MEMORY || !told())
		return false;
	guard_enter();
	made = stream_make_room(pool, stream, per_thread);
	guard_leave();
	return made;
}

static void no_memory(size_t bytes)
{
	if (!told())
		return;
	guard_enter();
	devmem_no_memory(bytes);
	guard_leave();
}

/* `pool` NULL in the first form; in the second no pool is an error, which the driver says. */
#define ALLOC(symbol, params, args, pool, offer, per_thread)                                \
	TURBO_EXPORT CUresult symbol params                                                     \
	{                                                                                       \
		CUresult status;                                                                    \
		stats_call(HOOK_##symbol);                                                          \
		DOOR_STREAM_OF(symbol, stream);                                                     \
		if (!(offer) || !alloc(ptr, bytes, pool, stream, per_thread, &status)) {            \
			struct devmem_room room = devmem_room_begin();                                  \
			status = REAL_GET(symbol) args;                                                 \
			if (heap_made_room(status, pool, stream, per_thread))                           \
				status = REAL_GET(symbol) args;                                             \
			while (made_room(status, &room, -1))                                            \
				status = REAL_GET(symbol) args;                                             \
			if (status == CUDA_ERROR_OUT_OF_MEMORY)                                         \
				no_memory(bytes);                                                           \
		}                                                                                   \
		TELL_TRACE(status == CUDA_SUCCESS,                                                  \
				   devmem_trace_allocated(*ptr, bytes, traced_stream(stream, per_thread))); \
		return status;                                                                      \
	}

#define CURRENT_PARAMS (CUdeviceptr * ptr, size_t bytes, CUstream stream)
#define CURRENT_ARGS (ptr, bytes, stream)
#define POOL_PARAMS (CUdeviceptr * ptr, size_t bytes, CUmemoryPool pool, CUstream stream)
#define POOL_ARGS (ptr, bytes, pool, stream)

ALLOC(cuMemAllocAsync, CURRENT_PARAMS, CURRENT_ARGS, NULL, true, false)
ALLOC(cuMemAllocAsync_ptsz, CURRENT_PARAMS, CURRENT_ARGS, NULL, true, true)
ALLOC(cuMemAllocFromPoolAsync, POOL_PARAMS, POOL_ARGS, pool, pool, false)
ALLOC(cuMemAllocFromPoolAsync_ptsz, POOL_PARAMS, POOL_ARGS, pool, pool, true)

static bool freed(CUdeviceptr ptr, CUstream stream, bool per_thread, CUresult *status)
{
	bool taken;

	if (!offered())
		return false;
	guard_enter();
	taken = devmem_free_async(ptr, stream, per_thread, status);
	guard_leave();
	return taken;
}

#define FREE(symbol, per_thread)                                                     \
	TURBO_EXPORT CUresult symbol(CUdeviceptr ptr, CUstream stream)                   \
	{                                                                                \
		CUresult status;                                                             \
		stats_call(HOOK_##symbol);                                                   \
		DOOR_STREAM_OF(symbol, stream);                                              \
		TELL_TRACE(true, devmem_trace_free(ptr, traced_stream(stream, per_thread))); \
		if (freed(ptr, stream, per_thread, &status))                                 \
			return status;                                                           \
		return REAL(symbol)(ptr, stream);                                            \
	}

FREE(cuMemFreeAsync, false)
FREE(cuMemFreeAsync_ptsz, true)

/* ---- pools ---- */

/* Tells the policy of a call that succeeded, keeping errno. */
#define TELL(status, call)                        \
	do {                                          \
		int saved_ = errno;                       \
		if ((status) == CUDA_SUCCESS && told()) { \
			guard_enter();                        \
			call;                                 \
			guard_leave();                        \
		}                                         \
		errno = saved_;                           \
	} while (0)

TURBO_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	CUresult status;

	stats_call(HOOK_cuMemPoolGetAttribute);
	status = REAL(cuMemPoolGetAttribute)(pool, attribute, value);
	TELL(status, pool_got(pool, attribute, value));
	return status;
}

TURBO_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	CUresult status;

	stats_call(HOOK_cuMemPoolSetAttribute);
	status = REAL(cuMemPoolSetAttribute)(pool, attribute, value);
	TELL(status, pool_set(pool, attribute, value));
	return status;
}

TURBO_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
	stats_call(HOOK_cuMemPoolTrimTo);
	TELL(CUDA_SUCCESS, keep = pool_trim(pool, keep));
	return REAL(cuMemPoolTrimTo)(pool, keep);
}

TURBO_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *desc, size_t count)
{
	CUresult status;

	stats_call(HOOK_cuMemPoolSetAccess);
	DOOR_WAITS();
	status = REAL(cuMemPoolSetAccess)(pool, desc, count);
	TELL(status, status = pool_access(pool, desc, count));
	return status;
}

TURBO_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	CUresult status;

	stats_call(HOOK_cuMemPoolDestroy);
	DOOR_WAITS();
	status = REAL(cuMemPoolDestroy)(pool);
	TELL(status, pool_current_changed());
	return status;
}

TURBO_EXPORT CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
	CUresult status;

	stats_call(HOOK_cuDeviceSetMemPool);
	status = REAL(cuDeviceSetMemPool)(device, pool);
	TELL(status, pool_current_changed());
	return status;
}

TURBO_EXPORT CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
	CUresult status;

	stats_call(HOOK_cuMemSetMemPool);
	status = REAL(cuMemSetMemPool)(location, type, pool);
	TELL(status, pool_current_changed());
	return status;
}

/*
 * cuda_copy.c - the copies between host and device, in every ABI.
 *
 * Bodies are thin: count, size, guard, policy, real call. A copy below the policy's
 * smallest size, or made by libturbo itself, goes straight to the real function.
 *
 * Programs make small copies by the hundred thousand, so the way of these is kept short: it
 * makes no call but the last, a jump to the real function, and so needs no stack and saves
 * no register. Whatever needs more is in a function of its own, SYMBOL_offered().
 */
#include <cuda.h>

#include "doors.h"
#include "guard.h"
#include "real.h"
#include "stats.h"
#include "tell_failure.h"
#include "../policy/copy/copy.h"
#include "../policy/nccl/progress.h"

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
 * One entry point: PARAMS and ARGS in parentheses, `bytes` one of them, `...` the fields of
 * struct copy_call. SYMBOL_offered() does it all: counts, offers the call to the policy, or
 * makes the real call, and shows the watchdog that the thread may wait in it. SYMBOL() does the same for a
 * copy that is too small to be offered, unless its thread has no lane yet or shares one, the real function
 * is still to be found, the watchdog is to see it wait (`waits`: even a small copy does), or all-gathers may be
 * pending; `door` is what it is for them.
 */
#define COPY_ENTRY(symbol, waits, door, params, args, ...)                                       \
	static __attribute__((noinline)) CUresult symbol##_offered(LIST params, const void *caller)  \
	{                                                                                            \
		CUresult status;                                                                         \
		bool taken = false;                                                                      \
		if (doors_on())                                                                          \
			door(symbol);                                                                        \
		bool begun = progress_wait_begin(FLIGHT_WAIT_GPU);                                       \
		stats_call(HOOK_##symbol);                                                               \
		if (!WORTH_A_LOOK(bytes))                                                                \
			stats_add(STATS_COPY_PASS_SMALL, 1);                                                 \
		else                                                                                     \
			taken = staged(&(struct copy_call){__VA_ARGS__}, &status);                           \
		if (!taken)                                                                              \
			status = REAL_GET(symbol) args;                                                      \
		progress_wait_end(begun);                                                                \
		tell_failure(status);                                                                    \
		return status;                                                                           \
	}                                                                                            \
	TURBO_EXPORT CUresult symbol params                                                          \
	{                                                                                            \
		void *real = real_bound(HOOK_##symbol);                                                  \
		if (__builtin_expect(WORTH_A_LOOK(bytes) || ((waits) && SHOWN) || doors_on() || !real || \
								 !stats_call_own(HOOK_##symbol),                                 \
							 0))                                                                 \
			return symbol##_offered(LIST args, DOOR_CALLER);                                     \
		stats_cell_add_own(HOOK_COUNT + STATS_COPY_PASS_SMALL, 1);                               \
		return ((__typeof__(&symbol))real)args;                                                  \
	}
#define LIST(...) __VA_ARGS__
#define SHOWN atomic_load_explicit(&progress_waits_shown, memory_order_relaxed)
#define FOR_ALL(symbol) doors_unnamed(HOOK_##symbol, caller)
#define FOR_STREAM(symbol) doors_stream(HOOK_##symbol, stream, caller)

/* The functions' parameters, as the driver has them. */
#define TO_DEVICE (CUdeviceptr dst, const void *src, size_t bytes)
#define TO_HOST (void *dst, CUdeviceptr src, size_t bytes)
#define EITHER_WAY (CUdeviceptr dst, CUdeviceptr src, size_t bytes)
#define TO_DEVICE_ASYNC (CUdeviceptr dst, const void *src, size_t bytes, CUstream stream)
#define TO_HOST_ASYNC (void *dst, CUdeviceptr src, size_t bytes, CUstream stream)
#define EITHER_WAY_ASYNC (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
#define SYNC_ARGS (dst, src, bytes)
#define ASYNC_ARGS (dst, src, bytes, stream)

COPY_ENTRY(cuMemcpyHtoD_v2, true, FOR_ALL, TO_DEVICE, SYNC_ARGS, COPY_H2D, true, false, dst, ADDRESS(src),
		   bytes, NULL)
COPY_ENTRY(cuMemcpyHtoD_v2_ptds, true, FOR_ALL, TO_DEVICE, SYNC_ARGS, COPY_H2D, true, true, dst, ADDRESS(src),
		   bytes, NULL)
COPY_ENTRY(cuMemcpyDtoH_v2, true, FOR_ALL, TO_HOST, SYNC_ARGS, COPY_D2H, true, false, ADDRESS(dst), src,
		   bytes, NULL)
COPY_ENTRY(cuMemcpyDtoH_v2_ptds, true, FOR_ALL, TO_HOST, SYNC_ARGS, COPY_D2H, true, true, ADDRESS(dst), src,
		   bytes, NULL)
COPY_ENTRY(cuMemcpy, true, FOR_ALL, EITHER_WAY, SYNC_ARGS, COPY_UNIFIED, true, false, dst, src, bytes, NULL)
COPY_ENTRY(cuMemcpy_ptds, true, FOR_ALL, EITHER_WAY, SYNC_ARGS, COPY_UNIFIED, true, true, dst, src, bytes,
		   NULL)
COPY_ENTRY(cuMemcpyHtoDAsync_v2, false, FOR_STREAM, TO_DEVICE_ASYNC, ASYNC_ARGS, COPY_H2D, false, false, dst,
		   ADDRESS(src), bytes, stream)
COPY_ENTRY(cuMemcpyHtoDAsync_v2_ptsz, false, FOR_STREAM, TO_DEVICE_ASYNC, ASYNC_ARGS, COPY_H2D, false, true,
		   dst, ADDRESS(src), bytes, stream)
COPY_ENTRY(cuMemcpyDtoHAsync_v2, true, FOR_STREAM, TO_HOST_ASYNC, ASYNC_ARGS, COPY_D2H, false, false,
		   ADDRESS(dst), src, bytes, stream)
COPY_ENTRY(cuMemcpyDtoHAsync_v2_ptsz, true, FOR_STREAM, TO_HOST_ASYNC, ASYNC_ARGS, COPY_D2H, false, true,
		   ADDRESS(dst), src, bytes, stream)
COPY_ENTRY(cuMemcpyAsync, true, FOR_STREAM, EITHER_WAY_ASYNC, ASYNC_ARGS, COPY_UNIFIED, false, false, dst,
		   src, bytes, stream)
COPY_ENTRY(cuMemcpyAsync_ptsz, true, FOR_STREAM, EITHER_WAY_ASYNC, ASYNC_ARGS, COPY_UNIFIED, false, true, dst,
		   src, bytes, stream)

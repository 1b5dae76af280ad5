/*
 * cuda_query.c - what the driver is asked about memory, and the calls that show memory to others:
 * other processes, other devices, other contexts.
 *
 * Bodies are thin: count, guard, policy or real call. While the policy is off, and for calls made by
 * libturbo itself, they go straight to the real function.
 */
#include <cuda.h>
#include <errno.h>

#include "doors.h"
#include "guard.h"
#include "real.h"
#include "stats.h"
#include "../policy/devmem/devmem.h"
#include "../policy/devmem/stream.h"
#include "../policy/hostmem/pinned.h"

/* Relaxed: a stale mode only passes a call through. Blocks of the heap are ours also after the policy
 * has switched itself off. */
static bool begin(void)
{
	if ((__atomic_load_n(&devmem_mode, __ATOMIC_RELAXED) == DEVMEM_OFF &&
		 __atomic_load_n(&stream_state, __ATOMIC_RELAXED) != STREAM_SERVING) ||
		guard_inside())
		return false;
	guard_enter();
	return true;
}

static CUresult end(CUresult status)
{
	guard_leave();
	return status;
}

/* An answer of the policy that keeps pinned memory, if that is its block. */
#define PINNED(at, call)                          \
	do {                                          \
		CUresult answer;                          \
		if (pinned_near(at) && !guard_inside()) { \
			guard_enter();                        \
			bool known = call;                    \
			guard_leave();                        \
			if (known)                            \
				return answer;                    \
		}                                         \
	} while (0)

/* ---- questions ---- */

TURBO_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr ptr)
{
	stats_call(HOOK_cuMemGetAddressRange_v2);
	PINNED(ptr, pinned_range(base, bytes, ptr, &answer));
	if (begin())
		return end(devmem_range(base, bytes, ptr));
	return REAL(cuMemGetAddressRange_v2)(base, bytes, ptr);
}

TURBO_EXPORT CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	stats_call(HOOK_cuPointerGetAttribute);
	PINNED(ptr, pinned_attribute(value, attribute, ptr, &answer));
	if (begin())
		return end(devmem_attribute(value, attribute, ptr));
	return REAL(cuPointerGetAttribute)(value, attribute, ptr);
}

TURBO_EXPORT CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes,
											 void **values, CUdeviceptr ptr)
{
	stats_call(HOOK_cuPointerGetAttributes);
	PINNED(ptr, pinned_attributes(count, attributes, values, ptr, &answer));
	if (begin())
		return end(devmem_attributes(count, attributes, values, ptr));
	return REAL(cuPointerGetAttributes)(count, attributes, values, ptr);
}

/* ---- memory that is shown to others ---- */

/* A real call with the address that is to be asked about, `at`; when it succeeds, the memory from
 * there is kept out of the cache. */
#define SHOWN(symbol, ptr, bytes, ...)                  \
	do {                                                \
		CUdeviceptr at = (ptr);                         \
		CUresult status;                                \
		stats_call(HOOK_##symbol);                      \
		if (!begin())                                   \
			return REAL(symbol)(__VA_ARGS__);           \
		at = devmem_asked(at);                          \
		status = REAL(symbol)(__VA_ARGS__);             \
		if (status == CUDA_SUCCESS)                     \
			devmem_keep_out(at, (bytes) ? (bytes) : 1); \
		return end(status);                             \
	} while (0)

TURBO_EXPORT CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	PINNED(ptr, pinned_set_attribute(value, attribute, ptr, &answer));
	SHOWN(cuPointerSetAttribute, ptr, 1, value, attribute, at);
}

TURBO_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr ptr)
{
	SHOWN(cuIpcGetMemHandle, ptr, 1, handle, at);
}

TURBO_EXPORT CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr ptr, size_t bytes,
													CUmemRangeHandleType type, unsigned long long flags)
{
	SHOWN(cuMemGetHandleForAddressRange, ptr, bytes, handle, at, bytes, type, flags);
}

/*
 * The handle lets the program map or export the allocation anew. Memory of cuMemAlloc has none; neither
 * must that of the stream-ordered heap, where it would be one chunk of several.
 */
TURBO_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
	SHOWN(cuMemRetainAllocationHandle, (CUdeviceptr)(uintptr_t)address, 1, handle,
		  (void *)(uintptr_t)(devmem_is_heap(at) ? DEVMEM_NOBODYS : at));
}

TURBO_EXPORT CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle multicast, size_t offset,
										  CUdeviceptr ptr, size_t bytes, unsigned long long flags)
{
	SHOWN(cuMulticastBindAddr, ptr, bytes, multicast, offset, at, bytes, flags);
}

#if CUDA_VERSION < 13010
CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle multicast, CUdevice device, size_t offset,
								CUdeviceptr ptr, size_t bytes, unsigned long long flags);
#endif
TURBO_EXPORT CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle multicast, CUdevice device,
											 size_t offset, CUdeviceptr ptr, size_t bytes,
											 unsigned long long flags)
{
	SHOWN(cuMulticastBindAddr_v2, ptr, bytes, multicast, device, offset, at, bytes, flags);
}

/* ---- peer access ---- */

static void peer(CUcontext owner, bool enabled)
{
	int saved = errno;

	if (!begin())
		return;
	devmem_peer(owner, enabled);
	errno = saved;
	guard_leave();
}

TURBO_EXPORT CUresult cuCtxEnablePeerAccess(CUcontext owner, unsigned int flags)
{
	CUresult status;

	stats_call(HOOK_cuCtxEnablePeerAccess);
	status = REAL(cuCtxEnablePeerAccess)(owner, flags);
	if (status == CUDA_SUCCESS || status == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
		peer(owner, true);
	return status;
}

TURBO_EXPORT CUresult cuCtxDisablePeerAccess(CUcontext owner)
{
	CUresult status;

	stats_call(HOOK_cuCtxDisablePeerAccess);
	DOOR_WAITS();
	status = REAL(cuCtxDisablePeerAccess)(owner);
	if (status == CUDA_SUCCESS)
		peer(owner, false);
	return status;
}

/*
 * replay_driver.h - the CUDA driver as the replayed program sees it.
 *
 * Functions come from dlopen("libcuda.so.1") and dlsym(), as most programs find them, so where
 * libturbo is loaded they are libturbo's. What the worker asks for itself (how much memory is
 * in use, memory held back for --limit) goes to the driver's own functions, which libturbo neither sees nor
 * answers.
 */
#ifndef TURBO_REPLAY_DRIVER_H
#define TURBO_REPLAY_DRIVER_H

/* cuda.h then declares every symbol under its true name. */
#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

#define REPLAY_CALLS(X)          \
	X(cuInit)                    \
	X(cuDeviceGet)               \
	X(cuDeviceGetCount)          \
	X(cuDevicePrimaryCtxRetain)  \
	X(cuCtxSetCurrent)           \
	X(cuCtxSynchronize)          \
	X(cuMemAlloc_v2)             \
	X(cuMemFree_v2)              \
	X(cuMemAllocAsync)           \
	X(cuMemFreeAsync)            \
	X(cuMemsetD8Async)           \
	X(cuStreamCreate)            \
	X(cuStreamDestroy_v2)        \
	X(cuStreamSynchronize)       \
	X(cuStreamWaitEvent)         \
	X(cuEventCreate)             \
	X(cuEventRecord)             \
	X(cuDeviceGetDefaultMemPool) \
	X(cuMemPoolSetAttribute)     \
	X(cuMemPoolGetAttribute)

struct replay_driver {
#define MEMBER(f) __typeof__(&f) f;
	REPLAY_CALLS(MEMBER)
#undef MEMBER
	/* The driver's own, past libturbo. */
	__typeof__(&cuMemAlloc_v2) own_alloc;
	__typeof__(&cuMemGetInfo_v2) own_info;
	__typeof__(&cuGetErrorName) error_name;
	uint64_t (*sim_calls)(void); /* NULL: a real driver */
};

/* All return false after saying on stderr what is wrong. */
bool replay_driver_load(struct replay_driver *d);
/* Is an object of that name loaded in this process? */
bool replay_loaded(const char *library);
/* "cuMemAlloc_v2 failed: CUDA_ERROR_UNKNOWN" */
bool replay_failed(const struct replay_driver *d, const char *call, CUresult r);
/* Takes memory of the current context until about `limit` bytes are free. */
bool replay_hold_back(const struct replay_driver *d, uint64_t limit);

#endif

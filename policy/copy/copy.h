/*
 * copy.h - pageable copies through a pinned ring.
 *
 * shim/cuda_copy.c describes each intercepted call as a struct copy_call and
 * asks copy_take(). False means the caller must make the real call, unchanged.
 */
#ifndef TURBO_COPY_H
#define TURBO_COPY_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

#include "../policy.h"

extern const struct policy copy_policy;

enum copy_dir { COPY_H2D, COPY_D2H, COPY_UNIFIED };

struct copy_call {
	enum copy_dir dir; /* COPY_UNIFIED: found out from the pointers */
	bool sync;         /* cuMemcpy*: returns when the DMA is done */
	bool per_thread;   /* the caller's ABI: _ptds or _ptsz */
	CUdeviceptr dst;   /* host side as an integer for D2H */
	CUdeviceptr src;   /* host side as an integer for H2D */
	size_t bytes;
	CUstream stream; /* NULL for synchronous calls: the ABI's default stream */
};

/* Smallest copy worth a look; SIZE_MAX while the policy is off. Relaxed loads on
 * the hot path: a stale value only passes a copy through. */
extern size_t copy_min_bytes;

/*
 * Performs the copy and returns true with *status, or returns false having done
 * nothing. Any thread; called inside the guard; keeps errno. When it returns
 * true and *status is CUDA_SUCCESS every source byte of an H2D has been read and
 * every byte of a D2H has arrived; a synchronous call's DMA is complete.
 */
bool copy_take(const struct copy_call *call, CUresult *status);

#endif

/*
 * pinned.h - pinned host memory (cuMemHostAlloc, cuMemAllocHost) kept when the program frees it: what shim/ asks.
 *
 * Where a function returns bool, false means that the caller must make the real call, unchanged. All are called
 * inside the guard, after cuInit, on the program's thread, and keep errno.
 */
#ifndef TURBO_HOSTMEM_PINNED_H
#define TURBO_HOSTMEM_PINNED_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../policy.h"

extern const struct policy pinned_policy;

/* False until cuda_ready, in forked children, when the process exits, and when a debugger has come. Relaxed: a
 * stale value only passes a call through. */
extern bool pinned_on;

/* Smallest block that is kept; smaller ones are the driver's. */
#define PINNED_MIN ((size_t)1 << 20)
/* What is kept for this long without being asked for goes back to the driver. */
#define PINNED_IDLE_NS 5000000000ull

/* Set beside the flags of a block that cuMemAllocHost has made. */
#define PINNED_ALLOC_HOST 0x80000000u

bool pinned_alloc(void **out, size_t bytes, unsigned flags, CUresult *status);
bool pinned_free(void *memory, CUresult *status);
/* cuCtxSynchronize has succeeded. */
void pinned_synchronized(void);
/* A context was created, and is current. */
void pinned_context_made(void);
/* A primary context is about to be reset. */
void pinned_resetting(void);

/* ---- what the driver says about such memory (pinned_answers.c) ---- */

/* The addresses between the lowest and the highest block that was ever tracked. Relaxed. */
extern uintptr_t pinned_low, pinned_high;

/* True: the functions below answer differently from the driver, perhaps. */
static inline bool pinned_near(CUdeviceptr at)
{
	return __builtin_expect(at < __atomic_load_n(&pinned_high, __ATOMIC_RELAXED), 0) &&
		   at >= __atomic_load_n(&pinned_low, __ATOMIC_RELAXED) &&
		   __atomic_load_n(&pinned_on, __ATOMIC_RELAXED);
}

/* What the real call is to be asked about instead: an address that is nobody's where the program has freed the
 * memory, or was never given so much; else `at`. */
CUdeviceptr pinned_asked(CUdeviceptr at);
/* Each makes the real call itself and corrects its answer. False: no block of ours, nothing was done. */
bool pinned_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr at, CUresult *status);
bool pinned_attribute(void *value, CUpointer_attribute attribute, CUdeviceptr at, CUresult *status);
bool pinned_attributes(unsigned count, CUpointer_attribute *attributes, void **values, CUdeviceptr at,
					   CUresult *status);
bool pinned_set_attribute(const void *value, CUpointer_attribute attribute, CUdeviceptr at, CUresult *status);

#endif

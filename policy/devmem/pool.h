/*
 * pool.h - a device's default pool, seen through the driver's pool functions.
 *
 * The driver's pool stays: memory of graphs and of programs' own pools is there, and it gives
 * errors and defaults. shim/cuda_pool.c makes the real call and tells what it did; other pools
 * than default ones are not looked at. Inside the guard, any thread.
 */
#ifndef TURBO_DEVMEM_POOL_H
#define TURBO_DEVMEM_POOL_H

#include <cuda.h>
#include <stddef.h>

#include "stream_device.h"

/* The real call has stored an attribute: what the heap holds is added. */
void pool_got(CUmemoryPool pool, CUmemPool_attribute attribute, void *value);
/* The real call has accepted it. */
void pool_set(CUmemoryPool pool, CUmemPool_attribute attribute, const void *value);
/* Before the real cuMemPoolTrimTo: returns what is left for the real pool to keep. */
size_t pool_trim(CUmemoryPool pool, size_t keep);
/* The real call has accepted it; returns what the program gets. */
CUresult pool_access(CUmemoryPool pool, const CUmemAccessDesc *desc, size_t count);
/* A device's current pool may have changed. */
void pool_current_changed(void);

/* The device is new: what the driver's pool answers is where ours begins. */
void pool_init(struct stream_device *dev);
/* cuCtxSynchronize on the device has returned. */
void pool_synchronized(struct stream_device *dev);

#endif

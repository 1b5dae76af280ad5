/*
 * stream.h - the stream-ordered allocator of each device: default pools served from a heap.
 *
 * What devmem.h does not already declare: the life of it (devmem.c), what answers.c and
 * shim/cuda_pool.c ask. All are called inside the guard; any thread unless said.
 */
#ifndef TURBO_DEVMEM_STREAM_H
#define TURBO_DEVMEM_STREAM_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* STREAM_STOPPED: the process is exiting. Blocks of ours are taken back without a word and
 * nothing else is done. STREAM_NONE: never started, or a forked child. */
enum stream_state { STREAM_NONE, STREAM_SERVING, STREAM_STOPPED };

/* One relaxed load; a stale value only passes a call through. */
extern int stream_state;

/* cuda_ready, in mode `stream`. False, with one line said, when this driver lacks something. */
bool stream_start(void);
/* See struct policy. */
void stream_context_gone(CUcontext ctx, int device);
void stream_fork_child(void);
void stream_stop(void);

/*
 * cuMemFree of a block of ours, which CUDA allows: waits for all work that may use it, as
 * cuMemFree does, then it is free for every stream. False: not ours, make the real call.
 */
bool stream_free_sync(CUdeviceptr ptr, CUresult *status);

/* The live block that contains `va`; false: none of ours. No driver call. */
bool stream_find(CUdeviceptr va, CUdeviceptr *base, size_t *bytes);

/* Physical bytes that the heap of `device` holds and the program does not use. */
size_t stream_free_bytes(int device);

/* Physical bytes that the heap of `device` holds. */
size_t stream_held_bytes(int device);

/* Gives what is unused back to the driver, where its last use has passed; returns bytes. For the
 * out-of-memory ladder of others. */
size_t stream_release(int device);

/* The driver has found no memory for this call, which was not ours: gives back what the heap of its device
 * does not use. True: something was, and the call may be made again. */
bool stream_make_room(CUmemoryPool pool, CUstream stream, bool per_thread);

/*
 * Around the program's cuCtxSynchronize (`ctx` NULL: the current context), which has succeeded: what was
 * freed before it is free for every stream after it, and what a pool holds beyond its release
 * threshold goes back to the driver. DEVMEM_SYNC_NONE: nothing is known of the beginning.
 */
uint64_t stream_synchronizing(CUcontext ctx);
void stream_synchronized(CUcontext ctx, uint64_t token);

#endif

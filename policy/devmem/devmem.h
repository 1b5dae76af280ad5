/*
 * devmem.h - device memory: what shim/ asks of the policy.
 *
 * shim/cuda_mem.c, cuda_pool.c and cuda_query.c describe each intercepted call; where a
 * function returns bool, false means that the caller must make the real call, unchanged.
 * All are called inside the guard, after cuInit, on the program's thread, and keep errno.
 */
#ifndef TURBO_DEVMEM_H
#define TURBO_DEVMEM_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../policy.h"

extern const struct policy devmem_policy;

/* TURBO_DEVMEM's values, in the order of options.def. */
enum devmem_mode { DEVMEM_OFF, DEVMEM_CACHE, DEVMEM_DEFERRED, DEVMEM_STREAM };

/* DEVMEM_OFF until cuda_ready, in forked children, after the process began to exit and when
 * the policy has switched itself off. One relaxed load: a stale value only passes a call through. */
extern int devmem_mode;

static inline int devmem_mode_now(void)
{
	return __atomic_load_n(&devmem_mode, __ATOMIC_RELAXED);
}

/* What is kept for this long without being asked for goes back to the driver. */
#define CACHE_IDLE_NS 2000000000ull

/* ---- cuMemAlloc, cuMemFree ---- */

bool devmem_alloc(CUdeviceptr *ptr, size_t bytes, CUresult *status);
bool devmem_free(CUdeviceptr ptr, CUresult *status);
/* cuMemGetInfo has answered for the current context's device: kept memory counts as free. */
void devmem_info(size_t *free_bytes, size_t total_bytes);
/* cuCtxSynchronize is about to be called for `ctx` (NULL: the current one); what is returned is for: */
uint64_t devmem_synchronizing(CUcontext ctx);
/* It has returned CUDA_SUCCESS. DEVMEM_SYNC_NONE: nothing is known of its beginning. */
#define DEVMEM_SYNC_NONE UINT64_MAX
void devmem_synchronized(CUcontext ctx, uint64_t token);
/* A call of the program has failed: when that is for good, nothing of the policy's hides it from the next one. */
void devmem_failed(CUresult status);

/* cuDevicePrimaryCtxReset is about to be called: where the device is idle it finds no memory of ours. */
void devmem_resetting(int device);

/*
 * Around a call that is the driver's own and may need device memory (room.c). Began before the call. When that
 * finds no memory: true, something was given back on the device (-1: the current context's), and
 * the call is to be made again.
 */
struct devmem_room {
	uint64_t came, since;
};
extern uint64_t devmem_room_came;
static inline struct devmem_room devmem_room_begin(void)
{
	return (struct devmem_room){.came = __atomic_load_n(&devmem_room_came, __ATOMIC_RELAXED)};
}
bool devmem_make_room(struct devmem_room *room, int device);

/* ---- what the driver says about memory that was handed out again (answers.c) ---- */

/* An address that is nobody's: below the lowest one that a system lets anybody map. */
#define DEVMEM_NOBODYS ((CUdeviceptr)4096)

/* Each makes the real call itself and corrects its answer. */
CUresult devmem_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr ptr);
CUresult devmem_attribute(void *value, CUpointer_attribute attribute, CUdeviceptr ptr);
CUresult devmem_attributes(unsigned count, CUpointer_attribute *attributes, void **values, CUdeviceptr ptr);

/* What the real call is to be asked about instead of `ptr`: DEVMEM_NOBODYS where the program has freed the
 * memory that the policy keeps, else `ptr`. */
CUdeviceptr devmem_asked(CUdeviceptr ptr);
/* True for memory of the stream-ordered heap, which is mapped where the driver's own would not be. */
bool devmem_is_heap(CUdeviceptr ptr);
/* The memory in [ptr, ptr + bytes) has been shown to somebody who may see it for longer than the program
 * holds it (IPC, dma-buf, a token, SYNC_MEMOPS, NCCL's registration): its blocks are really freed
 * when the program frees them. */
void devmem_keep_out(CUdeviceptr ptr, size_t bytes);
/* cuCtxEnablePeerAccess, cuCtxDisablePeerAccess have succeeded, or it was enabled already. */
void devmem_peer(CUcontext owner, bool enabled);

/* ---- the stream-ordered family (stream.c, pool.c) ---- */

/* `pool` NULL: the current pool of the stream's device. */
bool devmem_alloc_async(CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool, CUstream stream, bool per_thread,
						CUresult *status);
bool devmem_free_async(CUdeviceptr ptr, CUstream stream, bool per_thread, CUresult *status);
/* The driver has no memory either for what the heap could not serve: it is said who holds it. */
void devmem_no_memory(size_t bytes);
/* Before the real cuStreamDestroy. */
void devmem_stream_gone(CUstream stream);

#endif

/*
 * cache.h - tier A: whole allocations of cuMemAlloc, kept when the program frees them and
 * handed out again to the same context.
 *
 * All functions: any thread, inside the guard, after cuda_ready, no lock held. False: the caller
 * makes the real call.
 */
#ifndef TURBO_DEVMEM_CACHE_H
#define TURBO_DEVMEM_CACHE_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

#include "cache_space.h"

bool cache_alloc(CUdeviceptr *ptr, size_t bytes, CUresult *status);
bool cache_free(CUdeviceptr ptr, CUresult *status);
/* The program's cuCtxSynchronize has succeeded; NULL: of the current context. */
void cache_synchronized(CUcontext ctx);

enum release_reason { RELEASE_BOUND, RELEASE_IDLE, RELEASE_PRESSURE };

/*
 * Gives at least `bytes` back to the driver, if so much is kept: of one space, or of every
 * space of a device (s NULL); the oldest first. Returns the bytes given back. A real free waits
 * for the device and holds up launches meanwhile: for calls that would fail otherwise, or that
 * wait anyway. The reason is counted.
 */
size_t cache_release(struct space *s, int device, size_t bytes, enum release_reason reason);
/* Gives back the oldest block of a space, if it is older than `before` (clock_ns()); bytes. */
size_t cache_release_old(struct space *s, uint64_t before);
/* Everything, of every context, also what the device may still use: once it does not. */
void cache_release_all(void);
/* What cuMemFree does after its barrier: nothing beyond the bound, nothing too old is kept. */
void cache_trim(struct space *s);
/* The first of these only. */
void cache_trim_bound(struct space *s);

/* ---- the space's lock is held ---- */

/* The block is nobody's from now on, which is `now` (clock_ns()). */
void cache_put(struct space *s, struct block *b, uint64_t now);
/* The largest block that a request of that rounded size may be served with. */
size_t cache_most(const struct space *s, size_t rounded);
/* The best block for a request of that rounded size becomes the program's, or NULL. */
struct block *cache_take(struct space *s, size_t rounded, size_t asked);
/* Leaves bins and age list; no longer kept. */
void cache_remove(struct space *s, struct block *b);

#endif

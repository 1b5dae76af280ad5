/*
 * stream_device.h - one device's default pool as this allocator sees it.
 */
#ifndef TURBO_DEVMEM_STREAM_DEVICE_H
#define TURBO_DEVMEM_STREAM_DEVICE_H

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "heap.h"
#include "vmm.h"

#define STREAM_DEVICES 64

struct stream_device {
	/* Constant once the device is found by others. */
	int ordinal;
	size_t total;      /* bytes of memory */
	CUmemoryPool pool; /* the driver's default pool, whose handle the program uses for ours */
	struct vmm_device vmm;
	struct vmm_stream waited; /* VMM_DONE: frees whose use is over */

	/* Replaced only when a reset of the device has taken its mappings. Acquire and release. */
	_Atomic(struct heap *) heap;
	_Atomic(struct heap_stream *) waited_blocks;
	/* The default pool is the device's current one. Relaxed: the program orders its own calls. */
	_Atomic bool current;

	/* pool.c */
	pthread_mutex_t lock;  /* guards the rest; no driver call is made under it */
	bool reuse_done;       /* REUSE_ALLOW_OPPORTUNISTIC */
	bool reuse_wait;       /* REUSE_ALLOW_INTERNAL_DEPENDENCIES */
	bool threshold_is_set; /* by the program */
	uint64_t threshold;
	size_t used_high;   /* highest of the peaks taken from the heap so far */
	size_t peak[2];     /* most live bytes: in this window, in the one before */
	uint64_t window_ns; /* when this window began */
};

/* The device, made at its first use; NULL: it cannot be served, another thread is making it, or a
 * capture is live (then the real call is made). */
struct stream_device *stream_device_get(int ordinal);
/* The same, when it has been made already. */
struct stream_device *stream_device_at(int ordinal);
static inline struct heap *stream_device_heap(const struct stream_device *dev)
{
	return atomic_load_explicit(&dev->heap, memory_order_acquire);
}
/* The device whose heap has a live block around `va`; NULL: none. No driver call. */
struct stream_device *stream_device_owner(CUdeviceptr va, uint64_t *base, size_t *bytes);
/* Its mappings are gone with a reset: starts anew, with everything forgotten. */
void stream_device_renew(struct stream_device *dev);

/* The device whose default pool this is; made at its first use. NULL: the program's own pool. */
struct stream_device *stream_device_of_pool(CUmemoryPool pool);
/* The same, when it has been made already: no driver call. */
struct stream_device *stream_device_known(CUmemoryPool pool);

#define STREAM_EACH_DEVICE(dev)                                \
	for (int i_##dev = 0; i_##dev < STREAM_DEVICES; i_##dev++) \
		for (struct stream_device *dev = stream_device_at(i_##dev); dev; dev = NULL)

#endif

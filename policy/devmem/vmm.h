/*
 * vmm.h - the heap's backend on a real device: physical chunks, addresses, access, marks.
 *
 * Physical memory and mappings belong to the device and outlive its contexts, as the driver's
 * own pools do; events, which marks are made of, belong to a context and die with it.
 */
#ifndef TURBO_DEVMEM_VMM_H
#define TURBO_DEVMEM_VMM_H

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "heap.h"

#define VMM_PEERS 32 /* devices that may reach one device's memory, itself included */
#define VMM_SAMPLES 8

struct vmm_mark;

struct vmm_context {
	CUcontext handle;
	int device;
	bool primary;
	/* Calls that use its handles. seq_cst against `gone`: who counted itself before it saw `gone`
	 * unset is waited for by vmm_context_gone(). */
	_Atomic int users;
	/* Its work has ended and its events are dead. Written by vmm_context_gone(), seq_cst. */
	_Atomic bool gone;
	pthread_mutex_t lock;  /* guards the rest; no driver call is made under it */
	struct vmm_mark *free; /* events to record next */
	unsigned held;         /* streams and marks that point here: while there are any, the slot is kept */
};

/* What a stream handle means, and how a mark is recorded on it. */
enum vmm_kind {
	VMM_EXPLICIT, /* made by the program */
	VMM_LEGACY,   /* the context's legacy default stream */
	/* An event of the whole context: for per-thread default streams, which another thread cannot
	 * name, and for what was freed without a stream. Later than need be, hence safe. */
	VMM_CONTEXT,
	VMM_DONE, /* the program has waited already: every mark has passed */
};

/* What heap_stream_open() is given. */
struct vmm_stream {
	CUstream handle;
	struct vmm_context *ctx; /* NULL for VMM_DONE */
	/* enum vmm_kind; becomes VMM_CONTEXT when the handle is about to die. seq_cst against `users`. */
	_Atomic int kind;
	_Atomic int users; /* calls that use `handle` */
	bool per_thread;   /* the wait is made on the calling thread's own stream */
};

struct vmm_device {
	int ordinal;
	struct heap_backend backend;
	pthread_mutex_t lock; /* guards the two below; no driver call is made under it */
	CUmemAccessDesc access[VMM_PEERS];
	unsigned accesses;
	/* Addresses mapped now, a few of them; 0: none. Relaxed: written in the heap's calls, of which
	 * there is one at a time, and read by vmm_device_alive(). */
	_Atomic uint64_t sample[VMM_SAMPLES];
	unsigned samples; /* written in the heap's calls */
};

/* Driver functions that the backend cannot do without are there. */
bool vmm_driver_complete(void);

/* Fills in the device and its backend; false: the device cannot do it. */
bool vmm_device_init(struct vmm_device *dev, int ordinal);

/* Access of other devices changes for what is mapped from now on; true: what is mapped already must
 * be given access again (heap_access_again()). */
bool vmm_device_access(struct vmm_device *dev, const CUmemAccessDesc *desc, size_t count);

/* Whether the device's mappings are alive still: false after a reset that took them. */
bool vmm_device_alive(struct vmm_device *dev);
/* They are gone, and nothing is mapped. */
void vmm_device_forget(struct vmm_device *dev);

/* The context, made known at its first use; NULL: too many, or the driver knows it not.
 * The caller holds it until vmm_context_put(). */
struct vmm_context *vmm_context_get(CUcontext handle);
void vmm_context_put(struct vmm_context *ctx);
/* See struct policy. Calls in flight have left when it returns, or 2 s are over. */
void vmm_context_gone(CUcontext handle, int device);
/* The device of the context when it is the only one that is known; else -1. */
int vmm_context_only(CUcontext handle);
/* Waits for the work of every known context of `device` (-1: all); the first error. `waited` false: one
 * could not be made current, or a capture is live, and there is no error. */
CUresult vmm_synchronize(int device, bool *waited);

/* The stream's handle is about to die: nothing uses it when this returns. */
void vmm_stream_retire(struct vmm_stream *stream);

#endif

/*
 * devmem_fixture.h - what the test_devmem_cache and test_devmem_deferred programs share, on top
 * of copy_fixture.h: streams that are busy until they are let go, frees on other threads, and what the
 * simulated driver has counted.
 */
#ifndef TURBO_TEST_DEVMEM_FIXTURE_H
#define TURBO_TEST_DEVMEM_FIXTURE_H

#include "copy_fixture.h"

#include <pthread.h>

/* More of sim.h; NULL on a real driver. */
struct devmem_sim {
	uint64_t (*live_bytes)(int device);
	uint64_t (*peak_bytes)(int device);
	uint64_t (*free_waits)(void);
	uint64_t (*launch_delay_ns_max)(void);
	void (*reset)(void);
};
extern struct devmem_sim dsim;

void devmem_open(void);

/* Real calls so far, or 0 where nobody counts them. */
uint64_t real_allocs(void);
uint64_t real_frees(void);
uint64_t hits(void);

/* Stops the stream until busy_end(), at most 20 s. One at a time. */
void busy_begin(CUstream stream);
void busy_end(void);

/* cuMemFree on a thread of its own, with `ctx` current there (NULL: none). */
struct freeing {
	pthread_t thread;
	CUcontext ctx;
	CUdeviceptr p;
	CUresult result;
	_Atomic int done;
};
void freeing_begin(struct freeing *f, CUcontext ctx, CUdeviceptr p);
CUresult freeing_end(struct freeing *f);

size_t free_bytes(void);
/* Waits until `value()` is `want`, at most `ms`; what it is at last. */
uint64_t becomes(uint64_t (*value)(void), uint64_t want, unsigned ms);

#endif

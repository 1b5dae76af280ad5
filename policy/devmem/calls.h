/*
 * calls.h - REAL() as in real.h, counted: included in its place by whatever allocates, frees or
 * waits for device memory, so that the counter says how often the driver was needed.
 */
#ifndef TURBO_DEVMEM_CALLS_H
#define TURBO_DEVMEM_CALLS_H

#include <cuda.h>

#include "events.h"
#include "real.h"
#include "stats.h"

static inline void *calls_get(enum hook_id id)
{
	stats_add(STATS_DEVMEM_DRIVER_CALLS, 1);
	return real_get(id);
}

#undef REAL
#define REAL(sym) ((__typeof__(&sym))calls_get(HOOK_##sym))

/* A free of `bytes`, 0: not known; told to the timeline. */
static inline CUresult calls_free(CUdeviceptr base, size_t bytes)
{
	uint64_t since = events_begin();
	CUresult r = REAL(cuMemFree_v2)(base);

	events_end(EVENT_DEVMEM_FREE, since, bytes, r != CUDA_SUCCESS);
	return r;
}

#endif

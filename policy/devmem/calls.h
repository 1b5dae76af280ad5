/*
 * calls.h - REAL() as in real.h, counted: included in its place by whatever allocates, frees or
 * waits for device memory, so that the counter says how often the driver was needed.
 */
#ifndef TURBO_DEVMEM_CALLS_H
#define TURBO_DEVMEM_CALLS_H

#include "real.h"
#include "stats.h"

static inline void *calls_get(enum hook_id id)
{
	stats_add(STATS_DEVMEM_DRIVER_CALLS, 1);
	return real_get(id);
}

#undef REAL
#define REAL(sym) ((__typeof__(&sym))calls_get(HOOK_##sym))

#endif

/*
 * sim_vmm.h - what the files of virtual memory management share. sim.lock held for all.
 */
#ifndef SIM_VMM_H
#define SIM_VMM_H

#include "sim_internal.h"

#pragma GCC visibility push(hidden)

struct sim_reservation {
	uintptr_t base;
	size_t size;
};

/* The reservation that [at, at + size) lies in, or NULL. */
struct sim_reservation *sim_reservation_of(uintptr_t at, size_t size);
/* What a handle is of, or NULL. */
struct sim_phys *sim_handle_phys(CUmemGenericAllocationHandle handle);

static inline bool sim_granular(uint64_t n)
{
	return n && n % SIM_GRANULARITY == 0;
}

#pragma GCC visibility pop
#endif

/*
 * sim_cost.h - calls that take as long as real ones.
 */
#ifndef SIM_COST_H
#define SIM_COST_H

#include "sim_internal.h"

#pragma GCC visibility push(hidden)

enum sim_cost {
	COST_ALLOC,
	COST_FREE,
	COST_CREATE,
	COST_MAP,
	COST_ACCESS,
	COST_LAUNCH,
	COST_RECORD,
	COST_WAIT,
	COST_QUERY
};

void sim_cost_spin(enum sim_cost what, uint64_t bytes, int times);

/* Spins as long as the call takes for that size, so many times over. Never with sim.lock held. */
static inline void sim_cost(enum sim_cost what, uint64_t bytes, int times)
{
	if (sim_conf.costs)
		sim_cost_spin(what, bytes, times);
}

#pragma GCC visibility pop
#endif

/*
 * flight_ring.h - a communicator's ring of operations: one is written whole, changed, or over.
 *
 * Written by the thread that issues, by the sampler (times) and by the copier (`started` and `done` of the communicator);
 * two that issue in one communicator at once are an error of the program, which does no harm here.
 */
#ifndef TURBO_FLIGHT_RING_H
#define TURBO_FLIGHT_RING_H

#include <stdint.h>

#include "flight_page.h"

/* Which operation stands there. Relaxed. */
static inline uint64_t ring_index(const struct flight_op *op)
{
	return __atomic_load_n(&op->index, __ATOMIC_RELAXED);
}

/* `what`, whole, in its place. */
struct flight_op *ring_write(struct flight_comm *comm, struct flight_op *what);
/* Operation `index`, if it is there still, gets these flags and this launch. */
void ring_change(struct flight_comm *comm, uint64_t index, uint8_t flags, uint32_t launch);
/* It becomes the nth of a group. */
void ring_group(struct flight_comm *comm, uint64_t index, uint32_t group, uint16_t nth);
/* To `value`, unless it is there already. */
void ring_raise(_Atomic uint64_t *to, uint64_t value);

/* The operation is over by itself (returned, refused, captured). */
void ring_over(struct flight_comm *comm, struct flight_op *op, uint64_t now);
/* Moves `started` and `done` on over operations that are over. */
void ring_tidy(struct flight_comm *comm);

#endif

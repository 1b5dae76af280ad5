/*
 * comms.h - the places of communicators in the flight record, and what of them is nobody else's business.
 */
#ifndef TURBO_COMMS_H
#define TURBO_COMMS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "flight.h"

#define COMMS_PEERS 1024 /* sends to and receives from higher ranks are not numbered */

/* The page and its communicators, in one piece of memory laid out as the file is. */
#define COMMS_OFF ((sizeof(struct flight_page) + 4095) / 4096 * 4096)
#define COMMS_BYTES (COMMS_OFF + FLIGHT_COMMS * sizeof(struct flight_comm))

/* Beside each place. All relaxed but for what is said. */
struct comm_private {
	_Atomic uintptr_t handle;   /* 0: none; release when the place is the handle's, acquire */
	_Atomic uintptr_t caller;   /* address in the code that made it */
	_Atomic uint32_t taken;     /* 0: no thread has it; by compare-and-swap */
	_Atomic uint32_t children;  /* split, shrunk and grown from it so far */
	_Atomic uint64_t next;      /* index of the newest operation begun */
	_Atomic uint64_t signature; /* after the newest collective call */
	_Atomic uint64_t unsettled; /* index of the newest call that only NCCL knows to be done; 0: none */
	_Atomic uint32_t paired;    /* 1: `pair` is not all 0 */
	_Atomic uint32_t pair[2][COMMS_PEERS]; /* sends to, receives from each */
} __attribute__((aligned(64)));

static inline struct flight_comm *comms_at(struct flight_page *page, unsigned place)
{
	return (struct flight_comm *)(void *)((char *)page + COMMS_OFF) + place;
}

/* Of a place. */
struct comm_private *comms_private(const struct flight_comm *comm);

/* Well mixed: each bit of `value` changes half of the result's. */
uint64_t comms_mix(uint64_t hash, uint64_t value);

/* Rank, ranks and device as NCCL knows them; `comm` is ready. `caller` names the copy of NCCL. */
void comms_learn(struct flight_comm *comm, void *handle, const void *caller);

/* Its management calls up to now are done. */
void comms_settle(struct flight_comm *comm);

/* The call that makes a communicator has come to an end: `handle` as NCCL stored it. */
void comms_finish(struct flight_comm *comm, void *handle, int result, const void *caller);

#endif

/*
 * ring.h - the pinned staging memory of one context, cut into slots.
 *
 * A slot is free, held by one copy, or in flight: the last DMA that uses it may
 * not have run, which its event tells. A copy takes all the slots it will use
 * before it starts and waits for nobody else's, so copies that hold slots cannot
 * wait for one another.
 */
#ifndef TURBO_COPY_RING_H
#define TURBO_COPY_RING_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tune.h"

enum slot_state {
	SLOT_FREE,
	SLOT_HELD,      /* owned by one caller */
	SLOT_IN_FLIGHT, /* free once `fence` has passed */
	SLOT_LOST,      /* completion could not be learned: never used again */
};

struct copy_slot {
	unsigned char *mem; /* COPY_SLOT_BYTES, registered; slots are adjacent in memory */
	CUevent own;        /* timing disabled; recorded by the holder */
	/* While in flight: the event behind the last DMA that uses the slot, which is that
	 * of one of the slots the same copy held. If it has been recorded anew since, the
	 * slot's own DMA is over and it only looks busy for longer. Written by the holder
	 * before `state`. */
	CUevent fence;
	uint64_t ticket; /* of the ring_give() that set it; never 0, no two are equal */
	/* CAS to HELD with acquire (the last holder's use is over), any store by the
	 * holder with release. Read by every caller that looks for slots. */
	_Atomic int state;
};

enum ring_state { RING_NONE, RING_BUILDING, RING_READY, RING_FAILED };

struct copy_ring {
	/* Release after everything below is filled in; acquire by ring_get(). */
	_Atomic int state;
	_Atomic int users; /* calls that hold the ring; seq_cst against `state` */
	_Atomic(CUcontext) ctx;
	unsigned long long ctx_id; /* cuCtxGetId: tells a recycled handle apart; 0 if unknown */
	int device;
	bool primary;       /* of `device` */
	bool early_reads;   /* the driver's own rule applies: 2 MiB may be read early */
	CUstream stream_in; /* ours, non-blocking: chunks whose turn has come */
	CUstream stream_out;
	unsigned char *mem;
	size_t mem_bytes;
	unsigned slots;
	struct copy_slot slot[COPY_SLOTS_MAX];
};

/*
 * The ready ring of the current context, built at its first use; NULL when there
 * is no context, the ring failed, the device needs none (ATS), or another thread
 * is building it. Must be returned with ring_put().
 */
struct copy_ring *ring_get(void);
void ring_put(struct copy_ring *ring);

/* Takes up to `want` adjacent slots and returns how many; fewer than `least`: none (0). */
unsigned ring_take(struct copy_ring *ring, struct copy_slot **out, unsigned want, unsigned least);
/* Gives slots back: free now, or when `fence` has passed. */
void ring_give(struct copy_slot **slots, unsigned n, CUevent fence);
/* Their DMAs cannot be accounted for: never used again. */
void ring_lose(struct copy_slot **slots, unsigned n);

/* The context is going or gone: see struct policy. */
void ring_context_gone(CUcontext ctx, int device);
void ring_fork_child(void);

#endif

/*
 * cache_defer.h - freed blocks that the device may still use (TURBO_DEVMEM=deferred).
 *
 * cuMemFree puts its block into the context's open batch and returns. A batch is closed with a fence
 * when it has BATCH_BLOCKS blocks or a share of what may be kept, or when an allocation wants one of them; once
 * the fence has passed its blocks are cached like any others. While a capture is live batches are
 * parked: no fence is recorded, none is looked at.
 *
 * A fence that cannot be recorded or looked at makes the space `faulted` (cache_fault.h): the next cuMemFree then
 * waits for the device, as in mode cache, and either everything is settled or what was pending is the driver's to
 * free, and its error the program's.
 */
#ifndef TURBO_DEVMEM_CACHE_DEFER_H
#define TURBO_DEVMEM_CACHE_DEFER_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache_batch.h"

struct space;
struct block;

/* Guarded by the space's lock, but `pending`. */
struct defer {
	struct batch *open;
	struct batch_list parked; /* no fence yet; oldest first */
	struct batch_list closed; /* in the order of their fences, so the first passes first */
	bool recording, looking;  /* a thread does, without the lock: it alone touches the first one */
	_Atomic bool stuck;       /* an allocation has waited in vain, and nothing has passed since */
	bool no_spares;           /* the driver has run out of memory: no block beyond what is needed */
	uint32_t wanted;          /* the bin that the open batch was closed for last, */
	unsigned streak;          /* and how often in a row */
	struct batch *emptied;    /* for the next open batch; NULL: none */
	_Atomic size_t pending;   /* bytes in all of them; written under the lock, read relaxed */
};

/* Lock held: the block is PENDING from now on. False: no memory for a batch, nothing was done. */
bool defer_put(struct space *s, struct block *b);
/* Lock held: the open batch should be closed. */
bool defer_due(const struct space *s);
/* Lock held, the context is gone: forgets all without a driver call. */
void defer_forget(struct space *s, bool left);

/* ---- no lock held, the space is held ---- */

/* Closes what is open and caches what has passed. Nothing while a capture is live. */
void defer_advance(struct space *s);
/* What an allocation that found nothing cached gets from batches that have passed, at once, or after a
 * bounded wait when more is kept and pending than may be. NULL: nothing. */
struct block *defer_take(struct space *s, size_t rounded, size_t asked);
/* For an allocation that would fail otherwise: caches what has passed, and grants no spares any more. */
void defer_squeeze(struct space *s);
/* Waits until nothing is pending; bounded. */
void defer_drain(struct space *s);
/* A faulted space: waits for the device. What it answers, for the program when it is an error; what is pending is
 * really freed then, unless the driver refuses. */
CUresult defer_settle(struct space *s);

#endif

/*
 * fence.h - a point in the work of a context and of those that may use its memory.
 *
 * An event recorded on each of these contexts as a whole (cuCtxRecordEvent): it has passed
 * when everything has been done that was submitted to them before. Events come from a pool in
 * each space; those of a context that ends go with it.
 *
 * The caller holds the space, no lock, and has put its thread into relaxed mode, in which the
 * calls are allowed whatever others capture. cuCtxRecordEvent itself breaks captures of its context
 * in any mode: nobody records while one is live.
 */
#ifndef TURBO_DEVMEM_FENCE_H
#define TURBO_DEVMEM_FENCE_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

struct space;

#define FENCE_MOST 17    /* an owner and 16 peers: NVSwitch systems have 16 devices */
#define FENCE_EVENTS 128 /* unused ones that a space keeps; more are destroyed */

struct fence {
	unsigned n; /* events that have not passed */
	struct {
		struct space *space;
		unsigned life; /* the space's, when this was recorded */
		CUevent event;
	} at[FENCE_MOST];
};

struct fence_pool { /* guarded by the space's lock */
	unsigned n;
	CUevent event[FENCE_EVENTS];
};

enum fence_state { FENCE_PASSED, FENCE_AHEAD, FENCE_FAILED };

/* False: the fence is empty, and nothing may be concluded. */
bool fence_record(struct fence *fence, struct space *owner);
/* Never waits. Events that have passed go back to their pools. */
enum fence_state fence_look(struct fence *fence);
/* Gives the events back, passed or not. */
void fence_drop(struct fence *fence);

#endif

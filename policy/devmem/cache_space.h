/*
 * cache_space.h - what tier A keeps of one context: a space.
 *
 * Blocks belong to the context that allocated them and are handed out there only. A space is
 * made when a context first allocates, and forgotten when the context ends.
 *
 * A thread that uses a space holds it (space_get, space_hold): the end of the context waits for
 * such threads, at most two seconds. `lock` guards what its comment says; no driver call is made
 * under it, and no other lock but the table's is taken under it.
 */
#ifndef TURBO_DEVMEM_CACHE_SPACE_H
#define TURBO_DEVMEM_CACHE_SPACE_H

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache_bins.h"
#include "cache_defer.h"
#include "fence.h"

#define SPACES 64 /* contexts; more pass through. One bit each in a mask. */
#define SPACE_DEVICES 64

enum space_state {
	SPACE_NONE,
	SPACE_BUILDING,
	SPACE_READY,
	SPACE_UNUSABLE, /* of a context that we cannot serve: its calls pass through */
	SPACE_LEFT,     /* its context ended under a call that did not come back: never used again */
};

struct space {
	_Atomic int state; /* enum space_state; release when READY */
	_Atomic unsigned users;
	_Atomic CUcontext ctx;
	_Atomic unsigned life; /* counts the contexts that have ended here; written under the lock */
	/* Constant while READY. */
	int device;
	unsigned long long ctx_id; /* cuCtxGetId; 0: not known */
	bool primary;

	pthread_mutex_t lock; /* guards all below, and the blocks of the space */
	struct bins bins;     /* CACHED blocks by size */
	struct block *oldest; /* the same by age */
	struct block *newest;
	size_t cached;        /* their bytes */
	_Atomic bool faulted; /* cache_fault.h; written under the lock */
	size_t slack;         /* bytes that LIVE blocks have beyond what would have been asked of the driver */
	struct defer defer;   /* freed blocks whose fence has not passed */
	struct fence_pool events;
};

extern struct space spaces[SPACES];

/* The space of the thread's current context, made when it is new, held; NULL: none, or it is
 * not served. Any thread. `current` gets the context (NULL: none). */
struct space *space_get(CUcontext *current);
/* Holds a space that may be on its way out; false: it is gone. */
bool space_hold(struct space *s);
void space_put(struct space *s);
/* The space of a context that need not be current, made when it is new, held or NULL. */
struct space *space_of_context(CUcontext ctx);
/* The space of a context if it has one, held. No driver call. */
struct space *space_known(CUcontext ctx);

/*
 * Around driver calls of ours: makes the context current when it is not and puts the thread into relaxed mode, so that a capture of another thread neither
 * refuses the calls nor is broken by them. False: nothing was changed.
 */
struct space_call {
	bool pushed;
	CUstreamCaptureMode mode;
};
bool space_enter(struct space *s, struct space_call *call);
void space_leave(const struct space_call *call);

/* The spaces of the contexts that may use its memory, by peer access or because they are of its device, held: space_put() each. -1: not all are
 * to be had, so the driver must free its blocks. */
#define SPACE_PEERS 32
int space_peers(struct space *s, struct space *peers[SPACE_PEERS]);

/* Waits until all work is done that was submitted so far in the context and in those that may
 * use its memory. Blocks as cuCtxSynchronize does. The context's own error, or INVALID_CONTEXT when another one
 * cannot be waited for. */
CUresult space_barrier(struct space *s);

/* Known to be a primary context, which cuCtxDestroy does not destroy. */
bool space_is_primary(CUcontext ctx);
/* See struct policy. */
void space_context_gone(CUcontext ctx, int device);
void space_fork_child(void);

/* Bytes of a device; 0: unknown. */
size_t space_device_bytes(int device);

#endif

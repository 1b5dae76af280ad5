/*
 * answers_peers.h - which contexts may use the memory of another one (cuCtxEnablePeerAccess).
 *
 * A kernel of a context with access may still use a block when the owning context is idle, so
 * the barrier at a free is over both.
 */
#ifndef TURBO_ANSWERS_PEERS_H
#define TURBO_ANSWERS_PEERS_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

#define PEERS_MAX 128 /* of one context; NVSwitch systems have 16 devices */

/*
 * The contexts that may use memory of `owner`, without `owner` itself: at most `room` are stored, the
 * number of all is returned. More than `room`: not all are known, so treat the block as one
 * that the driver must free. Any thread; one load while no access was ever enabled. A context
 * may have died without our hearing of it: the driver then calls it invalid or destroyed, and
 * peers_forget() drops it.
 */
size_t peers_of(CUcontext owner, CUcontext *peers, size_t room);

/* `accessor` may use the memory of `owner` from now on, or no longer. */
void peers_set(CUcontext owner, CUcontext accessor, bool enabled);

/* The context is gone. */
void peers_forget(CUcontext ctx);

/* In a forked child, where nothing of it is needed: async-signal-safe. */
void peers_fork_child(void);

#endif

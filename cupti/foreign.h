/*
 * foreign.h - what other clients of CUPTI in this process do, as our hooks see it.
 *
 * Kept whether we record or not, so that recording can begin at any time. A profiler keeps its subscription and its
 * callbacks when it stops (PyTorch's does): it is gone when what it had enabled is disabled.
 */
#ifndef TURBO_CUPTI_FOREIGN_H
#define TURBO_CUPTI_FOREIGN_H

#include <stdbool.h>
#include <stdint.h>

/* shim/cupti.c, after a call that succeeded. Any thread. */
void foreign_subscribed(bool on);
void foreign_kind(uint32_t kind, bool on);
void foreign_api(bool runtime, uint32_t callback, bool on);
/* Whatever it had enabled is off, its callbacks and subscriptions are no more. */
void foreign_finalized(void);

/* A call comes in, and has returned. */
void foreign_begin(void);
void foreign_end(void);

/* Something is enabled. */
bool foreign_busy(void);
bool foreign_holds_subscription(void);
/* There has been a call since the start or the last foreign_finalized(). */
bool foreign_ever(void);
/* ns since the last call has returned; 0: one is under way. */
uint64_t foreign_quiet_ns(void);

#endif

/*
 * hold.h - one writer of the recording at a time, without a lock that could be lost.
 *
 * The holder may end without leaving, or be interrupted by a handler that wants to hold as well; neither
 * makes others wait for ever. All keep errno.
 */
#ifndef TURBO_TIMELINE_HOLD_H
#define TURBO_TIMELINE_HOLD_H

#include <stdbool.h>

/* false: this thread holds already, or another one did not leave within a second. */
bool hold_take(void);
void hold_leave(void);
/* Nobody holds. Async-signal-safe. */
void hold_fork_child(void);

#endif

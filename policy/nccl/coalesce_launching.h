/*
 * coalesce_launching.h - who launches the all-gathers that wait, and who waits for that.
 *
 * Inside the guard. A launch waits where a queue of the device is full, and then for whoever the device waits for; that must not
 * be somebody who waits here. So nobody waits for longer than 2 s: then nothing is held back any more, and what comes goes on
 * beside the launch, as it would have beside a call of another thread that NCCL keeps waiting.
 */
#ifndef TURBO_COALESCE_LAUNCHING_H
#define TURBO_COALESCE_LAUNCHING_H

#include <stdbool.h>

#include "stats.h"

/* Something is held back. Relaxed: coalesce.h. */
bool launching_pending(void);

/* Calls may be held back. Never again once it is false. Any thread, relaxed. */
bool launching_accepts(void);
void launching_accept(bool on);

/* Launches what is held back. Where this thread is in a group of the program's own, the timer's does. */
void launching(enum stats_counter why);
void launching_elsewhere(void);

/* The lock of coalesce_held.h; false: not to be had in time. */
bool launching_lock(void);
void launching_locked(enum stats_counter why);

#endif

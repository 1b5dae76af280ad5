/*
 * coalesce_launching.h - who launches the all-gathers that wait, and who waits for that.
 *
 * Inside the guard. A launch waits where a queue of the device is full, and then for whoever the device waits for. That must not
 * be somebody who waits here, and would not wait without libturbo. So:
 *
 * - MUST: the thread that has issued what waits, who would be in that very call of NCCL else; who asks for what waits (its
 *   stream, its events, its communicator), or for all that the device does: their own call would wait for the same.
 * - MAY: whoever submits something else. After 2 s it goes on beside the launch, as it would beside a call of another thread
 *   that NCCL keeps waiting; nothing is held back any more from then on.
 * - TRY: whoever waits for something else.
 */
#ifndef TURBO_COALESCE_LAUNCHING_H
#define TURBO_COALESCE_LAUNCHING_H

#include <stdbool.h>

#include "stats.h"

enum patience { LAUNCHING_TRY, LAUNCHING_MAY, LAUNCHING_MUST };

/* Something is held back. Relaxed: coalesce.h. */
bool launching_pending(void);

/* Calls may be held back. Never again once it is false. Any thread, relaxed. */
bool launching_accepts(void);
void launching_accept(bool on);

/* Launches what is held back. Where this thread is in a group of the program's own, the timer's does. */
void launching(enum patience patience, enum stats_counter why);
void launching_elsewhere(void);

/* The lock of coalesce_held.h; false, never with MUST: not to be had in time. */
bool launching_lock(enum patience patience);
void launching_locked(enum stats_counter why);

#endif

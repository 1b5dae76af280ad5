/*
 * pinned_keeper.h - the thread that gives pinned memory back which nobody has asked for.
 *
 * A real free holds up every launch until the device is idle. So the keeper frees only what is old, or is too much,
 * and only when an event recorded on every context that we know has passed and the program has submitted nothing
 * since before these records, which is looked at again before each free. It makes no driver call while a
 * capture is live, inside pinned_keeper_quiet(), and on drivers without cuCtxRecordEvent.
 */
#ifndef TURBO_HOSTMEM_PINNED_KEEPER_H
#define TURBO_HOSTMEM_PINNED_KEEPER_H

#include <stdbool.h>

/* Something is kept. Any thread; some nanoseconds when the keeper runs. */
void pinned_keeper_wake(void);
/* See struct policy: waits for the call that it is in, at most two seconds. */
void pinned_keeper_quiet(bool on);
/* The program's thread has waited for its context: what is old goes back if the devices are idle. */
void pinned_keeper_after_wait(void);
/* All that is kept goes back if the devices are idle. The program's thread. */
void pinned_keeper_release_all(void);
/* The host's memory is short. */
bool pinned_keeper_tight(void);
void pinned_keeper_fork_child(void);

#endif

/*
 * keeper.h - the thread that gives idle memory back when the program makes no call that would.
 *
 * A real free holds up every launch until the device is idle. So the keeper frees only what has
 * been kept for CACHE_IDLE_NS, and only when an event recorded on every context of the device that we
 * know has passed and the program has submitted nothing since before these records, which
 * is looked at again before each free. It makes no driver call while a capture is live, inside keeper_quiet(), and
 * on drivers without cuCtxRecordEvent.
 */
#ifndef TURBO_DEVMEM_KEEPER_H
#define TURBO_DEVMEM_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

#include "cache_space.h"

/* cuda_ready. */
void keeper_start(void);
/* Something has been put into a cache. Any thread; some nanoseconds when the keeper runs. */
void keeper_wake(void);
/* No driver call by the keeper until quiet(false): waits for the one it is in, at most two seconds. Nests. */
void keeper_quiet(bool on);
/* Gives back what is old on the device of `s` if the device is idle now; for calls of the program that
 * have waited for the context. */
void keeper_after_wait(struct space *s);
/* Gives back all that is kept on a device that is idle now, whatever its age. The program's thread. */
void keeper_release_all(int device);
void keeper_fork_child(void);

#endif

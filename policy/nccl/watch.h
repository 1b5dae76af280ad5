/*
 * watch.h - the judge's thread: looks at what the ranks of this machine have recorded, five times a second.
 *
 * It makes no call into CUDA or NCCL and takes no lock of the program's, so nothing that is stuck there holds it up.
 * While every rank goes on it reads counters only, some 50 us a look.
 */
#ifndef TURBO_WATCH_H
#define TURBO_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#define WATCH_POLL_MS 200

/* Starts it, with the first communicator. `acts`: TURBO_NCCL_WATCHDOG=abort; `timeout`: TURBO_NCCL_TIMEOUT_S in ns, 0:
 * auto. Once; any thread. */
void nccl_watch_start(bool acts, uint64_t timeout);
/* The process exits: nothing is begun any more. Does not wait. */
void nccl_watch_stop(void);
void nccl_watch_fork_child(void);

#endif

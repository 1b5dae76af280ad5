/*
 * act.h - what is done about a verdict: the framework is told, and only when it does nothing, the job is ended.
 *
 * TURBO_NCCL_WATCHDOG=abort, and verdicts that act (judge.def). First the communicator answers
 * ncclCommGetAsyncError with ncclRemoteError, and ncclGetLastError with the verdict's line, so that the framework
 * raises its own exception with its own dump. If the process is still there and still stuck after the grace period,
 * all its communicators are aborted in one group from a disposable thread; if that does not return within its
 * deadline, SIGABRT.
 */
#ifndef TURBO_ACT_H
#define TURBO_ACT_H

#include <stdbool.h>
#include <stdint.h>

#include "flight_page.h"

/* PyTorch ends the process 65 s after the error (its own waits; FACTS), so not before 75 s. */
#define ACT_GRACE_S 80
#define ACT_ABORT_S 8 /* deadline of the abort */

/* Before anything is acted on; off until then, and each of the functions below one load. */
void act_start(void);

/*
 * Hook bodies ask: the result to answer ncclCommGetAsyncError with, 0: none, the real call says. Of a handle that
 * libturbo has aborted it is never 0, and no real call may be made with it: whatever moves data answers it, too.
 * Any thread.
 */
int act_async_error(const void *comm);
/* The text for ncclGetLastError, or NULL. Lives for ever. */
const char *act_last_error(const void *comm);
/* true: libturbo has aborted it, so abort, destroy, finalize and revoke answer ncclSuccess and do nothing. Asked after
 * flight_comm_ending(), which keeps libturbo off it from then on. */
bool act_tombstone(const void *comm);

/* The watch's thread: a verdict that acts stands on this communicator; `line` is copied. */
void act_verdict(struct flight_comm *comm, const char *line);
/* Each poll: goes on with what was begun. `stuck`: something in flight still does not complete. */
void act_poll(uint64_t now, bool stuck);

void act_fork_child(void);

#endif

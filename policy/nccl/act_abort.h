/*
 * act_abort.h - aborts all of this process's communicators, on a thread that may never come back.
 *
 * One after the other they may wait for each other, so they are aborted in one group (NCCL 2.22), in older ones each
 * by a thread of its own.
 */
#ifndef TURBO_ACT_ABORT_H
#define TURBO_ACT_ABORT_H

#include <stdbool.h>
#include <stdint.h>

#include "flight_page.h"

#define ACT_ABORTS FLIGHT_COMMS

struct act_abort {
	struct flight_comm *comm;
	void *handle;
	const void *caller; /* names the copy of NCCL */
};

/* `list` is copied; the communicators are not to be touched by anybody else from now on. `grouped`: NCCL can abort
 * in a group. Once at a time. false: there is no thread for it. */
bool act_abort_start(const struct act_abort *list, unsigned count, bool grouped);
/* All have come back. */
bool act_abort_done(void);

#endif

/*
 * client.h - libturbo as a client of CUPTI: what it enables, and how it steps aside for others.
 *
 * CUPTI serves one client at a time. So nothing of ours is held that another client would miss: no subscription; at
 * a foreign client's first call what we had enabled is disabled, our buffers are fetched and CUPTI's settings are
 * restored, all before that call goes on. We come back when the other client has disabled what it had enabled.
 *
 *     OFF --start--> ON --foreign call--> AWAY --resume--> ON --stop--> OFF
 *
 * Between two states stands MOVING, entered by compare-and-swap: one thread moves at a time, and makes CUPTI calls
 * meanwhile. No lock is held across them; who finds MOVING waits for it, a second at most, and then goes on regardless.
 */
#ifndef TURBO_CUPTI_CLIENT_H
#define TURBO_CUPTI_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include "record.h"

enum client { CLIENT_OFF, CLIENT_MOVING, CLIENT_ON, CLIENT_AWAY, CLIENT_DEAD };

enum client client_state(void);

struct client_setup {
	enum timeline_mode mode;
	bool whole_graphs; /* a record for a graph launch, none for its nodes */
};

/*
 * OFF to ON, or to AWAY when another client of this process is at work. CUPTI is bound, the ring is open. false: OFF, and
 * `why` says what is in the way. A thread of the program's in cuda_ready, or the helper.
 */
bool client_start(const struct client_setup *setup, char *why, size_t why_size);

/* To OFF: disables, and fetches what CUPTI has, also records without their end times. */
void client_stop(void);

/* Brackets for the helper's calls of CUPTI: false when it must not make any now. */
bool client_enter(void);
void client_leave(void);

/* A foreign client is about to call CUPTI; foreign_end() when that has returned. Its thread; any state. */
void client_yield(void);

/* The helper, each second while AWAY: goes on when the other client is gone. */
void client_resume(void);

/* true: client_enter() says no until quiet(false); waits for the helper to have left, a second at most. Nests. */
void client_quiet(bool on);

/* Recording ends with the process: as in a forked child, no call of CUPTI is made any more. Async-signal-safe. */
void client_dead(void);

#endif

/*
 * session.h - one recording: a file, CUPTI, libturbo's own events, and what happens each second.
 *
 * One thread at a time: the program's in cuda_ready, then the helper's alone.
 */
#ifndef TURBO_CUPTI_SESSION_H
#define TURBO_CUPTI_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record.h"

/* `dir`, `on_demand`: see recording.h. false: nothing is recorded, `why` says why. */
bool session_start(enum timeline_mode mode, bool on_demand, const char *dir, char *why, size_t why_size);
/* Ends in good order; what the program has launched and the device has not finished is lost, and counted. `exiting`:
 * CUPTI stays where it is. */
void session_stop(bool exiting);
/* Any thread. */
bool session_on(void);
/* The helper, every SESSION_TICK_MS. */
void session_tick(void);

/* Async-signal-safe. */
void session_fork_child(void);

#define SESSION_TICK_MS 200

#endif

/*
 * coalesce_held.h - the all-gathers that wait to be launched: of one communicator, on one stream, with the records of events
 * behind them.
 *
 * All functions but the questions: with the lock, inside the guard. The lock is held while a batch is launched, so that the
 * device sees what this process launches in the order of its calls; who cannot have it in time goes on without
 * (coalesce.c). Who only asks whether something is over, makes or destroys events, or aborts, never waits for it.
 */
#ifndef TURBO_COALESCE_HELD_H
#define TURBO_COALESCE_HELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coalesce.h"
#include "coalesce_comms.h"
#include "coalesce_events.h"
#include "coalesce_streams.h"

#define HELD_GATHERS 128 /* DESIGN: at least 64; NCCL takes more kernels for larger groups anyway */
#define HELD_RECORDS 256

struct gather_call {
	const void *from;
	void *to;
	size_t count;
	int type;
	size_t bytes; /* sent by a rank: count x size of type */
};

bool held_lock(uint64_t ns);
bool held_try(void);
void held_unlock(void);

/* Any thread, no lock: the answer may be old. */
CUstream held_stream(void);
uint64_t held_due(void);       /* when it is to be launched at the latest, 0: nothing waits */
const void *held_handle(void); /* ncclComm_t, NULL: nothing waits */
uint64_t held_number(void);    /* of the batch: another one when all of it is launched */
/* This thread has issued the newest that waits. */
bool held_is_mine(void);
/* What the batch's stream has waited for. Only by who was told that something is pending. */
struct gather_stream *held_place(void);

/* True when this call may wait behind what does: nothing waits, or the same communicator and stream, room, and no buffer that
 * another one writes. */
bool held_takes(const struct gather_comm *c, CUstream stream, const struct gather_call *call);
/* Appends it; agree_queue() has counted it. `ticket` is its operation in the flight record. */
void held_add(struct gather_comm *c, CUstream stream, struct gather_stream *place,
			  const struct gather_call *call, const struct flight_ticket *ticket);
/* False: there is no room. */
bool held_add_record(struct held_event *place, CUevent event);

/* Launches all of it, as the ranks agree. The program has had its answers: a failure is told later. */
void held_launch(void);
/* By the clock: what can go as a group; all of it when the oldest has waited for its time. */
void held_launch_ready(void);
/* Its communicator is being aborted: the records are made, and nothing else. */
void held_drop(void);

#endif

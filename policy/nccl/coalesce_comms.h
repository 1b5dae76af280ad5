/*
 * coalesce_comms.h - what is known of each communicator that all-gathers may wait for: whether its ranks agree, what it has
 * failed with, and which of its calls come alone.
 *
 * All by whoever holds the batch, but for what is said.
 */
#ifndef TURBO_COALESCE_COMMS_H
#define TURBO_COALESCE_COMMS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agree.h"
#include "agree_file.h"
#include "flight.h"

/* A call site is a size: in a framework all calls come from one place in its code. */
#define COMM_SITES 64

enum gather_state { GATHER_NEW, GATHER_IN, GATHER_OUT };

struct gather_comm {
	struct flight_comm *place;
	uint32_t life; /* of the place */
	enum gather_state state;
	bool
		connected; /* one of these is launched, by its own call: NCCL waits for the other ranks in no later one */
	bool complete;      /* all ranks have joined */
	void *handle;       /* ncclComm_t */
	const void *caller; /* names the copy of NCCL */
	unsigned ranks;
	struct agree agree;
	struct agree_file file;
	uint8_t alone[COMM_SITES]; /* launches of one in a row */
	uint8_t impatient;         /* times in a row that the other ranks did not come in time */
	uint32_t skipped;
	uint32_t begun; /* launches that a call of such a site was the first of, for a try now and then */
	/* ncclResult_t of a launch that the program had been told was fine. Release; any thread, acquire. */
	_Atomic int late;
	_Atomic uint32_t late_life;
	_Atomic bool
		aborted; /* its handle is dead: by any thread before it is; read before each launch. seq_cst */
};

/* `limit`, in bytes, counts for what is agreed on: ranks with another one do not join. NULL: the communicator is unknown, not
 * live, or its ranks cannot agree. */
struct gather_comm *coalesce_comms_get(const struct flight_call *call, uint64_t limit);
/* The place's, without a look at whether it is this communicator's; any thread. */
struct gather_comm *coalesce_comms_at(const struct flight_comm *place);
/* It takes no part from now on. Nothing is pending. */
void coalesce_comms_leave(struct gather_comm *c);
/* The communicator is about to end. Nothing is pending. */
void coalesce_comms_gone(struct gather_comm *c);

/* The process ends: no name is left behind. */
void coalesce_comms_stop(void);

/* Some other rank has not been heard of yet. */
bool coalesce_comms_complete(struct gather_comm *c);

unsigned coalesce_comms_site(uint64_t bytes);
/* Calls of this site are better launched at once. */
bool coalesce_comms_alone(struct gather_comm *c, unsigned site);
/* What its batch came to. */
void coalesce_comms_launched(struct gather_comm *c, unsigned site, bool alone);

/* It may pay to look for the other ranks; and whether it has. */
bool coalesce_comms_patient(struct gather_comm *c);
void coalesce_comms_waited(struct gather_comm *c, bool came);

/* Any thread. 0: none. */
int coalesce_comms_late(const void *handle);

#endif

/*
 * queues.h - the open launches of each communicator, in the order of its operations, and what their events say.
 * The sampler's alone.
 */
#ifndef TURBO_NCCL_QUEUES_H
#define TURBO_NCCL_QUEUES_H

#include <stdbool.h>

#include "launches.h"

/* A launch that was pushed. */
void queues_add(struct launch *launch);
/* Looks at all that is open and stores what came of it in the record. `enter` and `leave` stand around each driver
 * call; enter() false: no call is to be made now. Returns how many are still open. */
struct queues_driver {
	bool (*enter)(void);
	void (*leave)(void);
};
unsigned queues_look(const struct queues_driver *driver);

#endif

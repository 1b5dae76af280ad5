/*
 * route.h - which copies are ours.
 */
#ifndef TURBO_COPY_ROUTE_H
#define TURBO_COPY_ROUTE_H

#include <stdbool.h>

#include "copy.h"
#include "ring.h"

/*
 * Finds the direction of a unified copy and whether both ends are what we take:
 * pageable host memory, and plain memory of the ring's device that covers the
 * range. False after counting the reason.
 */
bool route_pointers(struct copy_call *call, const struct copy_ring *ring);

#endif

/*
 * turn.h - a copy's turn in the program's stream.
 */
#ifndef TURBO_COPY_TURN_H
#define TURBO_COPY_TURN_H

#include "copy.h"

/* The call is on the legacy default stream. */
bool turn_is_legacy(const struct copy_call *call);

/* Returns CUDA_SUCCESS once all earlier work of the call's stream is done, as the driver's
 * own pageable copies wait; 0.6 us on an idle stream. Any error is the driver's. */
CUresult turn_wait(const struct copy_call *call);

#endif

/*
 * tell_wait.h - a call of the program that waits for the device has returned: told to the timeline. While
 * nobody records that is one load and a branch. Keeps errno.
 */
#ifndef TURBO_TELL_WAIT_H
#define TURBO_TELL_WAIT_H

#include <cuda.h>

#include "events.h"
#include "guard.h"

/* `since` from events_begin(), before the call; `symbol` a literal. */
static inline void tell_wait(uint64_t since, const char *symbol, CUresult status)
{
	if (__builtin_expect(since != 0, 0) && !guard_inside())
		events_tell_span(EVENT_SYNC, since, 0, symbol, status != CUDA_SUCCESS);
}

#endif

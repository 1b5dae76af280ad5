/*
 * inside.h - around what a hook body does for libturbo: inside the guard, errno kept.
 */
#ifndef TURBO_INSIDE_H
#define TURBO_INSIDE_H

#include <errno.h>

#include "guard.h"

/* The errno that inside_end() puts back. */
static inline int inside_begin(void)
{
	guard_enter();
	return errno;
}

static inline void inside_end(int saved)
{
	errno = saved;
	guard_leave();
}

#endif

/*
 * fork.c - the child of fork().
 *
 * The child has one thread and a copy of every lock as it was, perhaps held by a
 * thread that does not exist. No lock is taken before fork (that could wait for a thread
 * that waits for the driver); each module makes itself usable again in the child.
 * Handlers do async-signal-safe work only: the parent may have threads.
 */
#include "fork.h"

#include <errno.h>
#include <pthread.h>

#include "capture.h"
#include "elfsym_fork.h"
#include "events.h"
#include "guard.h"
#include "life.h"
#include "real.h"
#include "stats.h"
#include "unwind.h"
#include "../policy/policy.h"

/* In order: the process state first, so that policies can ask it. */
static void (*const child_handlers[])(void) = {
	life_fork_child, events_fork_child, stats_fork_child,   elfsym_fork_child,
	real_fork_child, unwind_fork_child, capture_fork_child, policies_fork_child,
};

static void fork_child(void)
{
	int saved = errno;

	guard_enter();
	for (unsigned i = 0; i < sizeof(child_handlers) / sizeof(child_handlers[0]); i++)
		child_handlers[i]();
	guard_leave();
	errno = saved;
}

/* Bounded: see elfsym_fork.h. Nothing else is waited for. */
static void fork_prepare(void)
{
	int saved = errno;

	elfsym_fork_prepare();
	errno = saved;
}

void fork_start(void)
{
	pthread_atfork(fork_prepare, elfsym_fork_parent, fork_child);
}

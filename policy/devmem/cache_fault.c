/* cache_fault.c - see cache_fault.h. */
#define _GNU_SOURCE
#include "cache_fault.h"

static void set(struct space *s)
{
	pthread_mutex_lock(&s->lock);
	s->faulted = true;
	pthread_mutex_unlock(&s->lock);
}

void fault_seen(struct space *s, CUresult r)
{
	if (__builtin_expect(fault_is(r), 0))
		set(s);
}

/* A stream is not asked for its context, which may not be answered any more. */
void fault_told(CUresult r)
{
	if (!fault_is(r))
		return;
	for (unsigned i = 0; i < SPACES; i++) {
		if (!space_hold(&spaces[i]))
			continue;
		set(&spaces[i]);
		space_put(&spaces[i]);
	}
}

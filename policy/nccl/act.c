/* act.c - see act.h. Nothing is acted on yet. */
#include "act.h"

#include <stddef.h>

int act_async_error(const void *comm)
{
	(void)comm;
	return 0;
}

const char *act_last_error(const void *comm)
{
	(void)comm;
	return NULL;
}

bool act_tombstone(const void *comm)
{
	(void)comm;
	return false;
}

void act_fork_child(void) {}

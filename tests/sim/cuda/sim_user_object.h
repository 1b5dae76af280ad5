/*
 * sim_user_object.h - the program's objects that graphs hold. sim.lock held for all.
 */
#ifndef SIM_USER_OBJECT_H
#define SIM_USER_OBJECT_H

#include "sim_internal.h"

#pragma GCC visibility push(hidden)

struct sim_objects { /* with a reference each; one object may be there several times */
	struct sim_cmd **cmds;
	int count;
};

void sim_objects_clear(struct sim_objects *list);
bool sim_objects_copy(struct sim_objects *to, const struct sim_objects *from); /* false: out of memory */
/* A command that keeps them alive until it has run; NULL: there are none. */
struct sim_cmd *sim_objects_keep(const struct sim_objects *list);

#pragma GCC visibility pop
#endif

/*
 * own_env.c - see own_env.h.
 *
 * Taking it out. Other threads may be in getenv() by then, and in setenv(), which moves the list, so
 * neither unsetenv() nor a write into the list is safe. The entry's text is ours, though, and
 * stays where it is: it is overwritten in place with a mark that every engaged process has
 * anyway. A reader sees one or the other name, or a mixture that is nobody's; the text is
 * terminated at all times. If the program has set the variable anew, its own text is in the
 * list and ours is in nobody's way.
 *
 * Python copies the list when it starts, so os.environ keeps the variable, and a child that is
 * given a copy of os.environ gets it.
 */
#define _GNU_SOURCE
#include "own_env.h"

#include <stdlib.h>

static const char mark[] = "TURBO_ENGAGED=1"; /* shim/init.c */

bool own_env_put(struct own_env *e)
{
	if (e->size < sizeof(mark) || putenv(e->text) != 0)
		return false;
	__atomic_store_n(&e->there, 1, __ATOMIC_RELAXED);
	return true;
}

bool own_env_there(const struct own_env *e)
{
	return __atomic_load_n(&e->there, __ATOMIC_RELAXED);
}

bool own_env_take(struct own_env *e)
{
	if (!own_env_there(e) || !__atomic_exchange_n(&e->there, 0, __ATOMIC_RELAXED))
		return false;
	/* The name first: from then on nobody finds it. The terminating zero last. */
	for (size_t i = 0; i < sizeof(mark); i++)
		__atomic_store_n(&e->text[i], mark[i], __ATOMIC_RELAXED);
	return true;
}

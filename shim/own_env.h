/*
 * own_env.h - a variable that libturbo puts into the environment for a library that reads it once, and takes out again.
 */
#ifndef TURBO_OWN_ENV_H
#define TURBO_OWN_ENV_H

#include <stdbool.h>
#include <stddef.h>

/* static struct own_env e = OWN_ENV("NAME=value"): the text is the entry itself, so it lives as long as the process. */
struct own_env {
	char *text;
	size_t size;
	int there; /* it may be in the environment; relaxed, swapped by who takes it out */
};
#define OWN_ENV(entry)                                             \
	{                                                              \
		.text = (char[]){entry}, .size = sizeof(entry), .there = 0 \
	}

/* Constructor, one thread. The name must not be in the environment. */
bool own_env_put(struct own_env *e);
bool own_env_there(const struct own_env *e); /* any thread; one load */
/* Any thread; true for the one call that took it out. */
bool own_env_take(struct own_env *e);

#endif

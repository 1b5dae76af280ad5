/*
 * libc.h - functions of libc that we stand before, and who comes after us.
 *
 * They are caught by being exported, and in no other way: what a program looks up by name is left alone. The next definition
 * in load order is the real one: libc's, or that of a library which wraps it as we do.
 */
#ifndef TURBO_LIBC_H
#define TURBO_LIBC_H

enum libc_id {
#define LIBC_ROW(symbol) LIBC_##symbol,
#include "hook_libc.inc" /* generated of hooks.def */
#undef LIBC_ROW
	LIBC_COUNT
};

/* The function behind us, or NULL: there is none, or it cannot be looked for now. Never ours. Any thread; a walk over the
 * loaded objects the first time, a load after that. Allocates nothing, keeps errno and dlerror. */
void *libc_next(enum libc_id id);

/* Looks for all of them: the constructor. */
void libc_look(void);

#define LIBC_NEXT(symbol) ((__typeof__(&symbol))libc_next(LIBC_##symbol))

#endif

/*
 * libc.h - functions of libc that we stand before, and who comes after us.
 *
 * They are caught by being exported, and in no other way: what a program looks up by name is left alone. The next definition
 * in load order is the real one: libc's, or that of a library which wraps it as we do.
 */
#ifndef TURBO_LIBC_H
#define TURBO_LIBC_H

#include <stdbool.h>

enum libc_id {
#define LIBC_ROW(symbol) LIBC_##symbol,
#include "hook_libc.inc" /* generated of hooks.def */
#undef LIBC_ROW
	LIBC_COUNT
};

/* NULL: not looked for yet. Release, acquire. libc is never unloaded; nor, in practice, is a library that wraps it. */
extern void *libc_fn[LIBC_COUNT] __attribute__((visibility("hidden")));

/* The function behind us, or NULL: there is none, or it cannot be looked for now. Never ours. Any thread; a walk over the
 * loaded objects the first time, a load after that. Allocates nothing, keeps errno and dlerror. */
void *libc_next(enum libc_id id);

/* malloc and free come to us: no object before us has them. */
bool libc_allocator_is_ours(void);
/* The allocator behind us is glibc's own. */
bool libc_allocates(void);

/* Looks for all of them: the constructor. */
void libc_look(void);

static inline void *libc_get(enum libc_id id)
{
	void *fn = __atomic_load_n(&libc_fn[id], __ATOMIC_ACQUIRE);

	return __builtin_expect(fn != 0, 1) ? fn : libc_next(id);
}

/* NULL: not looked for yet. */
#define LIBC_KNOWN(symbol) ((__typeof__(&symbol))__atomic_load_n(&libc_fn[LIBC_##symbol], __ATOMIC_ACQUIRE))
#define LIBC_NEXT(symbol) ((__typeof__(&symbol))libc_get(LIBC_##symbol))

#endif

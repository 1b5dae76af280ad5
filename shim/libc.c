/* libc.c - see libc.h. */
#include "libc.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "elfsym.h"
#include "real.h"

static const char *const names[LIBC_COUNT] = {
#define LIBC_ROW(symbol) #symbol,
#include "hook_libc.inc"
#undef LIBC_ROW
};

/* NULL: not looked for yet. Release, acquire. libc is never unloaded; nor, in practice, is a library that wraps it. */
static void *next[LIBC_COUNT];

static int look(struct elfsym_object *object, unsigned index, void *arg)
{
	bool *behind = arg;
	unsigned missing = 0;

	(void)index;
	if (elfsym_contains(object, (const void *)&next)) {
		*behind = true;
		return 0;
	}
	for (unsigned id = 0; *behind && id < LIBC_COUNT; id++) {
		void *fn = __atomic_load_n(&next[id], __ATOMIC_RELAXED);
		if (!fn)
			fn = elfsym_find(object, names[id]);
		__atomic_store_n(&next[id], fn, __ATOMIC_RELEASE);
		missing += !fn;
	}
	return *behind && !missing;
}

/* All at once: a program may come to the others in a handler, or in a child where nothing can be looked for. */
void libc_look(void)
{
	bool behind = false;
	int saved = errno;

	elfsym_walk(look, &behind);
	errno = saved;
}

void *libc_next(enum libc_id id)
{
	void *fn = __atomic_load_n(&next[id], __ATOMIC_ACQUIRE);

	if (__builtin_expect(!fn, 0)) {
		libc_look();
		fn = __atomic_load_n(&next[id], __ATOMIC_ACQUIRE);
	}
	return fn;
}

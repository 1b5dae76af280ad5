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

void *libc_fn[LIBC_COUNT];

static const char *const allocators[] = {"malloc", "calloc", "realloc", "free", "posix_memalign"};
/* Another object before us has an allocator, or a part of one: the program itself, or a library preloaded before ours. */
static bool overtaken;

static int look(struct elfsym_object *object, unsigned index, void *arg)
{
	bool *behind = arg;
	unsigned missing = 0;

	(void)index;
	if (elfsym_contains(object, (const void *)&libc_fn)) {
		*behind = true;
		return 0;
	}
	for (unsigned i = 0; !*behind && i < sizeof(allocators) / sizeof(allocators[0]); i++)
		if (elfsym_find(object, allocators[i]))
			__atomic_store_n(&overtaken, true, __ATOMIC_RELAXED);
	for (unsigned id = 0; *behind && id < LIBC_COUNT; id++) {
		void *fn = __atomic_load_n(&libc_fn[id], __ATOMIC_RELAXED);
		if (!fn)
			fn = elfsym_find(object, names[id]);
		__atomic_store_n(&libc_fn[id], fn, __ATOMIC_RELEASE);
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
	libc_look();
	return __atomic_load_n(&libc_fn[id], __ATOMIC_ACQUIRE);
}

extern void *__libc_malloc(size_t) __attribute__((weak));

bool libc_allocator_is_ours(void)
{
	libc_get(LIBC_malloc);
	return !__atomic_load_n(&overtaken, __ATOMIC_RELAXED);
}

bool libc_allocates(void)
{
	return __libc_malloc && libc_get(LIBC_malloc) == (void *)__libc_malloc;
}

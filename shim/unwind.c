/*
 * unwind.c - libunwind on first use.
 *
 * Its header gives types and symbol names; its functions are taken from the loaded
 * object's symbol table. No lock of ours is held while the loader or libunwind runs.
 */
#include "unwind.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stddef.h>

#include "elfsym.h"
#include "log.h"
#include "lookup.h"

#if __has_include(<libunwind.h>)
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#endif

/* LLVM has a libunwind.h too, of another library. */
#ifdef UNW_TDEP_CURSOR_LEN

#define NAME_(symbol) #symbol
#define NAME(symbol) NAME_(symbol)

static struct {
	int (*init_local)(unw_cursor_t *, unw_context_t *);
	int (*step)(unw_cursor_t *);
	int (*get_reg)(unw_cursor_t *, unw_regnum_t, unw_word_t *);
	int (*set_caching_policy)(unw_addr_space_t, unw_caching_policy_t);
	unw_addr_space_t *local;
#ifdef __x86_64__
	int (*get_context)(unw_context_t *); /* elsewhere the header has it inline */
#endif
} lib;

/* Writers: the thread that moved NONE to LOADING, and the fork handler. Release when READY: a
 * reader that sees it sees `lib`. */
enum { NONE, LOADING, READY, MISSING };
static int state;

/* Threads inside libunwind; the fork handler must know (relaxed: fork() orders). */
static int running;

static int find_functions(struct elfsym_object *object, unsigned index, void *arg)
{
	const struct link_map *map = arg;

	(void)index;
	if ((const void *)object->dynamic != (const void *)map->l_ld)
		return 0;
	lib.init_local = elfsym_find(object, NAME(unw_init_local));
	lib.step = elfsym_find(object, NAME(unw_step));
	lib.get_reg = elfsym_find(object, NAME(unw_get_reg));
	lib.set_caching_policy = elfsym_find(object, NAME(unw_set_caching_policy));
	lib.local = elfsym_find_variable(object, NAME(unw_local_addr_space));
	if (!lib.init_local || !lib.step || !lib.get_reg)
		return -1;
#ifdef __x86_64__
	lib.get_context = elfsym_find(object, NAME(unw_tdep_getcontext));
	if (!lib.get_context)
		return -1;
#endif
	return 1;
}

static bool load(void)
{
	int flags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
	/* $ORIGIN is the folder of the object that calls, which is libturbo.so, even if its path
	 * was relative and the program has changed its directory. */
	void *handle = lookup_real_dlopen("$ORIGIN/libunwind.so.8", flags);

	if (!handle)
		handle = lookup_real_dlopen("libunwind.so.8", flags);
	/* In glibc a handle is the object's link map. It is never unloaded. */
	if (!handle || elfsym_walk(find_functions, handle) != 1)
		return false;
	/* Its cache has a lock that is held while the loader's is taken: a handler that interrupts a holder of the
	 * loader's must not wait for it. */
	if (lib.set_caching_policy && lib.local)
		lib.set_caching_policy(*lib.local, UNW_CACHE_NONE);
	return true;
}

static bool ready(void)
{
	int seen = __atomic_load_n(&state, __ATOMIC_ACQUIRE);

	if (seen == NONE &&
		__atomic_compare_exchange_n(&state, &seen, LOADING, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
		seen = load() ? READY : MISSING;
		__atomic_store_n(&state, seen, __ATOMIC_RELEASE);
		if (seen == MISSING)
			log_info("no call stacks: libunwind.so.8 cannot be loaded");
	}
	return seen == READY;
}

/* Not inlined: the first step must leave this frame and arrive in unwind_stack. */
static __attribute__((noinline)) int walk(void **frames, int max)
{
	unw_context_t context;
	unw_cursor_t cursor;
	int n = 0;

#ifdef __x86_64__
	lib.get_context(&context);
#else
	unw_getcontext(&context);
#endif
	if (lib.init_local(&cursor, &context) < 0)
		return 0;
	/* From walk() to unwind_stack(), then to its caller and on. */
	if (lib.step(&cursor) <= 0)
		return 0;
	while (n < max && lib.step(&cursor) > 0) {
		unw_word_t ip;
		if (lib.get_reg(&cursor, UNW_REG_IP, &ip) < 0 || ip == 0)
			break;
		frames[n++] = (void *)(uintptr_t)ip;
	}
	__asm__ volatile("" ::: "memory"); /* no tail call above: the frame lives until here */
	return n;
}

__attribute__((noinline)) int unwind_stack(void **frames, int max)
{
	int saved = errno, n = 0;

	if (max > 0 && ready()) {
		__atomic_fetch_add(&running, 1, __ATOMIC_RELAXED);
		n = walk(frames, max);
		__atomic_fetch_sub(&running, 1, __ATOMIC_RELAXED);
	}
	errno = saved;
	return n;
}

void unwind_fork_child(void)
{
	if (state == LOADING)
		state = NONE;
	/* A thread that is no more may hold libunwind's own locks. */
	if (running > 0)
		state = MISSING;
	running = 0;
}

#else

int unwind_stack(void **frames, int max)
{
	(void)frames;
	(void)max;
	log_once(LOG_INFO, "no call stacks: built without libunwind's header");
	return 0;
}

void unwind_fork_child(void) {}

#endif

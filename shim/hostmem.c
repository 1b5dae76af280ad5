/*
 * hostmem.c - bodies of the functions that allocate host memory: small and foreign memory is the business of the allocator
 * behind us, libc's or another that is loaded; large blocks are policy/hostmem's.
 *
 * These are called before our constructor, inside the loader, in signal handlers and in forked children. Nothing here but
 * what policy/hostmem/blocks.h promises: no lock that a caller may hold, no allocation, no thread-local storage that is not
 * there yet. Not in sanitizers' builds, whose runtimes have allocators of their own, nor in what unit tests link.
 */
#ifndef TURBO_SANITIZED
#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "guard.h"
#include "hooks.h"
#include "libc.h"
#include "../policy/hostmem/blocks.h"
#include "../policy/hostmem/hostmem.h"

/* glibc's own, for calls that come before any library can be looked through. */
extern void *__libc_malloc(size_t) __attribute__((weak));
extern void __libc_free(void *) __attribute__((weak));
extern void *__libc_calloc(size_t, size_t) __attribute__((weak));
extern void *__libc_realloc(void *, size_t) __attribute__((weak));
extern void *__libc_memalign(size_t, size_t) __attribute__((weak));

static inline bool large(size_t bytes)
{
	return __builtin_expect(bytes >= atomic_load_explicit(&blocks_min, memory_order_relaxed), 0);
}

static void *take(size_t bytes, bool zeroed)
{
	if (guard_inside())
		return NULL;
	guard_enter();
	void *p = blocks_take(bytes, zeroed);
	guard_leave();
	return p;
}

static __attribute__((noinline)) bool give(void *p)
{
	guard_enter();
	bool ours = blocks_give(p);
	if (ours)
		hostmem_kept();
	guard_leave();
	return ours;
}

/* malloc() and free() are called a million times a second: what is not a large block is a compare, two loads and a jump. */
static __attribute__((noinline)) void *malloc_slowly(size_t bytes)
{
	void *p = large(bytes) ? take(bytes, false) : NULL;
	void *(*const real)(size_t) = LIBC_NEXT(malloc);

	return p ? p : real ? real(bytes) : __libc_malloc(bytes);
}

TURBO_EXPORT void *malloc(size_t bytes)
{
	void *(*const real)(size_t) = LIBC_KNOWN(malloc);

	if (__builtin_expect(!real || bytes >= atomic_load_explicit(&blocks_min, memory_order_relaxed), 0))
		return malloc_slowly(bytes);
	return real(bytes);
}

static __attribute__((noinline)) void free_slowly(void *p)
{
	if (blocks_may_be(p) && give(p))
		return;
	void (*const real)(void *) = LIBC_NEXT(free);
	real ? real(p) : __libc_free(p);
}

TURBO_EXPORT void free(void *p)
{
	void (*const real)(void *) = LIBC_KNOWN(free);

	if (__builtin_expect(!real || ((uintptr_t)p & (BLOCKS_ALIGN - 1)) == 0, 0)) {
		free_slowly(p);
		return;
	}
	real(p);
}

TURBO_EXPORT void *calloc(size_t count, size_t each)
{
	size_t bytes;
	void *p;

	if (!__builtin_mul_overflow(count, each, &bytes) && large(bytes) && (p = take(bytes, true)))
		return p;
	void *(*const real)(size_t, size_t) = LIBC_NEXT(calloc);
	return real ? real(count, each) : __libc_calloc(count, each);
}

/* Of a block of ours. */
static __attribute__((noinline)) void *resize(void *p, size_t has, size_t bytes)
{
	void *to = NULL;

	if (bytes == 0) {
		free(p);
		return NULL;
	}
	if (bytes >= atomic_load_explicit(&blocks_min, memory_order_relaxed) / 2) {
		guard_enter();
		to = blocks_resize(p, bytes);
		guard_leave();
	}
	if (to)
		return to;
	to = malloc(bytes);
	if (!to)
		return NULL;
	memcpy(to, p, bytes < has ? bytes : has);
	free(p);
	return to;
}

TURBO_EXPORT void *realloc(void *p, size_t bytes)
{
	size_t has;

	if (!p)
		return malloc(bytes);
	if (__builtin_expect(blocks_may_be(p), 0) && (has = blocks_size(p)))
		return resize(p, has, bytes);
	/* What began with the other allocator stays there: it may be able to move pages. */
	void *(*const real)(void *, size_t) = LIBC_NEXT(realloc);
	return real ? real(p, bytes) : __libc_realloc(p, bytes);
}

/* libc's own calls realloc by its name, which may be somebody else's before us. */
TURBO_EXPORT void *reallocarray(void *p, size_t count, size_t each)
{
	void *(*const real)(void *, size_t, size_t) = LIBC_NEXT(reallocarray);
	size_t bytes;

	if (__builtin_mul_overflow(count, each, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return real && !large(bytes) && !blocks_may_be(p) ? real(p, count, each) : realloc(p, bytes);
}

static bool block_fits(size_t align, size_t bytes)
{
	return large(bytes) && align <= BLOCKS_ALIGN && (align & (align - 1)) == 0;
}

TURBO_EXPORT int posix_memalign(void **to, size_t align, size_t bytes)
{
	void *p;

	if (block_fits(align, bytes) && align >= sizeof(void *) && (p = take(bytes, false))) {
		*to = p;
		return 0;
	}
	int (*const real)(void **, size_t, size_t) = LIBC_NEXT(posix_memalign);
	if (real)
		return real(to, align, bytes);
	if (align < sizeof(void *) || (align & (align - 1)))
		return EINVAL;
	p = __libc_memalign(align, bytes);
	if (p)
		*to = p;
	return p ? 0 : ENOMEM;
}

#define ALIGNED(symbol)                                                   \
	TURBO_EXPORT void *symbol(size_t align, size_t bytes)                 \
	{                                                                     \
		void *p;                                                          \
		if (block_fits(align, bytes) && (p = take(bytes, false)))         \
			return p;                                                     \
		void *(*const real)(size_t, size_t) = LIBC_NEXT(symbol);          \
		return real ? real(align, bytes) : __libc_memalign(align, bytes); \
	}
ALIGNED(aligned_alloc)
ALIGNED(memalign)

#define PAGED(symbol, rounded)                                      \
	TURBO_EXPORT void *symbol(size_t bytes)                         \
	{                                                               \
		void *p;                                                    \
		if (large(bytes) && (p = take(bytes, false)))               \
			return p;                                               \
		void *(*const real)(size_t) = LIBC_NEXT(symbol);            \
		size_t page = (size_t)sysconf(_SC_PAGE_SIZE);               \
		return real ? real(bytes) : __libc_memalign(page, rounded); \
	}
PAGED(valloc, bytes)
PAGED(pvalloc, (bytes + page - 1) / page * page)

/* C23; older libcs have none, and then nobody calls them. */
void free_sized(void *p, size_t bytes);
void free_aligned_sized(void *p, size_t align, size_t bytes);
TURBO_EXPORT void free_sized(void *p, size_t bytes)
{
	void (*const real)(void *, size_t) = LIBC_NEXT(free_sized);

	if (blocks_may_be(p) && give(p))
		return;
	real ? real(p, bytes) : free(p);
}
TURBO_EXPORT void free_aligned_sized(void *p, size_t align, size_t bytes)
{
	void (*const real)(void *, size_t, size_t) = LIBC_NEXT(free_aligned_sized);

	if (blocks_may_be(p) && give(p))
		return;
	real ? real(p, align, bytes) : free(p);
}

TURBO_EXPORT size_t malloc_usable_size(void *p)
{
	size_t (*const real)(void *) = LIBC_NEXT(malloc_usable_size);
	size_t has = blocks_may_be(p) ? blocks_size(p) : 0;

	return has ? has : real && p ? real(p) : 0;
}
#endif

/*
 * hostmem.c - bodies of the functions that allocate host memory: small and foreign memory is the business of the allocator
 * behind us, libc's or another that is loaded; large blocks are policy/hostmem's.
 *
 * These are called before our constructor, inside the loader, in signal handlers and in forked children. Nothing here but
 * what policy/hostmem/blocks.h promises: no lock, no allocation. What is not a large block is a compare and a jump. Not in
 * sanitizers' builds, whose runtimes have allocators of their own, nor in what unit tests link. libturbo's own calls of these
 * names go where the program's go, which is elsewhere when another allocator is before us.
 */
#ifndef TURBO_SANITIZED
#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "guard.h"
#include "hooks.h"
#include "hostmem_early.h"
#include "libc.h"
#include "../policy/hostmem/blocks.h"
#include "../policy/hostmem/gate.h"

#define SLOW static __attribute__((noinline, cold))

/* Sizes that are looked at. */
static inline bool looked_at(size_t bytes)
{
	return __builtin_expect(bytes >= atomic_load_explicit(&hostmem_gate.min, memory_order_acquire), 0);
}

/* Addresses that are looked at. */
static inline bool may_be_ours(const void *p)
{
	uintptr_t limit = atomic_load_explicit(&hostmem_gate.limit, memory_order_acquire);

	return __builtin_expect(((uintptr_t)p & (GATE_GRANULE - 1)) < limit, 0);
}

/* The functions of the gate are there, or can be found. */
static bool known(void)
{
	return atomic_load_explicit(&hostmem_gate.min, memory_order_acquire) != 0 || early_find();
}

/* A large block; NULL: ask the program's allocator. */
static void *take(size_t bytes, size_t align, bool zeroed)
{
	void *p;

	if (!looked_at(bytes) || guard_inside())
		return NULL;
	guard_enter();
	p = blocks_take(bytes, align, zeroed);
	guard_leave();
	return p;
}

static bool give(void *p)
{
	bool ours;

	guard_enter();
	ours = blocks_give(p);
	guard_leave();
	return ours;
}

static void *no_memory(void)
{
	errno = ENOMEM;
	return NULL;
}

/* ---- malloc, calloc, free ---- */

SLOW void *malloc_slow(size_t bytes)
{
	void *p;

	if (!known()) {
		p = early_take(bytes, 16);
		return p ? p : no_memory();
	}
	p = take(bytes, 16, false);
	return p ? p : hostmem_gate.malloc(bytes);
}

TURBO_EXPORT void *malloc(size_t bytes)
{
	return looked_at(bytes) ? malloc_slow(bytes) : hostmem_gate.malloc(bytes);
}

SLOW void *calloc_slow(size_t count, size_t each)
{
	size_t bytes;
	void *p = NULL;
	bool too_much = __builtin_mul_overflow(count, each, &bytes);

	if (!known()) {
		p = too_much ? NULL : early_take(bytes, 16);
		return p ? p : no_memory();
	}
	if (!too_much)
		p = take(bytes, 16, true);
	return p ? p : hostmem_gate.calloc(count, each);
}

TURBO_EXPORT void *calloc(size_t count, size_t each)
{
	size_t bytes;

	if (__builtin_expect(__builtin_mul_overflow(count, each, &bytes), 0) || looked_at(bytes))
		return calloc_slow(count, each);
	return hostmem_gate.calloc(count, each);
}

SLOW void free_slow(void *p)
{
	if (!p || early_size(p) || !known() || give(p))
		return;
	hostmem_gate.free(p);
}

TURBO_EXPORT void free(void *p)
{
	if (may_be_ours(p))
		free_slow(p);
	else
		hostmem_gate.free(p);
}

/* ---- realloc ---- */

SLOW void *copy_to(void *to, void *from, size_t has, size_t bytes)
{
	if (to) {
		memcpy(to, from, bytes < has ? bytes : has);
		free_slow(from);
	}
	return to;
}

/* Of a block of ours that has `has` bytes. */
SLOW void *resize(void *p, size_t has, size_t bytes)
{
	void *to;

	if (bytes == 0) { /* what the allocator behind us makes of that: nothing, or a block without bytes */
		to = hostmem_gate.malloc(1);
		if (to)
			to = hostmem_gate.realloc(to, 0);
		give(p);
		return to;
	}
	if (looked_at(bytes) || bytes > has / 2) {
		guard_enter();
		to = blocks_resize(p, bytes);
		guard_leave();
		if (to)
			return to;
	}
	to = copy_to(malloc(bytes), p, has, bytes);
	return !to && bytes <= has ? p : to;
}

/* In our hands: a block of ours, or of the first allocations. 0: neither. */
static size_t has_here(void *p)
{
	size_t has = p ? early_size(p) : 0;

	return has || !p ? has : blocks_size(p);
}

SLOW void *realloc_here(void *p, size_t has, size_t bytes)
{
	return early_size(p) ? copy_to(malloc(bytes), p, has, bytes) : resize(p, has, bytes);
}

SLOW void *realloc_slow(void *p, size_t bytes)
{
	bool can = known();
	size_t has = has_here(p);

	if (has)
		return realloc_here(p, has, bytes);
	if (!can) {
		p = p ? NULL : early_take(bytes, 16);
		return p ? p : no_memory();
	}
	/* What began with the other allocator stays there: it may be able to move pages, as glibc does. */
	void *block = p ? NULL : take(bytes, 16, false);
	return block ? block : hostmem_gate.realloc(p, bytes);
}

TURBO_EXPORT void *realloc(void *p, size_t bytes)
{
	return may_be_ours(p) ? realloc_slow(p, bytes) : hostmem_gate.realloc(p, bytes);
}

/* libc's own calls realloc by its name, which is another allocator's when that one is before us and lacks this. */
TURBO_EXPORT void *reallocarray(void *p, size_t count, size_t each)
{
	void *(*real)(void *, size_t, size_t);
	size_t bytes, has;

	if (__builtin_mul_overflow(count, each, &bytes))
		return no_memory();
	if (may_be_ours(p)) {
		bool can = known();
		has = has_here(p);
		if (has || !can || (!p && looked_at(bytes)))
			return has ? realloc_here(p, has, bytes) : realloc_slow(p, bytes);
	}
	real = LIBC_KNOWN(reallocarray);
	return real ? real(p, count, each) : hostmem_gate.realloc(p, bytes);
}

/* ---- aligned ---- */

static bool power_of_two(size_t n)
{
	return n != 0 && (n & (n - 1)) == 0;
}

SLOW int posix_memalign_slow(void **to, size_t align, size_t bytes)
{
	int (*real)(void **, size_t, size_t);
	void *p = NULL;
	bool valid = power_of_two(align) && align >= sizeof(void *);

	if (!known()) {
		p = valid ? early_take(bytes, align) : NULL;
		if (p)
			*to = p;
		return p ? 0 : valid ? ENOMEM : EINVAL;
	}
	if (valid)
		p = take(bytes, align, false);
	real = hostmem_gate.posix_memalign;
	if (!p && real)
		return real(to, align, bytes);
	if (!p)
		return valid ? ENOMEM : EINVAL;
	*to = p;
	return 0;
}

TURBO_EXPORT int posix_memalign(void **to, size_t align, size_t bytes)
{
	int (*const real)(void **, size_t, size_t) = hostmem_gate.posix_memalign;

	return looked_at(bytes) || !real ? posix_memalign_slow(to, align, bytes) : real(to, align, bytes);
}

/* What is odd about an alignment is the allocator's to judge. */
#define ALIGNED(symbol)                                                \
	TURBO_EXPORT void *symbol(size_t align, size_t bytes)              \
	{                                                                  \
		void *p = NULL;                                                \
		if (looked_at(bytes) && !known())                              \
			p = power_of_two(align) ? early_take(bytes, align) : NULL; \
		else if (looked_at(bytes) && power_of_two(align))              \
			p = take(bytes, align, false);                             \
		void *(*const real)(size_t, size_t) = LIBC_KNOWN(symbol);      \
		return p ? p : real ? real(align, bytes) : no_memory();        \
	}
ALIGNED(aligned_alloc)
ALIGNED(memalign)

#define PAGED(symbol)                                     \
	TURBO_EXPORT void *symbol(size_t bytes)               \
	{                                                     \
		void *p = NULL;                                   \
		if (looked_at(bytes) && !known())                 \
			p = early_take(bytes, 4096);                  \
		else if (looked_at(bytes))                        \
			p = take(bytes, 4096, false);                 \
		void *(*const real)(size_t) = LIBC_KNOWN(symbol); \
		return p ? p : real ? real(bytes) : no_memory();  \
	}
PAGED(valloc)
PAGED(pvalloc)

/* ---- the rest ---- */

/* C23. A libc that is older has none, and then hardly anybody calls them. Then it is free() by its name, which is another
 * allocator's when that one is before us and lacks these; volatile: the compiler must not take ours. */
static void (*const volatile free_by_name)(void *) = free;

void free_sized(void *p, size_t bytes);
void free_aligned_sized(void *p, size_t align, size_t bytes);

TURBO_EXPORT void free_sized(void *p, size_t bytes)
{
	void (*const real)(void *, size_t) = LIBC_KNOWN(free_sized);

	if (may_be_ours(p) || !real)
		free_by_name(p);
	else
		real(p, bytes);
}

TURBO_EXPORT void free_aligned_sized(void *p, size_t align, size_t bytes)
{
	void (*const real)(void *, size_t, size_t) = LIBC_KNOWN(free_aligned_sized);

	if (may_be_ours(p) || !real)
		free_by_name(p);
	else
		real(p, align, bytes);
}

TURBO_EXPORT size_t malloc_usable_size(void *p)
{
	size_t has = may_be_ours(p) && (known() || p) ? has_here(p) : 0;
	size_t (*const real)(void *) = LIBC_KNOWN(malloc_usable_size);

	return has || !p ? has : real ? real(p) : 0;
}
#endif

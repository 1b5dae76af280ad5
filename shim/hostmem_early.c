/*
 * hostmem_early.c - see hostmem_early.h. Nothing here needs a relocation until `self` says that there have been some; in
 * no build whose malloc is not ours (hostmem.c).
 */
#include "hostmem_early.h"

#ifndef TURBO_SANITIZED

#include <stdint.h>
#include <stdlib.h>

#include "libc.h"
#include "../policy/hostmem/gate.h"

#define ROOM 65536

/* glibc's own, for a process whose objects cannot be looked through. */
extern void *__libc_malloc(size_t) __attribute__((weak));
extern void __libc_free(void *) __attribute__((weak));
extern void *__libc_calloc(size_t, size_t) __attribute__((weak));
extern void *__libc_realloc(void *, size_t) __attribute__((weak));

static char room[ROOM] __attribute__((aligned(64)));
static size_t used; /* atomic: by fetch-and-add alone */

/* The loader writes its own address here; the compiler must not know that. */
static const void *const volatile self = (const void *)&self;

static bool relocated(void)
{
	return self == (const void *)&self;
}

bool early_find(void)
{
	if (!relocated())
		return false;
	if (atomic_load_explicit(&hostmem_gate.min, memory_order_acquire) != 0)
		return true;
	libc_look();
	hostmem_gate.malloc = LIBC_KNOWN(malloc);
	hostmem_gate.calloc = LIBC_KNOWN(calloc);
	hostmem_gate.realloc = LIBC_KNOWN(realloc);
	hostmem_gate.free = LIBC_KNOWN(free);
	hostmem_gate.posix_memalign = LIBC_KNOWN(posix_memalign);
	if (!hostmem_gate.malloc || !hostmem_gate.calloc || !hostmem_gate.realloc || !hostmem_gate.free) {
		hostmem_gate.malloc = __libc_malloc;
		hostmem_gate.calloc = __libc_calloc;
		hostmem_gate.realloc = __libc_realloc;
		hostmem_gate.free = __libc_free;
	}
	if (!hostmem_gate.malloc)
		return false;
	gate_known(__atomic_load_n(&used, __ATOMIC_RELAXED) != 0);
	return true;
}

void *early_take(size_t bytes, size_t align)
{
	size_t whole, at;

	if (align < 16)
		align = 16;
	if (bytes > ROOM || align > 4096)
		return NULL;
	/* In front of each block, its size. */
	whole = ((bytes + 15) & ~(size_t)15) + align + sizeof(size_t);
	at = __atomic_fetch_add(&used, (whole + 15) & ~(size_t)15, __ATOMIC_RELAXED);
	if (at > ROOM || ROOM - at < whole) /* used goes on growing: bounded by the calls of a loader */
		return NULL;
	uintptr_t p = ((uintptr_t)room + at + sizeof(size_t) + align - 1) & ~(uintptr_t)(align - 1);
	((size_t *)p)[-1] = bytes;
	return (void *)p;
}

size_t early_size(const void *address)
{
	uintptr_t offset = (uintptr_t)address - (uintptr_t)room;

	return offset < ROOM && address ? (((const size_t *)address)[-1] | 1) : 0;
}

#else
bool early_find(void)
{
	return false;
}
#endif

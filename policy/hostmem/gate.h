/*
 * gate.h - what malloc and free look at first: one cache line.
 *
 * Written by shim/hostmem.c, which finds the functions at the first allocation of the process, and by the policy, which opens
 * and shuts it. Any thread reads it at every call. Each word stands for itself: they are not read together.
 */
#ifndef TURBO_HOSTMEM_GATE_H
#define TURBO_HOSTMEM_GATE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* A block begins so little behind a multiple of this that hardly any other memory does: free() sees it by the address. */
#define GATE_GRANULE ((uintptr_t)2 << 20)
#define GATE_LEAD_MOST ((uintptr_t)2048)

struct hostmem_gate {
	/* Sizes from here on are looked at. 0: the functions below are not known, every call is. SIZE_MAX: shut. Release once
	 * what the look needs is there; acquire. */
	_Atomic size_t min;
	/* An address is looked at when it lies less than this behind a multiple of GATE_GRANULE: all of them until the functions
	 * below are known, then none, then GATE_LEAD_MOST + 1. Release, acquire. */
	_Atomic uintptr_t limit;
	/* The program's own allocator: of the object behind us. Constant once `min` is no longer 0. */
	void *(*malloc)(size_t);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void (*free)(void *);
	int (*posix_memalign)(void **, size_t, size_t);
};

extern struct hostmem_gate hostmem_gate __attribute__((visibility("hidden")));

/* The functions are known. `all_addresses`: frees are to be looked at whatever the address, for the whole life. */
void gate_known(int all_addresses);

/* Blocks of `min` bytes and more are ours from now on; nothing while the functions are not known. */
void gate_open(size_t min);

/* No more of them; those that there are stay. */
void gate_shut(void);

#endif

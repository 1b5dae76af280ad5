/*
 * blocks.h - large blocks of host memory, each a mapping of its own.
 *
 * A block is USED from the allocation to the free, then it may be KEPT for a later allocation (kept.h). Its entry in the table
 * changes hands by compare-and-swap: whoever has made it BUSY has it alone. There is no lock, so a signal handler may
 * interrupt anything here, and a child may be forked amid it: what another thread was busy with is lost to the child, which
 * costs it nothing but address space.
 *
 * A block looks to glibc like one of its own mappings: the two words before it are such a chunk's. What reaches glibc's free
 * or realloc past us (a library loaded with RTLD_DEEPBIND, dlsym(libc, "free")) ends in munmap or mremap there, as it would
 * without us.
 *
 * All functions: any thread, any time; no allocation but mappings; errno is kept.
 */
#ifndef TURBO_HOSTMEM_BLOCKS_H
#define TURBO_HOSTMEM_BLOCKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum big_state { BIG_NONE, BIG_BUSY, BIG_USED, BIG_KEPT };

struct big_block {
	_Atomic uint32_t state; /* enum big_state; acquire to take it, release to let go */
	_Atomic uint32_t
		stamp; /* how often the entry has been given to a mapping: tells a block from a later one in its place */
	_Atomic uintptr_t base; /* the mapping, whole pages; whoever has it BUSY writes, any thread reads */
	_Atomic size_t bytes;   /* of the mapping; the same */
	_Atomic uintptr_t user; /* where the program's part begins; it goes to the end of the mapping */
	/* 0, or what policy/hostmem/pin makes of it: anything else means that pages must not go, move or be advised about before
	 * the hook has said so. Set on a USED block by a call of the program that uses it; cleared by anyone. */
	_Atomic uintptr_t pin;
	_Atomic uint64_t since; /* KEPT: since when, ms */
	_Atomic uint16_t node;  /* KEPT: NUMA node of its pages */
	_Atomic uint16_t flags; /* BIG_*; whoever has it BUSY writes */
} __attribute__((aligned(64)));

#define BIG_LEAD 1u   /* a page lies before the granule in which the program's part begins */
#define BIG_ZEROED 2u /* calloc gave it out in fresh pages */
#define BIG_WIPED 4u  /* KEPT: a forked child finds it empty */
#define BIG_LAZY 8u   /* KEPT: the system may take its pages when it is short of memory */
#define BIG_HUGE 16u  /* advised to have huge pages */

/* ---- for malloc and free ---- */

/* At least `bytes` at a multiple of `align` (a power of two), all 0 if `zeroed`; NULL: not here, ask the program's allocator. */
void *blocks_take(size_t bytes, size_t align, bool zeroed);

/* The program frees it. False: none of ours, or not the beginning of one. */
bool blocks_give(void *address);

/* Bytes that can be used from `address`, if a USED block begins there; else 0. */
size_t blocks_size(const void *address);

/* The block that begins at `address`, larger or smaller, contents kept, possibly elsewhere. NULL: it cannot be, it is as it was. */
void *blocks_resize(void *address, size_t bytes);

/* ---- for who registers blocks with a device ---- */

/* There have been blocks. One load, for what is asked at every copy. */
extern _Atomic bool blocks_any __attribute__((visibility("hidden")));

/*
 * The USED block that contains the byte at `address`, or NULL. Two loads where there is none. The program must be in a call
 * that uses the memory, or the answer may be out of date when it is there.
 */
struct big_block *blocks_at(const void *address);

/* The program's part: [user, end). */
static inline uintptr_t blocks_begin(const struct big_block *b)
{
	return atomic_load_explicit(&b->user, memory_order_relaxed);
}
static inline uintptr_t blocks_end(const struct big_block *b)
{
	return b->base + b->bytes;
}

enum blocks_why {
	BLOCKS_AGAIN, /* a KEPT block is about to be handed out again, with the same pages */
	BLOCKS_GOES,  /* its pages are about to go back to the system, or elsewhere in the address space */
};

/*
 * Asked before, for a block whose `pin` is not 0, by the thread that has it BUSY: a thread of the program in malloc, realloc or
 * free, or the policy's own (`helper`). It may make driver calls where its own rules let it, and takes no lock that is held
 * over an allocation. True: done, and after BLOCKS_GOES `pin` is 0. False: not now; the block stays as it is: KEPT it is asked
 * about later, USED its realloc copies. One hook, set once, before any `pin` is.
 */
typedef bool blocks_hook(struct big_block *b, enum blocks_why why, bool helper);
void blocks_set_hook(blocks_hook *hook);

/* Calls `visit` for every USED or KEPT block; any of them may change meanwhile. For a forked child, and the exit. */
void blocks_each(void (*visit)(struct big_block *b, void *arg), void *arg);

/* ---- for the rest of this folder ---- */

#define BLOCKS_MOST 8192u /* at a time; more are the program's own allocator's */

/* What is asked for, as a mapping: `bytes` whole pages, the program's part `offset` behind the beginning; with BIG_LEAD or not. */
struct big_want {
	size_t bytes, offset;
	uint16_t lead;
};

bool blocks_may(struct big_block *b, enum blocks_why why, bool helper);
bool blocks_swap(struct big_block *b, enum big_state from, enum big_state to);

/* A BUSY block: unmapped, and its entry nobody's. */
void blocks_release(struct big_block *b);
/* A BUSY block without `pin` gets another size; false: it is as it was. */
bool blocks_reshape(struct big_block *b, size_t bytes);

/* Entries [0, blocks_high) may be in use. */
extern struct big_block blocks_table[BLOCKS_MOST] __attribute__((visibility("hidden")));
extern _Atomic uint32_t blocks_high __attribute__((visibility("hidden")));

#endif

/*
 * pinned_table.h - every block of pinned memory that the policy got from the driver and the driver still holds,
 * by its address.
 *
 * Blocks come from a static store and are never given back to the system, so a block may be looked at when it has
 * left the table: under the lock its state says so.
 */
#ifndef TURBO_HOSTMEM_PINNED_TABLE_H
#define TURBO_HOSTMEM_PINNED_TABLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PINNED_BLOCKS 4096 /* more are the driver's */

enum pinned_state {
	PINNED_NONE,    /* not in the table */
	PINNED_LIVE,    /* the program's */
	PINNED_BARRIER, /* in the program's cuMemFreeHost, which waits for the device */
	PINNED_PENDING, /* freed; another device may still use it */
	PINNED_KEPT,    /* nobody's: may be handed out at once */
	PINNED_GONE,    /* on its way to the driver, or taken out to be looked at */
};

struct pinned_ctx;
struct pinned_fence;

struct pinned_block {
	/* Written under the lock; read also without it, by pinned_look(). */
	_Atomic uintptr_t base;
	_Atomic size_t size;                  /* bytes that the driver gave */
	_Atomic size_t asked;                 /* bytes that the program asked for */
	_Atomic int state;                    /* enum pinned_state */
	_Atomic unsigned long long buffer_id; /* what the program is told; 0: the driver's own */
	/* Under the lock. */
	unsigned flags;             /* of the call that made it, PINNED_ALLOC_HOST among them */
	bool keep_out;              /* really freed when the program frees it */
	bool unsure;                /* nobody can tell whether other devices use it: only good for the driver */
	struct pinned_ctx *ctx;     /* that owns it */
	struct pinned_fence *fence; /* while PENDING */
	uint64_t since;             /* clock_ns() of the free, while kept */
	struct pinned_block *older, *newer; /* all that are KEPT or PENDING, by `since` */
	struct pinned_block *next;          /* of the unused, of a list of victims */
};

/* One lock for the table, what is kept and the contexts; no driver call is made under it. */
extern pthread_mutex_t pinned_lock;

struct pinned_view {
	uintptr_t base;
	size_t size, asked;
	int state;
	unsigned long long buffer_id;
};
/* What is known of the block around `at`; false: none. No lock but after many tries. Any thread. */
bool pinned_look(uintptr_t at, struct pinned_view *out);

/* ---- the lock is held ---- */

/* The block around `at`, or NULL. */
struct pinned_block *pinned_find(uintptr_t at);
/* A block of the store, not in the table yet; NULL: all are used. */
struct pinned_block *pinned_block_new(void);
void pinned_block_drop(struct pinned_block *b);
/* `base` and `size` are set. False: no room. What the table has there was freed by a way that we do not see; *stale
 * gets one of these, taken out of the table, and is to be dropped, and the call to be made again. */
bool pinned_insert(struct pinned_block *b, struct pinned_block **stale);
void pinned_remove(struct pinned_block *b);
/* The nth of the table, or NULL. */
struct pinned_block *pinned_at(unsigned n);

void pinned_table_fork_child(void);

#endif

/*
 * pinned_keep.h - what is kept: freed blocks by age, how much of them, and their way back to the driver.
 */
#ifndef TURBO_HOSTMEM_PINNED_KEEP_H
#define TURBO_HOSTMEM_PINNED_KEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pinned_ctx.h"
#include "pinned_table.h"

/* cuda_ready: how much may be kept. */
void pinned_keep_start(void);
size_t pinned_keep_most(void);
/* Bytes kept now; relaxed. */
size_t pinned_kept(void);
/* Calls since the start that gave something back to the driver. */
uint64_t pinned_came(void);

/* What is asked of the driver for a request of that size: up to 1/32 more, so that it serves others. */
size_t pinned_round(size_t bytes);

/* A kept block for the request becomes the program's; NULL: none. Any thread, the context is held. May ask events. */
struct pinned_block *pinned_take(struct pinned_ctx *ctx, size_t bytes, unsigned flags);

/* ---- the lock is held ---- */

/* Puts a block into the table; what is there was freed by a way that we do not see, and is forgotten. False: no room. */
bool pinned_track(struct pinned_block *b);
/* The block is nobody's from now on; `fence` NULL: at once. */
void pinned_put(struct pinned_block *b, struct pinned_fence *fence, uint64_t now);

/* ---- no lock held, no capture live. Each real free waits for the device and holds up launches meanwhile ---- */

enum pinned_reason { PINNED_BOUND, PINNED_OLD, PINNED_PRESSURE };

/* Gives the oldest block of a device (-1: any) back if it is older than `before`. Bytes; 0: there is none, or the
 * driver does not take it. */
size_t pinned_release_one(int device, uint64_t before, enum pinned_reason why);
/* Everything that can be had. */
size_t pinned_release_all(enum pinned_reason why);
/* Some block is older than `before`, or more is kept than may be. */
bool pinned_due(uint64_t before);

/* Takes every block of a context that has ended out of the table. */
void pinned_keep_forget(struct pinned_ctx *c);

#endif

/*
 * kept.h - blocks that the program has freed, kept for its next ones. Any thread; no lock, see blocks.h.
 */
#ifndef TURBO_HOSTMEM_KEPT_H
#define TURBO_HOSTMEM_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blocks.h"

/* Bytes that may be kept. */
void kept_start(size_t most);
/* Nothing more is kept: the process exits, or nobody is there who would give it back. */
void kept_stop(void);

/* A kept block of the size that is wanted, BUSY, with pages that have been written before; NULL: none, or new pages are better.
 * `zeroed`: it is for calloc. */
struct big_block *kept_take(const struct big_want *want, bool zeroed);
/* A new block, BUSY, is going to be handed out. */
void kept_new(struct big_block *b, bool zeroed);
/* A BUSY block that the program has freed is kept from now on. False: it must go. */
bool kept_put(struct big_block *b);

/* Gives back all that is kept; true: there was some. */
bool kept_drop_all(bool helper);
/* The trimmer's round: gives back what was freed `idle_ms` ago or more, lets the system have what has lain `lazy_ms`. Bytes kept
 * afterwards. */
size_t kept_round(uint64_t idle_ms, uint64_t lazy_ms);
/* Memory is short, as the trimmer has found: nothing is kept until it finds it is not. */
void kept_press(bool pressed);
bool kept_pressed(void);

size_t kept_bytes(void);

/* In a forked child: what is kept is empty there, and goes at the next occasion. Async-signal-safe. */
void kept_fork_child(void);

#endif

/*
 * move.h - copying between user memory and the ring.
 *
 * Regions must not overlap. The bytes are globally visible on return. May fault in
 * user memory; the program's own handler then runs here.
 */
#ifndef TURBO_COPY_MOVE_H
#define TURBO_COPY_MOVE_H

#include <stdbool.h>
#include <stddef.h>

/* Finds out what the processor can do. Once, before the first copy. */
void move_start(void);

/* User memory to the ring, past the caches or through them. */
void move_in(void *ring, const void *user, size_t bytes, bool past_caches);

/* The ring to user memory, past the caches: a large result would only evict what the
 * program works on. `fresh`: the pages are faulted in together first. */
void move_out(void *user, const void *ring, size_t bytes, bool fresh);

/* True when pages of the range were never touched, judged by three of them. */
bool move_is_fresh(const void *user, size_t bytes);

/* True when this process has yet to fault pages of the range in, whether or not they are in
 * memory (a file mapped anew), judged by three of them. Opens a file: some 5 us, and for large
 * copies only. False when it cannot be known. */
bool move_is_unmapped(const void *user, size_t bytes);

/* Copies with stores that bypass the caches. */
void move_stream(void *dst, const void *src, size_t bytes);

#endif

/*
 * move.h - copying between user memory and the ring.
 */
#ifndef TURBO_COPY_MOVE_H
#define TURBO_COPY_MOVE_H

#include <stddef.h>

/*
 * Copies with stores that bypass the caches: the destination (a ring slot that
 * the device reads next, or a large user buffer) would only evict what the
 * program uses. Complete and globally visible on return. Regions must not
 * overlap. May fault in user memory; the program's own handler then runs here.
 */
void move_stream(void *dst, const void *src, size_t bytes);

#endif

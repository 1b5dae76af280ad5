/*
 * hostmem_early.h - the first allocations of a process.
 *
 * malloc is called before our constructor, by the loader and by constructors of others, and may be called before we are
 * relocated: a library that we come before is relocated earlier, and the function that chooses one of its implementations
 * (an IFUNC resolver) may allocate. Until then there is a little room of our own, which is never given back.
 */
#ifndef TURBO_HOSTMEM_EARLY_H
#define TURBO_HOSTMEM_EARLY_H

#include <stdbool.h>
#include <stddef.h>

/* Finds the allocator behind us, and tells the gate, if nobody has yet. False: too early, or malloc is not ours in this build. */
bool early_find(void);

/* Of the little room; NULL: it is full. Zeroes. */
void *early_take(size_t bytes, size_t align);
/* Bytes of a block of it; 0: none of its blocks. */
size_t early_size(const void *address);

#endif

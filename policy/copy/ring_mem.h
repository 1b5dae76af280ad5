/*
 * ring_mem.h - memory for a ring: near the device, never shared with a child.
 */
#ifndef TURBO_COPY_RING_MEM_H
#define TURBO_COPY_RING_MEM_H

#include <stddef.h>

/* Maps `bytes` preferring NUMA node `node` (-1: anywhere), touched, DONTFORK.
 * NULL on failure. Freed with munmap. */
unsigned char *ring_mem_map(size_t bytes, int node);

#endif

/* info.h - cuMemGetInfo: memory that libturbo keeps can be had, so it is free. */
#ifndef TURBO_DEVMEM_INFO_H
#define TURBO_DEVMEM_INFO_H

#include <stddef.h>

/* Adds what is kept on the current context's device; at most `total` comes out. */
void info_add(size_t *free_bytes, size_t total);

#endif

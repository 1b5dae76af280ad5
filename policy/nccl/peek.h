/*
 * peek.h - reading memory of this process that may not be there.
 *
 * The kernel copies (process_vm_readv on the own pid): a bad address is an error, not a fault. Some 0.4 us a call.
 * Async-signal-safe, any thread, keeps errno.
 */
#ifndef TURBO_PEEK_H
#define TURBO_PEEK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All `bytes` at `from`, or false. */
bool peek(uintptr_t from, void *to, size_t bytes);
/* How many of `bytes` could be read: fewer where the rest is not mapped. */
size_t peek_some(uintptr_t from, void *to, size_t bytes);

#endif

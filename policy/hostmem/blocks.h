/*
 * blocks.h - large blocks of host memory, each a mapping of its own, kept when the program frees them.
 *
 * A block begins on a 2 MiB boundary, so that it can have huge pages and is told from nearly all other memory by its address.
 * All functions: any thread, also before the constructor; keep errno unless said; allocate nothing but mappings.
 */
#ifndef TURBO_HOSTMEM_BLOCKS_H
#define TURBO_HOSTMEM_BLOCKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BLOCKS_ALIGN ((size_t)2 << 20)

/* Least size of a block; SIZE_MAX while the policy is off. Relaxed: read at every allocation. */
extern _Atomic size_t blocks_min __attribute__((visibility("hidden")));
/* There have been blocks. Release before the first is handed out; read at every free of a page-aligned address. */
extern _Atomic bool blocks_any __attribute__((visibility("hidden")));

/* `bytes` at an address that is a multiple of BLOCKS_ALIGN, all 0 if `zeroed`. NULL: there is no memory or no place in the
 * table; the caller asks the program's own allocator. */
void *blocks_take(size_t bytes, bool zeroed);
/* Bytes that can be used from `address` on, if a block begins there that the program has; else 0. Lock-free. */
size_t blocks_size(const void *address);
/* The program frees it. false: none of ours. */
bool blocks_give(void *address);
/* At least `bytes`, contents kept, possibly elsewhere; NULL: no memory, the block stays. Of a block that the program has. */
void *blocks_resize(void *address, size_t bytes);

static inline bool blocks_may_be(const void *address)
{
	return ((uintptr_t)address & (BLOCKS_ALIGN - 1)) == 0 && address &&
		   atomic_load_explicit(&blocks_any, memory_order_acquire);
}

/* `most`: bytes kept at most. */
void blocks_start(size_t min, size_t most);
/* Gives back what has been kept for `idle_ms` and longer; answers how much is kept then. */
size_t blocks_trim(uint64_t idle_ms);
/* Futex word: goes up when something is kept after nothing was. */
extern _Atomic uint32_t blocks_kept_some __attribute__((visibility("hidden")));
void blocks_stop(void);
/* In the child. When another thread was in the table at the fork, nothing is kept any more. */
void blocks_fork_child(void);

#endif

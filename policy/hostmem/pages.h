/*
 * pages.h - what the system is asked about mappings. Any thread; no lock, no allocation; errno is not kept.
 */
#ifndef TURBO_HOSTMEM_PAGES_H
#define TURBO_HOSTMEM_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

size_t pages_size(void);
size_t pages_round(size_t bytes); /* up to whole pages */

/* New memory; or addresses alone, that nothing else gets. `lead` behind its beginning is a multiple of GATE_GRANULE. 0: none. */
uintptr_t pages_map(size_t bytes, size_t lead);
uintptr_t pages_reserve(size_t bytes, size_t lead);
void pages_unmap(uintptr_t base, size_t bytes);

/* At least half of it is in memory, by a sample; `*in` is an address that is, if any. */
bool pages_dense(uintptr_t base, size_t bytes, uintptr_t *in);

/*
 * Takes back what a program may have done to its memory besides writing it, so that it is as good as new but for its contents:
 * protection, locks, advice, NUMA policy. False: it is not plain memory of this process any more, or the process wants all its
 * memory locked; it must go. Afterwards a forked child finds it empty, and a fork copies no page tables for it.
 */
bool pages_settle(uintptr_t base, size_t bytes);
/* Before it is handed out again. False: it must go. */
bool pages_wake(uintptr_t base, size_t bytes);

void pages_huge(uintptr_t base, size_t bytes);
/* The system may take these pages whenever it is short of memory; until they are written. */
void pages_lazy(uintptr_t base, size_t bytes);

/* NUMA: the node of a page that is in memory; whether this thread's new pages would be on `node` (true: there is one node). */
uint16_t pages_node(uintptr_t address);
bool pages_would_be_on(uint16_t node);

#endif

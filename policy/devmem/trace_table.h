/* trace_table.h - a hash table of the recorder: 64-bit key, not 0, to 64-bit value. The caller locks. */
#ifndef TURBO_DEVMEM_TRACE_TABLE_H
#define TURBO_DEVMEM_TRACE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace_cell {
	uint64_t key, value; /* key 0: empty */
};

/* All zero: empty. Memory comes from mmap, because hooks may run inside an allocator. */
struct trace_table {
	struct trace_cell *cell;
	size_t room, count; /* room: a power of two, or 0 */
};

uint64_t *trace_table_find(const struct trace_table *t, uint64_t key);
/* The key must not be there. False: no memory. */
bool trace_table_add(struct trace_table *t, uint64_t key, uint64_t value);
void trace_table_remove(struct trace_table *t, uint64_t key);

#endif

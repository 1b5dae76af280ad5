/*
 * memory.h - how much memory of the host is free for what nobody has asked for, and whether somebody waits for memory. Reads
 * /proc and the process's cgroups, versions 1 and 2; some 50 us, and 25 KiB of stack. Any thread; allocates nothing.
 */
#ifndef TURBO_MEMORY_H
#define TURBO_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

struct memory {
	uint64_t total;     /* bytes that the machine or the tightest cgroup has */
	uint64_t available; /* bytes that can be had without anything but file pages giving way */
	double
		pressure; /* percent of the last ten seconds in which somebody waited; the worst of machine and cgroup */
};

/* False: it cannot be told. `root` is put before all paths; "" but in tests. */
bool memory_look(const char *root, struct memory *out);

/* What is kept or read ahead must go or stop: somebody waits for memory, or less than a tenth of it is left. */
bool memory_is_tight(const struct memory *m);

/* Bytes that may be filled: half of what is available beyond that tenth. */
uint64_t memory_budget(const struct memory *m);

#endif

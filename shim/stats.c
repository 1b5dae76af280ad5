/*
 * stats.c - the counters' memory: lanes, sums, and what a forked child does.
 * stats_file.c puts the same memory into a file.
 */
#include "stats.h"

#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stats_file.h"

struct stats_area stats_area;

/* Relaxed: only the count matters, two threads that share a lane still add atomically. */
static uint32_t lanes_given;

uint64_t stats_lane_assign(void)
{
	uint32_t n = __atomic_fetch_add(&lanes_given, 1, __ATOMIC_RELAXED);

	turbo_tls.lane_off = (1 + n % (STATS_LANES - 1)) * (uint64_t)STATS_LANE_BYTES;
	return turbo_tls.lane_off;
}

uint64_t *stats_cell(struct stats_area *area, unsigned lane, unsigned cell)
{
	return (uint64_t *)(void *)area->lanes[lane] + cell;
}

uint64_t stats_cell_sum(unsigned cell)
{
	uint64_t sum = 0;

	for (unsigned lane = 1; lane < STATS_LANES; lane++)
		sum += __atomic_load_n(stats_cell(&stats_area, lane, cell), __ATOMIC_RELAXED);
	return sum;
}

/*
 * The child counts for itself: fresh zeroes over the parent's cells, shared or not. The
 * calling thread keeps its lane, which is as good as any. Until this has run the child
 * is one thread in the atfork handler and counts nothing.
 */
void stats_fork_child(void)
{
	if (!stats_file_forget() && __atomic_load_n(&lanes_given, __ATOMIC_RELAXED) == 0)
		return;
	mmap(&stats_area, sizeof(stats_area), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0);
}

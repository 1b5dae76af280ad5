/*
 * stats.c - the counters' memory: lanes and who owns them, sums, and what a forked child does.
 * stats_file.c puts the same memory into a file.
 */
#include "stats.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stats_file.h"

struct stats_area stats_area;

/* ---- who owns a lane ---- */

/*
 * The owner of each lane: its thread number in the low half, how often the lane was given away
 * in the high one; 0: nobody's yet. Entry 0 is not used. A lane goes to a thread without one
 * when it is nobody's, or when its owner is gone; what that one counted stays in it.
 *
 * No two live threads own one lane:
 * - A lane is given away by a compare-and-swap that counts up the high half. So between the
 *   load and the swap nobody else was given it (short of 2^32 times), whatever became of the
 *   numbers: also when a thread with the former owner's number was given it.
 * - The number that was loaded was its owner's, in this process, from then to the owner's end.
 *   If after the load no thread of the process has it (tgkill: ESRCH), the owner is gone. If
 *   the asking thread itself has it, the owner is gone and its number reused, or a signal
 *   handler of this very thread was given the lane.
 * - If another live thread has it by reuse, the lane stays taken until that one ends. It has a
 *   lane of its own: its turbo_tls began as zero.
 * - A forked child has one thread, whose number is not the one it had in the parent:
 *   stats_fork_child() enters it for the lane it goes on with, and frees the others.
 *
 * Not covered: a child made by vfork() or without fork handlers (_Fork(), a raw clone()) that
 * calls the driver, which is not allowed to it; fork() in a signal handler that came in the
 * middle of stats_lane_assign().
 *
 * Order: the former owner's last add comes before the next one's first. The end of a thread, as
 * tgkill() sees it, is ordered by the kernel, and what x86-64 has stored before is visible with
 * it; elsewhere both adds are atomic, and any order will do.
 */
static uint64_t owners[STATS_LANES];

static uint32_t thread_number(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

static bool thread_gone(uint32_t number)
{
	/* Any other error, such as a sandbox's: not known to be gone. */
	return syscall(SYS_tgkill, getpid(), number, 0) == -1 && errno == ESRCH;
}

static bool claim(unsigned lane, uint64_t seen, uint32_t number)
{
	uint64_t given = ((seen >> 32) + 1) << 32 | number;

	return __atomic_compare_exchange_n(&owners[lane], &seen, given, false, __ATOMIC_ACQ_REL,
									   __ATOMIC_RELAXED);
}

/* A lane for the thread `number`, or 0. Whether an owner is gone costs a system call, so that
 * is asked only when the lanes that are free for sure are used up. */
static unsigned find_lane(uint32_t number, bool ask)
{
	for (unsigned lane = 1; lane < STATS_LANES; lane++) {
		uint64_t seen = __atomic_load_n(&owners[lane], __ATOMIC_ACQUIRE);
		uint32_t owner = (uint32_t)seen;
		bool free = owner == 0 || owner == number || (ask && thread_gone(owner));

		if (free && claim(lane, seen, number))
			return lane;
	}
	return 0;
}

int64_t stats_lane_assign(void)
{
	uint32_t number = thread_number();
	int saved = errno;
	unsigned lane = find_lane(number, false);

	if (!lane)
		lane = find_lane(number, true);
	errno = saved;
	/* A signal handler that counts while this runs may leave the thread with a second lane. */
	turbo_tls.lane = lane ? (int64_t)(uintptr_t)stats_area.lanes[lane] : STATS_LANE_SHARED;
	return turbo_tls.lane;
}

/* ---- cells ---- */

uint64_t *stats_cell(struct stats_area *area, unsigned lane, unsigned cell)
{
	return (uint64_t *)(void *)area->lanes[lane] + cell;
}

void stats_cell_add_slow(unsigned cell, uint64_t n)
{
	if (turbo_tls.lane == 0)
		stats_lane_assign();
	if (!stats_cell_add_own(cell, n))
		__atomic_fetch_add(stats_cell(&stats_area, 0, cell), n, __ATOMIC_RELAXED);
}

uint64_t stats_cell_sum(unsigned cell)
{
	uint64_t sum = 0;

	for (unsigned lane = 0; lane < STATS_LANES; lane++)
		sum += __atomic_load_n(stats_cell(&stats_area, lane, cell), __ATOMIC_RELAXED);
	return sum;
}

/* ---- fork ---- */

/*
 * The calling thread keeps its own lane under its new number, and gives up the shared one: the
 * other threads of its parent are not here. False: nothing was ever counted.
 */
static bool owners_fork_child(void)
{
	uint32_t number = thread_number();
	bool counted = false;

	for (unsigned lane = 1; lane < STATS_LANES; lane++) {
		counted |= owners[lane] != 0;
		owners[lane] = turbo_tls.lane == (int64_t)(uintptr_t)stats_area.lanes[lane] ? number : 0;
	}
	if (turbo_tls.lane == STATS_LANE_SHARED)
		turbo_tls.lane = 0;
	return counted;
}

/*
 * The child counts for itself: fresh zeroes over the parent's cells, shared or not. Until
 * this has run the child is one thread in the atfork handler and counts nothing.
 */
void stats_fork_child(void)
{
	bool published = stats_file_forget(), counted = owners_fork_child();

	if (!published && !counted)
		return;
	mmap(&stats_area, sizeof(stats_area), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0);
}

/*
 * stats.h - counters, readable by `turbo stats` while the job runs.
 *
 * A counter is a 64-bit cell in every lane; a thread adds to its lane, a reader
 * sums the lanes. Cells [0, HOOK_COUNT) count calls by symbol; the rest are the
 * rows of shim/counters.def.
 *
 * Lanes 1 .. STATS_LANES-1 have one owner each, a live thread (stats.c). It adds with
 * one plain instruction: whole for a signal handler of the same thread, and without
 * the bus lock that is most of what a locked add costs. Threads beyond these count in
 * lane 0, atomically. Memory order: none is needed. A cell is an aligned word, so a
 * reader on another thread or in `turbo stats` sees it before or after an add; it
 * finds every count of a thread that it has joined.
 *
 * ThreadSanitizer does not see adds that are written in assembly. In C they would be
 * races with the readers.
 *
 * The lanes live in a page-aligned static area. stats_publish() maps a file of
 * mode 0600 over it, so counting never tests whether a page exists.
 */
#ifndef TURBO_STATS_H
#define TURBO_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "guard.h"
#include "hooks.h"
#include "stats_page.h"

enum stats_counter {
#define COUNTER(id, name, unit, text) STATS_##id,
#include "counters.def"
#undef COUNTER
	STATS_COUNTER_END
};

#define STATS_CELLS (HOOK_COUNT + STATS_COUNTER_END)
/* Lane stride in bytes: whole cache lines, so that lanes never share one. */
#define STATS_LANE_BYTES (((STATS_CELLS * 8 + 63) / 64) * 64)

/* Largest page size of the architecture: whole pages, so that a mapping over the area covers
 * nothing else. */
#ifdef __aarch64__
#define STATS_ALIGN 65536
#else
#define STATS_ALIGN 4096
#endif

struct stats_area {
	struct stats_header header; /* padded to STATS_HEADER_BYTES */
	unsigned char lanes[STATS_LANES][STATS_LANE_BYTES];
} __attribute__((aligned(STATS_ALIGN)));

extern struct stats_area stats_area __attribute__((visibility("hidden")));

#define STATS_LANE_SHARED (-1) /* turbo_tls.lane of a thread that counts in lane 0 */

/*
 * Gives this thread a lane for the rest of its life: turbo_tls.lane is set and returned, the
 * address of one that is its own or STATS_LANE_SHARED. Async-signal-safe; keeps errno.
 */
int64_t stats_lane_assign(void);

/* stats_cell_add() of a thread without a lane of its own. */
void stats_cell_add_slow(unsigned cell, uint64_t n);

/* False, with nothing done, when this thread has no lane of its own. */
static inline bool stats_cell_add_own(unsigned cell, uint64_t n)
{
	int64_t lane = turbo_tls.lane;
	if (__builtin_expect(lane <= 0, 0))
		return false;
	uint64_t *p = (uint64_t *)(uintptr_t)lane + cell;
#ifdef __x86_64__
	__asm__ volatile("addq %1, %0" : "+m"(*p) : "er"(n) : "cc");
#else
	/* No single instruction of every Armv8 adds to memory. */
	__atomic_fetch_add(p, n, __ATOMIC_RELAXED);
#endif
	return true;
}

static inline void stats_cell_add(unsigned cell, uint64_t n)
{
	if (!stats_cell_add_own(cell, n))
		stats_cell_add_slow(cell, n);
}

/* One call of a hooked symbol. */
static inline void stats_call(enum hook_id id)
{
	stats_cell_add(id, 1);
}
/* The same, for a body that wants to call nothing: false, with nothing done, when this thread has
 * no lane of its own. */
static inline bool stats_call_own(enum hook_id id)
{
	return stats_cell_add_own(id, 1);
}
/* Add to a named counter of counters.def. */
static inline void stats_add(enum stats_counter c, uint64_t n)
{
	stats_cell_add(HOOK_COUNT + c, n);
}

/* Sum over the lanes. Not a snapshot: cells move while it reads. */
uint64_t stats_cell_sum(unsigned cell);
static inline uint64_t stats_get(enum stats_counter c)
{
	return stats_cell_sum(HOOK_COUNT + c);
}

/* Put the area into /dev/shm (or TMPDIR) under this process's name; on failure the
 * counters stay private. Once a process; called when it is engaged. */
void stats_publish(void);
/* Unlink the file (at exit). */
void stats_unpublish(void);
/* In a forked child: replace the shared area by a private zeroed one; no file until engaged. */
void stats_fork_child(void);

#endif

/*
 * gap.h - stretches of time in which nothing was recorded, and why.
 *
 * A record of duration 0 is written when a gap begins, for the case that the process ends in it, and the whole one when
 * it ends. Gaps of several reasons may overlap. Any thread, but not in a buffer callback.
 */
#ifndef TURBO_CUPTI_GAP_H
#define TURBO_CUPTI_GAP_H

#include <stdint.h>

enum gap {
	GAP_CLIENT,  /* another CUPTI client */
	GAP_LOST,    /* launches, but no records */
	GAP_SAMPLED, /* TURBO_TIMELINE=sampled is between two windows */
	GAP_COUNT
};

/* Nothing when it has begun already. */
void gap_begin(enum gap reason);
/* The same from an earlier time on, CLOCK_REALTIME. */
void gap_begin_at(enum gap reason, uint64_t since);
/* Nothing when it has not begun. */
void gap_end(enum gap reason);
/* The recording ends. */
void gap_end_all(void);

#endif

/* clock.h - the clock that waits and ages are measured with, and waits that poll. */
#ifndef TURBO_CLOCK_H
#define TURBO_CLOCK_H

#include <sched.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

/* Between two looks: gives the core away, in sleeps of 1/16 of what has been waited since
 * `since` (clock_ns()), at most 200 us. */
static inline void pause_poll(uint64_t since)
{
	uint64_t waited = clock_ns() - since;
	if (waited < 20000) {
		sched_yield();
		return;
	}
	uint64_t ns = waited / 16;
	struct timespec t = {0, (long)(ns < 200000 ? ns : 200000)};
	nanosleep(&t, NULL);
}

#endif

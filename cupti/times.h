/*
 * times.h - CUPTI's times as CLOCK_REALTIME.
 *
 * On Linux they are just that, until another client registers a timestamp callback, which CUPTI keeps for the
 * rest of the process (PyTorch's profiler does, for the processor's time stamp counter). Registering one of our
 * own would take the other client's away, so foreign times are converted: two looks at both clocks give the rate.
 */
#ifndef TURBO_CUPTI_TIMES_H
#define TURBO_CUPTI_TIMES_H

#include <stdbool.h>
#include <stdint.h>

#include "record.h"

enum times {
	TIMES_UNKNOWN, /* foreign, and seen once only: look again after TIMES_APART_NS */
	TIMES_REAL,    /* CLOCK_REALTIME */
	TIMES_FOREIGN, /* another clock, converted */
	TIMES_USELESS  /* it stands still, runs backwards, or is no clock */
};

#define TIMES_APART_NS 200000000ull

/* ns = real + (time - from) * rate / 2^32; `identity`: they are the same. */
struct times_map {
	bool identity;
	uint64_t from, real, rate;
};

/* Reads the clocks into `clock` (its `cupti` converted) and brings the map up to date. One thread at a time, never in
 * a buffer callback. */
enum times times_look(struct timeline_clock *clock);
/* Somebody may have changed the clock: the next look is the first. */
void times_forget(void);

/* As of the last look; any thread. */
struct times_map times_map(void);

static inline uint64_t times_to_ns(const struct times_map *m, uint64_t time)
{
	if (__builtin_expect(m->identity, 1))
		return time;
	if (time >= m->from)
		return m->real + (uint64_t)(((unsigned __int128)(time - m->from) * m->rate) >> 32);
	return m->real - (uint64_t)(((unsigned __int128)(m->from - time) * m->rate) >> 32);
}

/* CLOCK_REALTIME and CLOCK_MONOTONIC, ns. */
uint64_t times_now(void);
uint64_t times_steady(void);

#endif

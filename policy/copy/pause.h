/*
 * pause.h - short waits and the clock they are measured with.
 */
#ifndef TURBO_COPY_PAUSE_H
#define TURBO_COPY_PAUSE_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static inline void pause_spin(unsigned turns)
{
	while (turns--) {
#if defined(__x86_64__)
		__builtin_ia32_pause();
#elif defined(__aarch64__)
		__asm__ volatile("isb" ::: "memory");
#endif
	}
}

/*
 * A wait that polls: spins while the thing is expected within microseconds, then
 * gives the core away in growing sleeps. `since` is clock_ns() at its start.
 */
static inline void pause_poll(uint64_t since)
{
	uint64_t waited = clock_ns() - since;
	if (waited < 100000) { /* 100 us */
		pause_spin(16);
		return;
	}
	/* 1/16 of what has been waited, at most 200 us: the wake-up is late by less
	 * than 7 % of the wait and the core is almost idle. */
	uint64_t ns = waited / 16;
	struct timespec t = {0, (long)(ns < 200000 ? ns : 200000)};
	nanosleep(&t, NULL);
}

#endif

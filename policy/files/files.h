/*
 * files.h - data files: descriptor limits, and files read ahead of the program.
 */
#ifndef TURBO_FILES_H
#define TURBO_FILES_H

#include <stdatomic.h>
#include <stdbool.h>

/* Set when the policy starts in an engaged process; cleared at exit. Relaxed: an open more or less does not matter. */
extern _Atomic bool files_watch, files_limits __attribute__((visibility("hidden")));

/* TURBO_FILES=prefetch: opens are to be told. */
static inline bool files_watching(void)
{
	return atomic_load_explicit(&files_watch, memory_order_relaxed);
}

static inline bool files_limits_on(void)
{
	return atomic_load_explicit(&files_limits, memory_order_relaxed);
}

/* The program has opened a file, as the arguments of openat() say. Any thread, no lock, no allocation, keeps errno; some 50 ns,
 * and a few microseconds when a run of reads is noticed. */
void files_opened(int folder, const char *path, int flags);

/* The program has made shared memory: says once, for it and its forked children, when there is too little of it. */
void files_shared_memory(void);

#endif

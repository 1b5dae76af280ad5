/*
 * files.h - data files: descriptor limits, and files read ahead of the program.
 */
#ifndef TURBO_FILES_H
#define TURBO_FILES_H

#include <stdatomic.h>
#include <stdbool.h>

/* Set when the process is engaged; cleared at exit. Relaxed: an open more or less does not matter. */
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

/* The program has opened a file as `fd` (-1: not known), with the other arguments of openat(). Any thread, in signal handlers
 * too; no lock, no allocation; keeps errno. Some 30 ns; some 50 us where it starts a thread, once. */
void files_opened(int dir, const char *path, int flags, int fd);

/* The program has made shared memory: says once, for it and its forked children, when there is too little of it. */
void files_shared_memory(void);

#endif

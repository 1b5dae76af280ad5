/*
 * helper.h - the one thread that hears of opens: started when some data files have been opened, asleep while none are.
 */
#ifndef TURBO_FILES_HELPER_H
#define TURBO_FILES_HELPER_H

#include <stdbool.h>
#include <stddef.h>

/* A note has been put, of the file at `path`. Any thread; a system call only where the helper sleeps or is to be started. */
void helper_wake(const char *path, size_t length);

/* TURBO_FILES_NETWORK. Constructor. */
void helper_start(bool network);
/* The process ends. */
void helper_stop(void);
void helper_fork_child(void);

#endif

/*
 * learn.h - start-up learned: what a command opened last time is read ahead in parallel at its next start.
 *
 * A list a command, in $XDG_CACHE_HOME/libturbo (else ~/.cache/libturbo), the only files that this policy ever writes.
 * A command is its program and its arguments up to the script, module or code.
 */
#ifndef TURBO_FILES_LEARN_H
#define TURBO_FILES_LEARN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Opens are to be told; relaxed. */
extern _Atomic bool learn_on __attribute__((visibility("hidden")));

/* Constructor: reads the command's list, if there is one, in threads, and begins to record. */
void learn_start(bool network);

/* The program has opened a file. Any thread, a signal handler too; no system call. */
void learn_note(const char *path, size_t length, int dir);

/* The process ends: the list is written, if there is much new. */
void learn_stop(void);

void learn_fork_child(void);

#endif

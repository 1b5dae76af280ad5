/*
 * notes.h - what the program has opened, from its threads to the helper's.
 *
 * A bounded queue of many writers and one reader. A writer never waits: while the queue is full, or the path is longer
 * than a note, the file is not told of.
 */
#ifndef TURBO_FILES_NOTES_H
#define TURBO_FILES_NOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NOTES 1024u
#define NOTE_BYTES 248

struct note {
	int32_t dir; /* AT_FDCWD, or what a relative path is relative to */
	int32_t fd;  /* that it was opened as; -1: not known */
	char path[NOTE_BYTES];
};

/* Any thread, a signal handler too; no system call. `length` without the NUL. */
bool notes_put(const char *path, size_t length, int dir, int fd);

/* One thread. False: there is none. */
bool notes_take(struct note *out);

/* Forked child: empty, whoever was at it. */
void notes_fork_child(void);

#endif

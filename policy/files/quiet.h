/*
 * quiet.h - directories of which nothing is told for a while: what is in memory already, cannot be read ahead, or is being
 * read ahead by another process of the family.
 *
 * A table of keys and times, shared with all children that are forked later: eight workers of a loader need one look, not
 * eight. What is in it is a hint. Any thread of any of the processes; relaxed; no lock, no system call but the clock's.
 */
#ifndef TURBO_FILES_QUIET_H
#define TURBO_FILES_QUIET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct track_run;

/* Constructor. Without it, or without memory, nothing is quiet. */
void quiet_start(void);
/* Forked child: what its parent looks at is quiet for it. */
void quiet_fork_child(void);

/* The file that the program opens with these arguments of openat() need not be told of. In signal handlers, too; some 30 ns. */
bool quiet_is(int dir, const char *path, size_t length);

/* This process begins to look at the file's directory, and those above it; false: another one has just begun. */
bool quiet_claim(const char *path, size_t length);

/* This process reads the run's files ahead, for HOLD_MS from now, and no other needs to tell of them; false: another one does. */
bool quiet_hold(const struct track_run *run);
/* No longer. */
void quiet_release(const struct track_run *run);

/* Nobody needs to tell of the run's files for `ms`. `small`: none of them is large enough for shard.h, whatever its name. */
void quiet_set(const struct track_run *run, uint32_t ms, bool small);

/* The relative `path` leads to the quiet `absolute`: its directory is quiet as long for this process. */
void quiet_relative(int dir, const char *path, const char *absolute);

#endif

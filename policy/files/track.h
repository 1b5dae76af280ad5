/*
 * track.h - which directories the program reads one file after another of. Pure: no system call; one thread.
 *
 * A run is TRACK_FILES files of one directory, or TRACK_CHILD_FILES files in TRACK_CHILDREN directories that have
 * one directory above them, itself or one higher. Of a run's directory only files whose extension was seen count.
 */
#ifndef TURBO_FILES_TRACK_H
#define TURBO_FILES_TRACK_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tune.h"

#define TRACK_LEVELS 3 /* the file's directory, and those above it */

struct track_dir {
	uint64_t key;      /* hash of its path and level; 0: free */
	uint64_t used;     /* when: the oldest gives way */
	uint64_t children; /* a bit of each one's hash */
	uint64_t last;     /* hash of the last file: the same again is no run */
	uint32_t files;    /* opened below it */
	uint32_t asked;    /* files when it was last given out; 0: not yet */
	uint64_t extension[TRACK_EXTENSIONS];
	unsigned extensions; /* TRACK_EXTENSIONS + 1: more, so any */
};

struct track {
	struct track_dir dir[TRACK_DIRS];
	uint64_t clock;
};

/* A run that was found. */
struct track_run {
	char root[PATH_MAX]; /* without a slash at its end */
	unsigned depth;      /* 0: its files; 1, 2: and those of directories so far below */
	uint64_t extension[TRACK_EXTENSIONS];
	unsigned extensions;
};

/*
 * The program has opened the file at the absolute `path`. True: `run` is a directory that has just become a run, or
 * was one and has had as many more files opened as made it one (whoever asks again may have been refused before).
 */
bool track_open(struct track *t, const char *path, struct track_run *run);

/* `dir`, of `length` bytes, is the run's root or below it, and within its depth. */
bool track_covers(const struct track_run *run, const char *path);

bool track_wants(const struct track_run *run, const char *name);

uint64_t track_hash(const char *text, size_t length, uint64_t seed);

#endif

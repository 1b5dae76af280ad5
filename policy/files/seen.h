/*
 * seen.h - which directories the program reads files of, one after another.
 */
#ifndef TURBO_FILES_SEEN_H
#define TURBO_FILES_SEEN_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* A directory, or one above several. All relaxed: what is counted wrongly when two threads come at once costs a file or two. */
struct seen_folder {
	_Atomic uint64_t key;  /* hash of its path; 0: free */
	_Atomic uint32_t runs; /* files opened, each not the one before */
	_Atomic uint32_t ups;  /* how often the newest name was above the one before, in byte order */
	_Atomic uint64_t last; /* first bytes of the newest name, and its hash: see seen_name() */
	_Atomic uint64_t hash;
	_Atomic uint32_t asked; /* 1: read ahead, or turned away */
};

/* Noticed when so many files of a directory, or of directories of one directory, were read. */
#define SEEN_RUN 12u
#define SEEN_TREE_RUN 48u

uint64_t seen_hash(const char *text, size_t length);

/* A file has been opened: NULL, or the folder (or with `*tree`, the one above it) that has just become a run. `length`: of its
 * path in `path`. */
struct seen_folder *seen_file(const char *path, size_t *length, int *tree);

#endif

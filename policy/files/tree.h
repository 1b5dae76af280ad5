/*
 * tree.h - the files below a directory: names and inode numbers, in memory of its own. One thread.
 *
 * Directories are read, files are not touched. Symbolic links to directories are not followed, other file systems not
 * entered, names that begin with a dot left out.
 */
#ifndef TURBO_FILES_TREE_H
#define TURBO_FILES_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "track.h"

struct tree_file {
	uint64_t inode;
	uint32_t name; /* in `text` */
	uint32_t dir;
};

struct tree {
	char *text; /* NUL-terminated names of files and directories */
	size_t text_used, text_room;
	struct tree_file *file;
	uint32_t files;
	size_t file_room; /* bytes */
	uint32_t *dir;    /* offsets in `text`: below the root, "" or with a slash at the end */
	uint32_t dirs;
	size_t dir_room; /* bytes */
	int root;        /* descriptor, -1: none */
	dev_t device;
	bool too_large; /* files were left out */
};

/* Any file system that `network` allows. False: nothing there, or it may not be read; `tree` is empty then. */
bool tree_read(struct tree *tree, const struct track_run *run, bool network);

/* In the order of inode numbers, which on most file systems is that of the disk. */
void tree_sort_inodes(struct tree *tree);
/* By name, byte for byte, directories first. */
void tree_sort_names(struct tree *tree);

/* The path of a file below the root into `path`; false: too long. */
bool tree_path(const struct tree *tree, uint32_t file, char *path, size_t size);

void tree_free(struct tree *tree);

#endif

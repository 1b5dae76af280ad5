/*
 * list.h - the files below a directory, in memory of its own.
 */
#ifndef TURBO_FILES_LIST_H
#define TURBO_FILES_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIST_FILES_MOST (2u << 20)
#define LIST_DEPTH 4 /* folders below the first */

struct list_file {
	uint64_t inode;
	uint64_t hash;   /* seen_hash() of its name */
	uint32_t name;   /* offset in texts */
	uint32_t folder; /* offset in texts: its path below the root, with a slash at its end, or "" */
};

struct list {
	struct list_file *file; /* mapped */
	size_t files, files_room;
	char *texts;
	size_t used, room;
	const char *root; /* with a slash at its end; the caller's */
};

/* Regular files whose names end like `like` does from its last point on, in `root` itself or, with `tree`, below it too.
 * Other file systems and symbolic links are not entered. false: no memory, or none found. One thread. */
bool list_read(struct list *list, const char *root, bool tree, const char *like);
void list_by_inode(struct list *list);
void list_by_name(struct list *list);
/* root, folder and name; false: too long. */
bool list_path(const struct list *list, size_t i, char *path, size_t size);
void list_free(struct list *list);

#endif

/* where.h - which files may be read ahead, by their names and by the file system that they are on. No lock, no memory. */
#ifndef TURBO_FILES_WHERE_H
#define TURBO_FILES_WHERE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A path as a program opens it: not the kernel's, not code. On the way of every open. */
bool where_may_be_data(const char *path, size_t length);

/* A path as a program opens it: not the kernel's. */
bool where_may_be_file(const char *path, size_t length);

/* An absolute path of a directory whose files may be read ahead because others of them were opened. `below`: and the
 * files of directories below it: not of one that holds everything, as /home does. */
bool where_may_be_tree(const char *dir, size_t length, bool below);

/* What a system call of a file system may cost. */
enum where_kind {
	WHERE_LOCAL,   /* a disk of this machine */
	WHERE_NETWORK, /* others pay for it, too: when asked for only */
	WHERE_NEVER    /* in memory, the kernel's own, or unknown */
};
enum where_kind where_kind_of_magic(uint64_t magic);
enum where_kind where_kind(int fd);

/* The extension of a file's name as a number, 0 where it has none: up to 8 bytes behind the last dot. */
uint64_t where_extension(const char *name, size_t length);

/* An extension of files that hold many samples. */
bool where_is_shard_extension(uint64_t extension);

#endif

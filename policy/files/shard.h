/*
 * shard.h - large files that are read from their beginning to their end: tar, bin, safetensors and the like. The
 * helper's thread alone.
 *
 * Where the program is, the system tells: the position of its descriptor, or which pages of its mapping it has touched. The descriptor
 * itself is never used: the file is opened anew.
 */
#ifndef TURBO_FILES_SHARD_H
#define TURBO_FILES_SHARD_H

#include <stdbool.h>
#include <stdint.h>

/* The program has opened the file at the absolute `path` as `fd` (-1: not known). */
void shard_opened(const char *path, int fd, bool network);

void shard_tick(uint64_t now);

/* A file is being watched: shard_tick() wants to be called again after so many nanoseconds. 0: none is. */
uint64_t shard_nap(void);

void shard_fork_child(void);

#endif

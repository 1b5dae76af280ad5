/*
 * shard_at.h - where in a file the program is, as the system tells it: its descriptor's position, or the last page of
 * its mapping that it has touched. The helper's thread alone; some microseconds.
 */
#ifndef TURBO_FILES_SHARD_AT_H
#define TURBO_FILES_SHARD_AT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct shard_at {
	int fd; /* the program's; -1: not known, or closed */
	dev_t device;
	ino_t inode;
	uint64_t position; /* the descriptor's */
	uint64_t moved;    /* when it moved last, or watching began */
	bool mapped;
	uint64_t from, to, offset; /* the mapping: addresses, place in the file */
	uint64_t front;            /* address of the last page that was seen touched */
	uint64_t next_maps, next_pages;
	unsigned looks; /* for a mapping */
};

void shard_at_begin(struct shard_at *at, int fd, dev_t device, ino_t inode);

/* False: the program has the file neither open nor mapped any more. `*position` in bytes, of a file of `size` bytes. */
bool shard_at_look(struct shard_at *at, uint64_t now, uint64_t size, uint64_t *position);

#endif

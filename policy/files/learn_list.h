/*
 * learn_list.h - a list of files as a file: "turbo-files 1\n", then a record a file, ended by a NUL:
 *
 *   RANGES PATH
 *
 * RANGES is "*", all of it, or FROM-TO,FROM-TO,... in bytes, decimal, ascending, TO behind the last byte. Nothing is believed.
 */
#ifndef TURBO_FILES_LEARN_LIST_H
#define TURBO_FILES_LEARN_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tune.h"

struct learn_range {
	uint64_t from, to;
};

struct learn_record {
	const char *path; /* absolute, in the text */
	unsigned ranges;  /* 0: all of it */
	struct learn_range range[LEARN_RANGES];
};

/* The text's first record is at this offset; 0: it is no list. */
size_t learn_list_begin(const char *text, size_t size);
/* The record at `*at`, which moves behind it. False: there is none, or it is none. */
bool learn_list_next(const char *text, size_t size, size_t *at, struct learn_record *out);

/* A list being written. `text` has LEARN_BYTES bytes. False: it is full. */
struct learn_writer {
	char *text;
	size_t used;
	unsigned files;
};
void learn_list_open(struct learn_writer *w, char *text);
bool learn_list_put(struct learn_writer *w, const struct learn_record *r);

/* One more range; close ones are joined, the closest ones when there are too many. In ascending order. */
void learn_range_add(struct learn_record *r, uint64_t from, uint64_t to);

#endif

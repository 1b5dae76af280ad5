/*
 * intern.h - the tables of a timeline file that only grow: names, entries, lanes.
 *
 * They are the image's (image.h), which brings them into the file. What is looked up again is found in hash
 * tables, made at the start and never grown. An element is complete before it counts. One thread at a time; one
 * that vanishes in the middle leaves nothing worse than an element twice.
 */
#ifndef TURBO_TIMELINE_INTERN_H
#define TURBO_TIMELINE_INTERN_H

#include <stdbool.h>
#include <stdint.h>

#include "cupti/record.h"

/* Open addressing. `index` is an element's + 1, of a name its offset + 1; 0: empty. */
struct intern_slot {
	uint32_t hash, index;
};
struct intern_table {
	struct intern_slot *slot;
	uint32_t mask;
	uint32_t most, used;          /* elements in the slots */
	uint64_t capacity, end;       /* of the table; end: where the next element goes */
	struct timeline_table *shown; /* in the header; written only */
};

/* A name by where its caller keeps it: the same string each time, as a rule; looked at before it is
 * believed. */
struct intern_seen {
	const char *where;
	uint32_t name;
};

struct intern {
	char *names;
	struct timeline_entry *entries;
	struct timeline_lane *lanes;
	struct intern_table name, entry, lane;
	struct intern_seen *seen;
	uint32_t plain_from;                 /* entries from this index on are without details */
	uint32_t full_name;                  /* of what does not fit */
	uint32_t substitute[TIMELINE_KINDS]; /* entries for what does not fit */
	void *memory;                        /* of all the above that is private */
	uint64_t bytes;
};

/* `h`: the beginning of an image, with its tables laid out and empty. Adds the elements that every file has.
 * false: no memory. */
bool intern_start(struct intern *in, struct timeline_header *h);
void intern_end(struct intern *in);

/* As recording_entry() and recording_lane(); sets *full when the answer is a substitute, leaves it else. */
uint32_t intern_entry(struct intern *in, const struct timeline_entry *what, const char *name, bool *full);
uint16_t intern_lane(struct intern *in, const struct timeline_lane *where, const char *name, bool *full);

#endif

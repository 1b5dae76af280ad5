/*
 * trace.h - timeline files, read: checked, copied, sorted.
 *
 * Nothing in a file is believed: what these functions hand out has indices in range, terminated names and
 * no duration that wraps. Reading takes memory for the tables and for the chunks that overlap in time, not for the
 * records. Not thread-safe; several traces may be open.
 */
#ifndef TURBO_TRACE_H
#define TURBO_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cupti/record.h"

struct trace; /* one open file */

/* A record with everything resolved. Pointers live as long as the trace. */
struct trace_event {
	uint64_t start, duration; /* ns */
	uint64_t value;
	uint32_t correlation;
	uint32_t entry_index, lane_index;
	const struct timeline_entry *entry; /* of a matching kind, else entry 0 */
	const struct timeline_lane *lane;
	const char *name; /* of the entry; mangled for kernels */
	enum timeline_kind kind;
	uint32_t flags;
};

/* Opens `path`. On failure NULL, and `why` says what is wrong and where, without the path. */
struct trace *trace_open(const char *path, char *why, size_t why_size);
void trace_close(struct trace *t);

/* The header, checked: tables inside the file, texts terminated and printable, device_count in range. */
const struct timeline_header *trace_header(const struct trace *t);
const char *trace_path(const struct trace *t);
/* Its process still runs (same pid, same start), and has not ended the recording. */
bool trace_live(const struct trace *t);
uint32_t trace_entries(const struct trace *t);
const struct timeline_entry *trace_entry(const struct trace *t, uint32_t index);
/* Never NULL; control characters and broken UTF-8 replaced. */
const char *trace_name(const struct trace *t, uint32_t offset);
uint32_t trace_lanes(const struct trace *t);
const struct timeline_lane *trace_lane(const struct trace *t, uint32_t index);
/* Records in the ring now, and the times that they span; false: none. */
uint64_t trace_records(const struct trace *t);
bool trace_span(const struct trace *t, uint64_t *first_start, uint64_t *last_end);
/* Chunks and records that were left out because they made no sense. */
uint64_t trace_damaged(const struct trace *t);
/* What to add to this trace's times to have CLOCK_REALTIME at `time`: CUPTI's clock against the system's. */
int64_t trace_clock_offset(const struct trace *t, uint64_t time);

/* All events in order of their start; true and *e, or false at the end. */
bool trace_rewind(struct trace *t);
bool trace_next(struct trace *t, struct trace_event *e);

/* C++ names as people write them; owned by the trace, cached; the mangled name where it cannot be read. */
const char *trace_demangled(struct trace *t, uint32_t entry_index);

/*
 * Files named on a command line: files as they are, directories' *.timeline files. Sorted by rank, then host and
 * pid. Errors are collected: returns false when one could not be opened, `each_error` is called for it.
 */
struct trace_set {
	struct trace **trace;
	unsigned count;
};
typedef void trace_error(void *arg, const char *path, const char *why);
bool trace_set_open(struct trace_set *set, const char *const *paths, unsigned n, trace_error *each_error,
					void *arg);
void trace_set_close(struct trace_set *set);

#endif

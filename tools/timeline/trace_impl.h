/*
 * trace_impl.h - what the files of the reader share.
 *
 * A file is read by pread: it may shrink, or be written to, meanwhile. Order of reading, opposite to the
 * writer's: the chunks' headers, then the tables, then records up to the number that the headers said; so every
 * record refers to table elements that have been read.
 */
#ifndef TURBO_TRACE_IMPL_H
#define TURBO_TRACE_IMPL_H

#include <sys/types.h>

#include "tools/timeline/trace.h"

/* Bounds of what a hostile file can make us allocate; all are far above what the recorder writes. */
#define TRACE_NAMES_MAX (256u << 20)
#define TRACE_ENTRIES_MAX (4u << 20)
#define TRACE_LANES_MAX 65536u
#define TRACE_CLOCKS_MAX (1u << 20)
#define TRACE_CHUNKS_MAX (4u << 20)
/* Times beyond the year 2116 are taken for garbage, so that sums and differences of times fit 64 signed bits. */
#define TRACE_TIME_MAX (1ull << 62)
/* Chunks whose records are in memory at one time. */
#define TRACE_LOADED_MAX 1024
/* Traces that keep their file open. A job has thousands of ranks, a process often 1024 descriptors: files beyond these
 * are opened again for reading, one at a time. */
#define TRACE_KEPT_MAX 64

struct trace_chunk_info {
	uint64_t sequence;
	uint64_t first, last; /* the smallest and the largest start of its good records */
	uint32_t index;       /* of the chunk in the ring */
	uint32_t committed;
};

/* A chunk in the merge: the heap holds the next record of each. */
struct trace_run {
	uint64_t next;                  /* start of the next record */
	uint32_t chunk;                 /* index in chunk[] */
	uint32_t at;                    /* records of it that have been handed out */
	uint32_t count;                 /* good records of it */
	struct timeline_record *record; /* sorted; NULL: dropped for room, to be read again */
};

struct trace {
	int fd;    /* -1: to be opened again */
	bool kept; /* counted among TRACE_KEPT_MAX */
	dev_t dev; /* which file it is */
	ino_t ino;
	char *path;
	uint64_t file_bytes;
	struct timeline_header header;
	bool live;

	char *names; /* terminated; printable */
	uint64_t names_bytes;
	struct timeline_entry *entry;
	uint32_t entries;
	struct timeline_lane *lane;
	uint32_t lanes;
	struct timeline_clock *clock; /* by cupti time */
	uint32_t clocks;
	char **demangled; /* by entry; NULL where not asked for yet */

	struct trace_chunk_info *chunk; /* with records, by (first, sequence) */
	uint32_t chunks;
	uint64_t records, first_start, last_end;
	uint64_t damaged; /* by opening */
	uint64_t lost;    /* by reading since the rewind: overwritten or cut off meanwhile */

	/* trace_merge.c */
	struct trace_run *run; /* a binary heap by (next, sequence) */
	uint32_t runs, run_room, loaded;
	uint32_t opened; /* chunks that have been in the heap */
};

/* trace_file.c */
bool trace_refuse(char *why, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Reads up to `n` bytes at `offset`; how many there were. None when the file has gone from its place meanwhile and was
 * not kept open. */
size_t trace_pread(struct trace *t, void *to, size_t n, uint64_t offset);

/* trace_tables.c */
bool trace_check_header(struct trace *t, char *why, size_t why_size);
bool trace_read_tables(struct trace *t, char *why, size_t why_size);

/* trace_text.c: control characters and what is not UTF-8 become '?'; lengths stay as they are. */
void trace_printable(char *s, size_t n);

/* trace_life.c */
bool trace_process_runs(const struct timeline_header *h);

/* trace_chunk.c */
bool trace_scan_headers(struct trace *t, char *why, size_t why_size);
bool trace_scan_records(struct trace *t, char *why, size_t why_size);
/* The good records of a chunk, by (start, place), into `to`, which has room for a chunk's. Returns how many:
 * fewer than the scan found when the chunk has been used again or cut off. */
uint32_t trace_load_chunk(struct trace *t, const struct trace_chunk_info *c, struct timeline_record *to);
/* ns. A gap may be longer than 71 minutes, which is the most that a record's duration holds; it ends before 2116. */
static inline uint64_t trace_duration(const struct timeline_record *r)
{
	uint64_t ns = r->flags & TIMELINE_FLAG_US ? (uint64_t)r->duration * 1000 : r->duration;
	if (r->kind != TIMELINE_GAP || r->value <= ns || ns > TRACE_TIME_MAX - r->start)
		return ns;
	return r->value < TRACE_TIME_MAX - r->start ? r->value : TRACE_TIME_MAX - r->start;
}

/* trace_merge.c */
void trace_merge_end(struct trace *t);

#endif

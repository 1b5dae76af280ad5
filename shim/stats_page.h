/*
 * stats_page.h - layout of the stats file, shared with the tools.
 *
 * The file is self-describing: names and units of all cells stand in a text
 * table at its end, so a reader of another version can print it. All integers
 * little-endian; a reader checks magic, version and every offset against the
 * file's size before use.
 */
#ifndef TURBO_STATS_PAGE_H
#define TURBO_STATS_PAGE_H

#include <stdint.h>

#define STATS_MAGIC "TURBOST1"
#define STATS_VERSION 1
#define STATS_HEADER_BYTES 4096
/* In /dev/shm, else TMPDIR, else /tmp; (uid, pid) as printf's %u and %d. */
#define STATS_FILE_FORMAT "turbo-%u-%d.stats"
/* Lane 0 is shared by the threads that find the others taken; a reader sums all of them. */
#define STATS_LANES 64

struct stats_header {
	union {
		struct {
			char magic[8];
			uint32_t version;
			uint32_t pid;
			uint64_t start_ns;    /* CLOCK_REALTIME at publication */
			uint64_t start_ticks; /* field 22 of /proc/PID/stat: tells a reused pid apart */
			uint32_t lanes;
			uint32_t cells;      /* 64-bit cells a lane */
			uint32_t calls;      /* first `calls` cells count calls by symbol */
			uint32_t lane_bytes; /* stride */
			uint64_t lanes_off;  /* byte offset of lane 0 in the file */
			uint64_t names_off;  /* text: one "name\tunit\tsentence\n" a cell, in cell order */
			uint64_t names_bytes;
			uint32_t engaged;      /* 1 once engaged */
			uint32_t request;      /* written by `turbo record` (later) */
			char version_text[32]; /* libturbo's version */
			char command[256];     /* argv joined by blanks, truncated */
			uint64_t pid_ns;       /* inode of /proc/PID/ns/pid: `pid` means nothing in another one */
		};
		unsigned char bytes[STATS_HEADER_BYTES];
	};
};

_Static_assert(sizeof(struct stats_header) == STATS_HEADER_BYTES, "header is one page");

#endif

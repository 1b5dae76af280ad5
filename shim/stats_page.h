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

/*
 * What `turbo record` asks of the process, and what it is answered. One asks at a time: the one that has moved
 * `owner` from 0, or from a process that is gone, to itself. It fills in the rest, counts up `asked` and then
 * header.request. The process stores its answer before `answered`, and the end of the recording before `ended`, each
 * of which then equals the `asked` it is about. Texts end in 0; who reads one trusts neither that nor the
 * characters in it.
 *
 * Who asked stays the owner until the recording has ended, or has asked for the end before it leaves. A request or a
 * recording whose owner is another one meanwhile, or is gone, is nobody's: the process ends it.
 */
#define STATS_RECORD_PID_BITS 22 /* Linux has no larger numbers */
/* One word, so that it changes hands in one step: the number, and the start that tells a reused number apart. */
#define STATS_RECORD_OWNER(pid, start_ticks) \
	((uint64_t)(start_ticks) << STATS_RECORD_PID_BITS | (uint32_t)(pid))
#define STATS_RECORD_OWNER_PID(owner) ((uint32_t)((owner) & ((1u << STATS_RECORD_PID_BITS) - 1)))
#define STATS_RECORD_OWNER_TICKS(owner) ((uint64_t)(owner) >> STATS_RECORD_PID_BITS)

enum stats_record_command { STATS_RECORD_START = 1, STATS_RECORD_STOP };
enum stats_record_answer { STATS_RECORD_STARTED = 1, STATS_RECORD_REFUSED };

struct stats_record {
	uint32_t ready; /* 1 while the process listens */
	uint32_t asked;
	uint64_t owner; /* STATS_RECORD_OWNER, 0 nobody */
	uint32_t command;
	uint32_t mode; /* enum timeline_mode */
	uint32_t ms;   /* the recording ends by itself after this time */
	uint32_t answered, answer;
	uint32_t ended;
	char dir[1024];     /* absolute */
	char text[1024];    /* the file, or why there is none */
	char end_text[256]; /* what there is to say at the end; "" nothing */
};

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
			uint32_t engaged;           /* 1 once engaged */
			uint32_t request;           /* counted up, and woken as a futex, when the process shall look into
			                          `record` */
			char version_text[32];      /* libturbo's version */
			char command[256];          /* argv joined by blanks, truncated */
			uint64_t pid_ns;            /* inode of /proc/PID/ns/pid: `pid` means nothing in another one */
			struct stats_record record; /* all zero: this process cannot record */
		};
		unsigned char bytes[STATS_HEADER_BYTES];
	};
};

_Static_assert(sizeof(struct stats_header) == STATS_HEADER_BYTES, "header is one page");

#endif

/*
 * trace_file.h - allocation traces: the text format, its reader and its writer.
 *
 *   turbo-alloc-trace 1            the first line
 *   a ID BYTES STREAM [DEVICE]     BYTES are allocated on STREAM as block ID
 *   f ID STREAM [DEVICE]           block ID is freed on STREAM
 *   w STREAM STREAM                the first stream waits for what the second has been given
 *   s STREAM                       the program waits for STREAM
 *   d STREAM                       STREAM is destroyed; its number may come again, as a new stream
 *
 * Empty lines and lines that begin with # count for nothing; gzip is read and written too. All numbers
 * are decimal and below 2^64, a device below TRACE_DEVICES, 0 where it is left out. An ID
 * may come again once it is free. A stream number means a stream of its own on each device.
 */
#ifndef TURBO_TRACE_FILE_H
#define TURBO_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#include "tools/timeline/temporary.h"

#define TRACE_MAGIC "turbo-alloc-trace"
#define TRACE_VERSION 1
#define TRACE_DEVICES 64
#define TRACE_LINE_MAX 1000 /* bytes of a line, without its newline */

/* ---- uint64_t → uint32_t, for IDs, addresses and stream numbers (trace_map.c) ---- */

struct trace_map_cell {
	uint64_t key;
	uint32_t value;
	uint32_t used;
};

/* All zero: empty. One thread. */
struct trace_map {
	struct trace_map_cell *cell;
	size_t room, count; /* room: a power of two, or 0 */
};

uint32_t *trace_map_find(const struct trace_map *m, uint64_t key);
/* The key must not be there. False: no memory. */
bool trace_map_add(struct trace_map *m, uint64_t key, uint32_t value);
void trace_map_remove(struct trace_map *m, uint64_t key);
void trace_map_free(struct trace_map *m);

/* ---- reading (trace_read.c) ---- */

#define TRACE_NONE UINT32_MAX

/* One line, with IDs and stream numbers made small and dense, so that who carries it out needs
 * arrays only. */
struct trace_op {
	char kind; /* 'a', 'f', 'w', 's', 'd' */
	uint16_t device;
	uint32_t block;  /* a, f: 0 .. reader->blocks - 1; taken again after its free */
	uint32_t stream; /* 0 .. reader->streams - 1; taken again after its destruction. TRACE_NONE:
						nothing was ever done there (s, d) */
	uint32_t other;  /* w: the stream that is waited for; may be TRACE_NONE */
	uint64_t bytes;  /* a, f */
};

struct trace_block {
	uint64_t bytes;
	uint16_t device;
};

/* Small numbers that are given out, taken back and given out again. */
struct trace_numbers {
	uint32_t *spare;
	uint32_t spares, room, next;
};

struct trace_reader {
	gzFile file;
	uint64_t line;
	uint32_t blocks, streams, devices; /* highest number so far + 1 */
	uint64_t live;                     /* bytes of the blocks that are allocated now */
	char why[200];                     /* after trace_reader_next() < 0 */
	/* the rest is trace_read.c's */
	char *buf;
	size_t have, at;
	bool ended;
	struct trace_map block_of, stream_of;
	struct trace_numbers block_numbers, stream_numbers;
	struct trace_block *block;
	size_t block_room;
};

/* False: it cannot be opened, errno says why. */
bool trace_reader_open(struct trace_reader *r, const char *path);
/* 1: *op is the next operation. 0: the trace is at its end. -1: line r->line is bad, or cannot be
 * read, r->why says in what way; the reader is then good for trace_reader_close() only. */
int trace_reader_next(struct trace_reader *r, struct trace_op *op);
void trace_reader_close(struct trace_reader *r);

/* What must be known of a whole trace before it is replayed. */
struct trace_facts {
	uint64_t ops;
	uint64_t peak_live; /* bytes */
	uint64_t peak_op;   /* the operation, from 0, after which that much is live */
	uint32_t devices;
};

/* Reads all of it. 0, or EXIT_FAILED after "FILE:LINE: why" in the words of `turbo NAME`. */
int trace_examine(const char *name, const char *path, struct trace_facts *facts);

/* ---- writing (trace_write.c) ---- */

struct trace_writer {
	gzFile file;
	struct temporary whole;
	uint64_t ops;
	bool failed;
	int error; /* errno of the first failure */
};

/* NULL: standard output. A path that ends in .gz is compressed. Writes the first line.
 * False: it cannot be created, errno says why. */
bool trace_create(struct trace_writer *w, const char *path);
void trace_comment(struct trace_writer *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void trace_alloc(struct trace_writer *w, uint64_t id, uint64_t bytes, uint64_t stream, unsigned device);
void trace_free(struct trace_writer *w, uint64_t id, uint64_t stream, unsigned device);
void trace_wait(struct trace_writer *w, uint64_t stream, uint64_t other);
void trace_sync(struct trace_writer *w, uint64_t stream);
void trace_destroy(struct trace_writer *w, uint64_t stream);
/* What follows is nothing worth: the file will not be there. */
void trace_fail(struct trace_writer *w, int error);
/* False: something could not be written, w->error says why; there is no file then, or the one of before. */
bool trace_finish(struct trace_writer *w);

#endif

/*
 * output.h - a file that is there whole or not at all, plain or compressed, written fast.
 *
 * Where the bytes go until then, and what a signal does: temporary.h. After a failure everything is ignored until
 * the close, which says what it was. Not thread-safe.
 */
#ifndef TURBO_OUTPUT_H
#define TURBO_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tools/timeline/temporary.h"

#define OUTPUT_BUFFER (256u << 10)
#define OUTPUT_SLACK 4096 /* that output_room() gives behind it */

struct output_gzip;

struct output {
	int fd;
	int error; /* errno of the first failure */
	struct temporary file;
	struct output_gzip *gzip;
	unsigned char *buffer;
	size_t used;
	uint64_t bytes; /* put so far, uncompressed */
};

/* An error beside errnos: a timeline, an input perhaps, is not overwritten. */
#define OUTPUT_IS_TIMELINE (-1)
const char *output_error_text(int error);

/* 0, or an error. */
int output_open(struct output *o, const char *path, bool gzip);
/* Writes the rest, puts the file in its place. 0, or the errno of what went wrong first; no file is left then. */
int output_close(struct output *o);
/* Removes what was written. */
void output_abandon(struct output *o);

void output_flush(struct output *o);
void output_fail(struct output *o, int error);
void output_bytes(struct output *o, const void *bytes, size_t n);
void output_format(struct output *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* As a JSON string, quotes included. */
void output_json(struct output *o, const char *s);

/* Room for OUTPUT_SLACK bytes; tell how many were used. */
static inline unsigned char *output_room(struct output *o)
{
	if (o->used >= OUTPUT_BUFFER)
		output_flush(o);
	return o->buffer + o->used;
}

static inline void output_used(struct output *o, size_t n)
{
	o->used += n;
}

static inline void output_text(struct output *o, const char *s)
{
	output_bytes(o, s, strlen(s));
}

void output_number(struct output *o, uint64_t n);
/* Nanoseconds as microseconds with three decimals. */
void output_microseconds(struct output *o, uint64_t ns);

#endif

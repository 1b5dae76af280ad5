/*
 * json.h - JSON, written as it comes: keys and values in order, commas by themselves.
 */
#ifndef TURBO_JSON_H
#define TURBO_JSON_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <inttypes.h>
#include <stdio.h>

struct json {
	FILE *to;
	bool comma; /* something stands before, in the same object or list */
};

static inline void json_separate(struct json *j)
{
	if (j->comma)
		fputs(", ", j->to);
	j->comma = true;
}

static inline void json_open(struct json *j, char bracket)
{
	json_separate(j);
	fputc(bracket, j->to);
	j->comma = false;
}

static inline void json_close(struct json *j, char bracket)
{
	fputc(bracket, j->to);
	j->comma = true;
}

/* Text is UTF-8 without control characters, as the reader hands it out; they are escaped all the same. */
static inline void json_text(struct json *j, const char *s)
{
	json_separate(j);
	fputc('"', j->to);
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;
		if (c == '"' || c == '\\')
			fprintf(j->to, "\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			fprintf(j->to, "\\u%04x", c);
		else
			fputc(c, j->to);
	}
	fputc('"', j->to);
}

static inline void json_key(struct json *j, const char *key)
{
	json_text(j, key);
	fputs(": ", j->to);
	j->comma = false;
}

static inline void json_null(struct json *j)
{
	json_separate(j);
	fputs("null", j->to);
}

static inline void json_uint(struct json *j, const char *key, uint64_t v)
{
	json_key(j, key);
	fprintf(j->to, "%" PRIu64, v);
	j->comma = true;
}

static inline void json_int(struct json *j, const char *key, int64_t v)
{
	json_key(j, key);
	fprintf(j->to, "%" PRId64, v);
	j->comma = true;
}

/* null when it is no number. */
static inline void json_value(struct json *j, double v, int digits)
{
	if (!isfinite(v)) {
		json_null(j);
		return;
	}
	json_separate(j);
	fprintf(j->to, "%.*g", digits, v);
}

static inline void json_double(struct json *j, const char *key, double v)
{
	json_key(j, key);
	json_value(j, v, 6);
}

static inline void json_bool(struct json *j, const char *key, bool v)
{
	json_key(j, key);
	fputs(v ? "true" : "false", j->to);
	j->comma = true;
}

static inline void json_string(struct json *j, const char *key, const char *v)
{
	json_key(j, key);
	json_text(j, v);
}

#endif

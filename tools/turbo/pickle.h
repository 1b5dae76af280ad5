/*
 * pickle.h - a reader of Python pickles (protocols 2 to 5) that hold plain data only.
 *
 * None, booleans, integers, floats, texts, bytes, lists, tuples, sets and dictionaries. An opcode that
 * would import, construct or call anything is an error. No recursion; memory grows with the input; every
 * length is checked against it. Containers may contain themselves: who walks a value must not
 * follow it without a bound.
 */
#ifndef TURBO_PICKLE_H
#define TURBO_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pickle_type {
	PICKLE_NONE,
	PICKLE_BOOL,
	PICKLE_INT,
	PICKLE_BIG, /* an integer that does not fit int64_t; its value is not kept */
	PICKLE_FLOAT,
	PICKLE_TEXT,
	PICKLE_BYTES,
	PICKLE_LIST,
	PICKLE_TUPLE,
	PICKLE_SET,
	PICKLE_DICT, /* items: key, value, key, value ...; of equal keys the last counts */
};

typedef uint32_t pickle_ref; /* index of a value */

struct pickle_value {
	uint8_t type;
	uint32_t room;
	size_t count; /* items; bytes of a text */
	union {
		int64_t integer; /* PICKLE_BOOL too */
		double real;
		const char *text; /* in the input, not terminated */
		pickle_ref *item; /* owned */
	};
};

struct pickle {
	char why[160]; /* after a failure: what is wrong, and at which byte */
	/* pickle.c's */
	const unsigned char *data;
	size_t size, at;
	struct pickle_value *value;
	uint32_t values, value_room;
	pickle_ref *stack, *memo;
	size_t stacked, stack_room, memos, memo_room;
	size_t *mark;
	size_t marks, mark_room;
};

/* `data` must stay until pickle_free(), which is due after a failure too. */
bool pickle_load(struct pickle *p, const void *data, size_t size, pickle_ref *root);
void pickle_free(struct pickle *p);

static inline const struct pickle_value *pickle_value(const struct pickle *p, pickle_ref ref)
{
	return &p->value[ref];
}

/* What `dict` has under a text; false when it is no dictionary or has no such key. */
bool pickle_lookup(const struct pickle *p, pickle_ref dict, const char *key, pickle_ref *out);
bool pickle_is(const struct pickle *p, pickle_ref ref, const char *text);
/* A non-negative integer under `key`. */
bool pickle_number(const struct pickle *p, pickle_ref dict, const char *key, uint64_t *out);
/* The items of a list or tuple; NULL when it is neither. */
const pickle_ref *pickle_items(const struct pickle *p, pickle_ref ref, size_t *count);

#endif

/* json_check.h - is a text one JSON value, strictly, and what stands at a path in it? */
#ifndef TURBO_TESTS_JSON_CHECK_H
#define TURBO_TESTS_JSON_CHECK_H

#include <stdbool.h>

/* Nothing but blanks behind the value; well-formed UTF-8; each key of an object once. */
bool json_is_valid(const char *text);
/* The value at "ranks.1.last.bytes" as it is written, in a buffer that the next call reuses; NULL: there is none. */
const char *json_at(const char *text, const char *path);

#endif

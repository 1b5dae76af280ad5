/*
 * options.h - TURBO_* options, from the one table in options.def.
 *
 * Parsed once in the constructor; constant afterwards, so any thread may read
 * them without a lock. A bad value costs one stderr line and gives the default.
 */
#ifndef TURBO_OPTIONS_H
#define TURBO_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_kind { OPTION_ENUM, OPTION_NUMBER, OPTION_PATH };

enum option_id {
#define OPTION(id, ...) OPT_##id,
#include "options.def"
#undef OPTION
	OPT_COUNT
};

/* OPTION_ENUM: index into the value list (off|on|early: 0, 1, 2); OPTION_NUMBER: the number,
 * OPTION_AUTO for auto, 0 for off; OPTION_PATH: use option_text(). */
#define OPTION_AUTO INT64_MIN

int64_t option_get(enum option_id id);
const char *option_text(enum option_id id); /* value as given, or the default; never NULL */
bool option_is_set(enum option_id id);      /* named by the user and valid */

/* Parse the environment; `bad` (may be NULL) is called for each unknown or malformed one with
 * its name, its value and a phrase that says what is allowed. Of two entries of one name the
 * first counts, and an empty value is as good as none. Used by the library and by `turbo run`.
 * No allocation; values point into the environment. */
typedef void option_bad_fn(void *arg, const char *name, const char *value, const char *allowed);
void options_parse(char *const *envp, option_bad_fn *bad, void *arg);

/* One row, for tools and documentation. */
struct option_row {
	const char *name; /* "TURBO_COPY" */
	enum option_kind kind;
	const char *values; /* "off|on|early", "1..64|auto", "path" */
	const char *safe;   /* value under TURBO=safe */
	const char *max;    /* value under TURBO=max */
	const char *off;    /* value under TURBO=off and TURBO=observe */
	const char *text;   /* one sentence */
};
extern const struct option_row option_table[OPT_COUNT];

#endif

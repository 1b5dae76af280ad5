/*
 * text.h - the few string functions that a lookup needs, without libc's.
 *
 * A sanitizer's runtime asks dlsym() for the real strcmp while its own strcmp has nothing
 * to call yet, and allocators ask before their first malloc works. So nothing that runs
 * before a name is known to be ours may call a function that others interpose. The
 * Makefile keeps the compiler from turning these loops into such calls.
 */
#ifndef TURBO_TEXT_H
#define TURBO_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* < 0, 0, > 0 as strcmp(). */
static inline int text_order(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return (unsigned char)*a - (unsigned char)*b;
}

static inline size_t text_length(const char *s)
{
	size_t n = 0;

	while (s[n])
		n++;
	return n;
}

static inline bool text_begins(const char *s, const char *prefix)
{
	while (*prefix)
		if (*s++ != *prefix++)
			return false;
	return true;
}

/* What follows the last slash; all of it when there is none. */
static inline const char *text_last_part(const char *path)
{
	const char *last = path;

	for (; *path; path++)
		if (*path == '/')
			last = path + 1;
	return last;
}

#endif

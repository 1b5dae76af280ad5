/*
 * metrics_alloc.c - memory for results; without it the command ends.
 */
#include <stdarg.h>
#include <stdlib.h>

#include "metrics.h"

static void *given(void *p)
{
	if (p)
		return p;
	fputs("turbo: no memory for the report; try a part of the time (--window)\n", stderr);
	exit(1);
}

void *metrics_alloc(size_t n, size_t size)
{
	return given(calloc(n ? n : 1, size));
}

void *metrics_grow(void *old, size_t n, size_t size)
{
	return given(reallocarray(old, n, size));
}

char *metrics_text(const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;
	va_start(ap, fmt);
	int n = vasprintf(&text, fmt, ap);
	va_end(ap);
	return given(n < 0 ? NULL : text);
}

/*
 * lines.h - text put together in a buffer of a fixed size, also in a signal handler.
 *
 * What does not fit is cut; `text` always ends in 0. Bytes that would break a line are replaced.
 */
#ifndef TURBO_LINES_H
#define TURBO_LINES_H

#include <stdbool.h>
#include <stddef.h>

struct lines {
	char *text;
	unsigned size, used; /* bytes; `used` is without the final 0 */
	bool cut;
};

static inline void lines_begin(struct lines *l, char *text, unsigned size)
{
	*l = (struct lines){.text = text, .size = size};
	if (size)
		text[0] = 0;
}

static inline void lines_byte(struct lines *l, char c)
{
	if (l->used + 1 >= l->size) {
		l->cut = true;
		return;
	}
	l->text[l->used++] = c;
	l->text[l->used] = 0;
}

/* Control characters become '?'. */
static inline void lines_text(struct lines *l, const char *s, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		lines_byte(l, (unsigned char)s[i] < ' ' || s[i] == 0x7f ? '?' : s[i]);
}

static inline void lines_string(struct lines *l, const char *s)
{
	for (; *s; s++)
		lines_text(l, s, 1);
}

static inline void lines_number(struct lines *l, unsigned long n)
{
	char digit[24];
	unsigned i = sizeof(digit);
	do {
		digit[--i] = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	lines_text(l, digit + i, sizeof(digit) - i);
}

/* Ends a line that began at `start`; one that was cut goes away whole. */
static inline bool lines_end(struct lines *l, unsigned start)
{
	lines_byte(l, '\n');
	if (!l->cut)
		return true;
	l->used = start;
	if (l->size)
		l->text[start] = 0;
	return false;
}

#endif

/*
 * trace_text.c - texts of a file, made fit for a terminal, JSON and HTML.
 */
#include <string.h>

#include "tools/timeline/trace_impl.h"

/* Bytes of the UTF-8 character at s, of at most n; 0: it is none. No surrogates, nothing overlong, and no
 * C1 control (U+0080 to U+009F), which some terminals obey. */
static size_t utf8_length(const unsigned char *s, size_t n)
{
	static const struct {
		unsigned char from, to, low, high; /* first byte, then bounds of the second */
		size_t length;
	} row[] = {
		{0x20, 0x7e, 0, 0, 1},       {0xc2, 0xc2, 0xa0, 0xbf, 2}, {0xc3, 0xdf, 0x80, 0xbf, 2},
		{0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3},
		{0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4},
		{0xf4, 0xf4, 0x80, 0x8f, 4},
	};
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		if (s[0] < row[i].from || s[0] > row[i].to)
			continue;
		if (row[i].length > n || (row[i].length > 1 && (s[1] < row[i].low || s[1] > row[i].high)))
			return 0;
		for (size_t k = 2; k < row[i].length; k++)
			if ((s[k] & 0xc0) != 0x80)
				return 0;
		return row[i].length;
	}
	return 0;
}

void trace_printable(char *s, size_t n)
{
	for (size_t i = 0; i < n;) {
		size_t length = s[i] ? utf8_length((unsigned char *)s + i, n - i) : 1;
		if (!length)
			s[i] = '?';
		i += length ? length : 1;
	}
}

const char *trace_name(const struct trace *t, uint32_t offset)
{
	if (offset >= t->names_bytes)
		return "";
	const char *s = t->names + offset;
	/* An offset into the middle of a character. */
	while (((unsigned char)*s & 0xc0) == 0x80)
		s++;
	return s;
}

/* report_out.c - see report_out.h. */
#include "report_out.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SECOND 1000000000ull
#define ESCAPED 5 /* bytes of \xNN and the 0 */

void out_begin(struct out *o, char *text, unsigned size)
{
	*o = (struct out){.text = text, .size = size};
	text[0] = '\0';
}

/* All of it or nothing, so that no character is cut in two. */
static void put(struct out *o, const char *s, size_t bytes)
{
	if (o->cut || bytes >= o->size - o->used) {
		o->cut = true;
		return;
	}
	memcpy(o->text + o->used, s, bytes);
	o->used += (unsigned)bytes;
	o->text[o->used] = '\0';
}

void out_end_cut(struct out *o)
{
	unsigned at = o->used < o->size - 3 ? o->used : o->size - 3;

	if (!o->cut)
		return;
	while (at > 0 && (o->text[at] & 0xc0) == 0x80)
		at--;
	memcpy(o->text + at, "..", 3);
	o->used = at + 2;
}

void out_string(struct out *o, const char *s)
{
	put(o, s, strlen(s));
}

void out_format(struct out *o, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	put(o, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

/* ---- texts of others ---- */

/* Bytes of the well-formed character at `s`, of at most `most`; 0: there is none. */
static unsigned character(const unsigned char *s, size_t most, uint32_t *code)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	unsigned n = s[0] < 0x80                   ? 1
				 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
				 : s[0] >> 4 == 0xe            ? 3
				 : s[0] >> 3 == 0x1e           ? 4
											   : 0;

	if (n == 0 || n > most)
		return 0;
	*code = n == 1 ? s[0] : s[0] & (0xffu >> (n + 1));
	for (unsigned i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		*code = *code << 6 | (s[i] & 0x3f);
	}
	if (*code < least[n] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000))
		return 0;
	return n;
}

static bool obeyed(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x200b && c <= 0x200f) ||
		   (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff;
}

/* The next character as it is shown: bytes read, *columns it takes; `shown` has room for ESCAPED. */
static unsigned show(const char *s, size_t most, char shown[ESCAPED], unsigned *columns)
{
	static const char hex[] = "0123456789abcdef";
	const unsigned char *u = (const unsigned char *)s;
	uint32_t code;
	unsigned n = character(u, most, &code);

	if (n && !obeyed(code)) {
		memcpy(shown, s, n);
		shown[n] = '\0';
		*columns = 1;
		return n;
	}
	/* Of one that is obeyed the first byte; the rest of it is no character then, and comes the same way. */
	memcpy(shown, (char[ESCAPED]){'\\', 'x', hex[u[0] >> 4], hex[u[0] & 15]}, ESCAPED);
	*columns = ESCAPED - 1;
	return 1;
}

static unsigned columns_of(const char *s, size_t most)
{
	unsigned sum = 0, columns;
	char shown[ESCAPED];

	for (size_t at = 0; at < most && s[at]; sum += columns)
		at += show(s + at, most - at, shown, &columns);
	return sum;
}

void out_name_fit(struct out *o, const char *s, size_t most, unsigned columns, enum out_keep keep)
{
	unsigned all = columns ? columns_of(s, most) : 0, from = 0, to = UINT32_MAX, column = 0, wide;
	char shown[ESCAPED];

	if (columns && all > columns) {
		unsigned kept = columns > 2 ? columns - 2 : 0;
		if (keep == OUT_LAST)
			from = all - kept;
		else
			to = kept;
	}
	if (from)
		out_string(o, "..");
	for (size_t at = 0; at < most && s[at]; column += wide) {
		at += show(s + at, most - at, shown, &wide);
		if (column >= from && column + wide <= to)
			out_string(o, shown);
	}
	if (to != UINT32_MAX)
		out_string(o, "..");
}

void out_name(struct out *o, const char *s, size_t most)
{
	out_name_fit(o, s, most, 0, OUT_FIRST);
}

/* ---- figures ---- */

/* Tenths of a second, seconds; the longer ones by the given patterns. */
static void age(struct out *o, uint64_t ns, const char *minutes, const char *hours, const char *days)
{
	uint64_t s = ns / SECOND;
	unsigned h = (unsigned)(s / 3600 % 24), m = (unsigned)(s / 60 % 60);

	if (ns < SECOND / 10)
		out_format(o, "%u ms", (unsigned)(ns / 1000000));
	else if (ns < 10 * SECOND)
		out_format(o, "%u.%u s", (unsigned)s, (unsigned)(ns / (SECOND / 10) % 10));
	else if (s < 120)
		out_format(o, "%u s", (unsigned)s);
	else if (s < 7200)
		out_format(o, minutes, (unsigned)(s / 60), (unsigned)(s % 60));
	else if (s < 48 * 3600)
		out_format(o, hours, (unsigned)(s / 3600), m);
	else
		out_format(o, days, (unsigned)(s / 86400 < 999 ? s / 86400 : 999), h);
}

void out_age(struct out *o, uint64_t ns)
{
	age(o, ns, "%u min %u s", "%u h %u min", "%u d %u h");
}

void out_age_short(struct out *o, uint64_t ns)
{
	age(o, ns, "%um%02us", "%uh%02um", "%ud%02uh");
}

void out_size(struct out *o, uint64_t bytes)
{
	static const char *const unit[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	unsigned i = 0, shift = 10;

	if (bytes < 1024) {
		out_format(o, "%u B", (unsigned)bytes);
		return;
	}
	while (i < 5 && bytes >> shift >= 1024) {
		i++;
		shift += 10;
	}
	uint64_t whole = bytes >> shift, tenths = ((bytes >> (shift - 10)) & 1023) * 10 / 1024;
	if (whole < 100)
		out_format(o, "%u.%u %s", (unsigned)whole, (unsigned)tenths, unit[i]);
	else
		out_format(o, "%u %s", (unsigned)whole, unit[i]);
}

unsigned out_columns(const struct out *o, unsigned from)
{
	unsigned n = 0;

	for (unsigned i = from; i < o->used; i++)
		n += (o->text[i] & 0xc0) != 0x80;
	return n;
}

void out_pad(struct out *o, unsigned from, unsigned columns)
{
	for (unsigned n = out_columns(o, from); n < columns && !o->cut; n++)
		put(o, " ", 1);
}

/* ---- JSON ---- */

static void begin(struct out_json *j, const char *key)
{
	if (j->comma)
		out_string(j->o, ", ");
	j->comma = true;
	if (key)
		out_format(j->o, "\"%s\": ", key);
}

void json_begin(struct out_json *j, const char *key, char bracket)
{
	begin(j, key);
	put(j->o, &bracket, 1);
	j->comma = false;
}

void json_end(struct out_json *j, char bracket)
{
	put(j->o, &bracket, 1);
	j->comma = true;
}

void json_put_number(struct out_json *j, const char *key, int64_t value)
{
	begin(j, key);
	out_format(j->o, "%lld", (long long)value);
}

void json_put_bool(struct out_json *j, const char *key, bool value)
{
	begin(j, key);
	out_string(j->o, value ? "true" : "false");
}

void json_put_null(struct out_json *j, const char *key)
{
	begin(j, key);
	out_string(j->o, "null");
}

void json_put_text(struct out_json *j, const char *key, const char *s, size_t most)
{
	char shown[ESCAPED];
	unsigned columns;

	begin(j, key);
	out_string(j->o, "\"");
	for (size_t at = 0; at < most && s[at];) {
		at += show(s + at, most - at, shown, &columns);
		for (const char *c = shown; *c; c++) {
			if (*c == '"' || *c == '\\')
				put(j->o, "\\", 1);
			put(j->o, c, 1);
		}
	}
	out_string(j->o, "\"");
}

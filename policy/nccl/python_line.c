/*
 * python_line.c - from an instruction to its line, in the three formats of CPython's tables.
 *
 * 3.9 (Objects/lnotab_notes.txt): pairs (bytes, signed lines); a pair takes effect at its own end. 3.10: pairs
 * (bytes, signed lines; -128: none) that take effect at their beginning. 3.11 and later (Objects/locations.md):
 * entries of a head (0x80, kind, number of instructions) and what the kind asks for.
 */
#include "python.h"

#include "peek.h"

#define MOST_BYTES (1u << 20) /* of a table; longer ones are nonsense */
#define SIZE_OFF 16           /* PyVarObject.ob_size */
#define BYTES_OFF 32          /* PyBytesObject.ob_sval */
#define UNIT 2                /* bytes of an instruction */

struct table {
	uintptr_t next;
	size_t left;
	unsigned have, at;
	unsigned char part[256];
};

static bool more(struct table *t)
{
	if (t->at < t->have)
		return true;
	unsigned want = t->left < sizeof(t->part) ? (unsigned)t->left : (unsigned)sizeof(t->part);
	if (!want || !peek(t->next, t->part, want))
		return false;
	t->next += want;
	t->left -= want;
	t->have = want;
	t->at = 0;
	return true;
}

/* The next byte, 0 at the end. */
static unsigned byte(struct table *t)
{
	return more(t) ? t->part[t->at++] : 0;
}

static bool begin(struct table *t, const struct python *p, uintptr_t object)
{
	uintptr_t head[3];
	if (!peek(object, head, sizeof(head)) || head[1] != (uintptr_t)p->api.bytes_type || head[2] > MOST_BYTES)
		return false;
	t->next = object + BYTES_OFF;
	t->left = head[2];
	t->have = t->at = 0;
	return true;
}

static long line_39(struct table *t, long line, long place)
{
	long at = 0;
	while (more(t)) {
		at += byte(t);
		if (at > place)
			break;
		line += (signed char)byte(t);
	}
	return line;
}

static long line_310(struct table *t, long line, long place)
{
	long end = 0;
	while (more(t)) {
		end += byte(t);
		int lines = (signed char)byte(t);
		bool none = lines == -128;
		line += none ? 0 : lines;
		if (end > place)
			return none ? 0 : line;
	}
	return 0;
}

/* Six bits a byte, lowest first; 0x40: more follow. */
static unsigned long varint(struct table *t)
{
	unsigned long value = 0;
	for (unsigned shift = 0; shift < 36; shift += 6) {
		unsigned b = byte(t);
		value |= (unsigned long)(b & 63) << shift;
		if (!(b & 64))
			break;
	}
	return value;
}

static long signed_varint(struct table *t)
{
	unsigned long v = varint(t);
	return v & 1 ? -(long)(v >> 1) : (long)(v >> 1);
}

static long line_311(struct table *t, long line, long place)
{
	enum { ONE_LINE = 10, NO_COLUMNS = 13, LONG = 14, NONE = 15 };
	long end = 0;
	while (more(t)) {
		unsigned head = byte(t), kind = head >> 3 & 15;
		if (!(head & 0x80))
			return 0;
		if (kind == LONG) {
			line += signed_varint(t);
			for (int i = 0; i < 3; i++)
				varint(t);
		} else if (kind == NO_COLUMNS) {
			line += signed_varint(t);
		} else if (kind < NO_COLUMNS) {
			byte(t);
			if (kind >= ONE_LINE) {
				line += kind - ONE_LINE;
				byte(t);
			}
		}
		end += ((long)(head & 7) + 1) * UNIT;
		if (end > place)
			return kind == NONE ? 0 : line;
	}
	return 0;
}

unsigned python_line(const struct python *p, uintptr_t object, unsigned first_line, long place)
{
	struct table t;
	long line;
	if (place < 0)
		return first_line;
	if (!begin(&t, p, object))
		return 0;
	if (p->layout.place == PLACE_BYTE)
		line = line_39(&t, first_line, place);
	else if (p->layout.place == PLACE_WORD)
		line = line_310(&t, first_line, place);
	else
		line = line_311(&t, first_line, place);
	return line > 0 && line < 1 << 30 ? (unsigned)line : 0;
}

/*
 * python_read.c - frames and their text.
 *
 * The careful way reads a structure in one piece and believes a pointer only if it is aligned and leads to an object
 * of the expected type.
 */
#include "python.h"

#include <string.h>

#include "peek.h"

#define STEPS 96 /* frames looked at, skipped ones included */
#define FRAME_BYTES 128
#define CODE_BYTES 256
#define TYPE_OFF 8            /* PyObject.ob_type */
#define SIZE_OFF 16           /* PyVarObject.ob_size */
#define UNIT 2                /* bytes of an instruction */
#define MOST_UNITS (1u << 28) /* of a function; longer ones are nonsense */
#define TAGS 7u               /* low bits of a reference that are none of the address (3.14: _PyStackRef) */
#define SHOWN 100             /* bytes of a file's name */
#define NAME_SHOWN 80         /* characters of a function's */

static uintptr_t word_at(const unsigned char *in, unsigned offset)
{
	uintptr_t v;
	memcpy(&v, in + offset, sizeof(v));
	return v;
}

static int int_at(const unsigned char *in, unsigned offset)
{
	int v;
	memcpy(&v, in + offset, sizeof(v));
	return v;
}

static bool plausible(uintptr_t p)
{
	return p >= 4096 && p % sizeof(void *) == 0;
}

/* Where in its instructions the frame is; -2: not begun yet, so it is not shown. */
static long place_of(const struct python_layout *l, const unsigned char *frame, const unsigned char *code,
					 uintptr_t code_at)
{
	if (l->place == PLACE_BYTE)
		return int_at(frame, l->frame_place) < 0 ? -1 : int_at(frame, l->frame_place);
	if (l->place == PLACE_WORD)
		return int_at(frame, l->frame_place) < 0 ? -1 : int_at(frame, l->frame_place) * (long)UNIT;
	uintptr_t at = word_at(frame, l->frame_place), start = code_at + l->code_start;
	uintptr_t units = word_at(code, SIZE_OFF);
	/* _PyCodeObject._co_firsttraceable, two words before the instructions in all these versions. */
	long first = (long)int_at(code, l->code_start - 2u * sizeof(void *)) * UNIT;
	long place = (long)(at - start);
	if (units > MOST_UNITS || place >= (long)units * UNIT || place < -(long)UNIT)
		return -1;
	bool generator = frame[l->frame_owner] == 1;
	return place < first && !generator ? -2 : place;
}

/* Reads the frame at `at`; 0: it is nonsense, -1: not one to show, 1: one to show. */
static int read_frame(const struct python *p, uintptr_t at, struct python_frame *out, uintptr_t *back)
{
	const struct python_layout *l = &p->layout;
	unsigned char frame[FRAME_BYTES], code[CODE_BYTES];
	if (!plausible(at) || !peek(at, frame, l->code_start ? l->frame_owner + 1u : FRAME_BYTES))
		return 0;
	*back = word_at(frame, l->frame_back);
	if (l->code_start && frame[l->frame_owner] >= l->owner_foreign)
		return -1;
	out->code = word_at(frame, l->frame_code) & ~(uintptr_t)TAGS;
	if (!plausible(out->code) || !peek(out->code, code, l->code_start ? l->code_start : CODE_BYTES / 2))
		return 0;
	if (word_at(code, TYPE_OFF) != (uintptr_t)p->api.code_type)
		return -1;
	out->place = place_of(l, frame, code, out->code);
	return out->place == -2 ? -1 : 1;
}

static uintptr_t innermost(const struct python_layout *l, uintptr_t state)
{
	uintptr_t frame = 0;
	if (!plausible(state) || !peek(state + l->state_frame, &frame, sizeof(frame)) || !l->cframe)
		return frame;
	uintptr_t cframe = frame;
	frame = 0;
	if (plausible(cframe))
		peek(cframe + l->cframe_frame, &frame, sizeof(frame));
	return frame;
}

unsigned python_frames(const struct python *p, const void *state, struct python_frame *frame, unsigned max)
{
	unsigned n = 0;
	if (!p->layout_known)
		return 0;
	uintptr_t at = innermost(&p->layout, (uintptr_t)state), back;
	for (unsigned i = 0; i < STEPS && n < max && at; i++, at = back) {
		int what = read_frame(p, at, &frame[n], &back);
		if (!what)
			break;
		n += what > 0;
	}
	return n;
}

static void utf8(struct lines *out, uint32_t c)
{
	char b[4];
	if (c < 0x80) {
		lines_text(out, (const char[]){(char)c}, 1);
	} else if (c < 0x800) {
		b[0] = (char)(0xc0 | c >> 6), b[1] = (char)(0x80 | (c & 63));
		lines_text(out, b, 2);
	} else if (c >= 0x10000 && c < 0x110000) {
		b[0] = (char)(0xf0 | c >> 18), b[1] = (char)(0x80 | (c >> 12 & 63));
		b[2] = (char)(0x80 | (c >> 6 & 63)), b[3] = (char)(0x80 | (c & 63));
		lines_text(out, b, 4);
	} else if (c < 0x10000 && (c < 0xd800 || c > 0xdfff)) {
		b[0] = (char)(0xe0 | c >> 12), b[1] = (char)(0x80 | (c >> 6 & 63)), b[2] = (char)(0x80 | (c & 63));
		lines_text(out, b, 3);
	} else {
		lines_byte(out, '?');
	}
}

/* The characters of a str; of a longer one the end (`tail`) or the beginning. */
static bool read_text(const struct python *p, uintptr_t object, struct lines *out, unsigned most, bool tail)
{
	const struct python_layout *l = &p->layout;
	unsigned char head[80], data[512];
	if (!plausible(object) || !peek(object, head, l->compact) ||
		word_at(head, TYPE_OFF) != (uintptr_t)p->api.text_type)
		return false;
	/* interned:2, kind:3, compact:1, ascii:1 */
	unsigned state = (unsigned)int_at(head, l->text_state), kind = state >> 2 & 7;
	uintptr_t length = word_at(head, l->text_length), from = object + (state & 64 ? l->ascii : l->compact);
	if (!(state & 32) || (kind != 1 && kind != 2 && kind != 4) || length > (1u << 30))
		return false;
	unsigned show = length < most ? (unsigned)length : most;
	if (show * kind > sizeof(data))
		show = (unsigned)sizeof(data) / kind;
	if (tail)
		from += (length - show) * kind;
	if (!peek(from, data, (size_t)show * kind))
		return false;
	for (unsigned i = 0; i < show; i++) {
		uint32_t c = 0;
		memcpy(&c, data + (size_t)i * kind, kind); /* little-endian */
		utf8(out, c);
	}
	return true;
}

void python_show_file(struct lines *out, const char *file, size_t bytes)
{
	static const char *const folder[] = {"/site-packages/", "/dist-packages/"};
	for (unsigned i = 0; i < 2; i++) {
		size_t n = strlen(folder[i]);
		for (size_t at = bytes; at-- > 0;)
			if (bytes - at > n && memcmp(file + at, folder[i], n) == 0) {
				/* The folder's name stays: what is in it is not the program's own. */
				file += at + 1;
				bytes -= at + 1;
				break;
			}
	}
	if (bytes > SHOWN) {
		size_t skip = bytes - SHOWN;
		while (skip < bytes && ((unsigned char)file[skip] & 0xc0) == 0x80)
			skip++; /* not in the middle of a character */
		lines_string(out, "...");
		file += skip;
		bytes -= skip;
	}
	lines_text(out, file, bytes);
}

void python_show_name(struct lines *out, const char *name)
{
	for (unsigned i = 0; *name; name++) {
		i += ((unsigned char)*name & 0xc0) != 0x80;
		if (i > NAME_SHOWN)
			return;
		lines_text(out, name, 1);
	}
}

bool python_describe(const struct python *p, const struct python_frame *frame, struct lines *out)
{
	const struct python_layout *l = &p->layout;
	unsigned char code[CODE_BYTES];
	char path[1024];
	struct lines file;
	if (!peek(frame->code, code, l->code_start ? l->code_start : CODE_BYTES / 2) ||
		word_at(code, TYPE_OFF) != (uintptr_t)p->api.code_type)
		return false;
	lines_begin(&file, path, sizeof(path));
	if (!read_text(p, word_at(code, l->code_file), &file, 500, true))
		lines_byte(&file, '?');
	python_show_file(out, path, file.used);
	lines_byte(out, ':');
	lines_number(out, python_line(p, word_at(code, l->code_table), (unsigned)int_at(code, l->code_line),
								  frame->place));
	lines_byte(out, ' ');
	if (!read_text(p, word_at(code, l->code_name), out, NAME_SHOWN, false))
		lines_byte(out, '?');
	return true;
}

/* The frames are this thread's own: it runs the C function that they lead to, so they stay as they are. */
uint64_t python_walk(const struct python *p, uint64_t seed)
{
	const struct python_layout *l = &p->layout;
	const char *state = p->api.this_state();
	uint64_t h = seed;
	if (!state)
		return 0;
	const char *at = *(const char *const *)(state + l->state_frame);
	if (l->cframe && at)
		at = *(const char *const *)(at + l->cframe_frame);
	if (!at)
		return 0;
	for (unsigned i = 0; i < PYTHON_FRAMES && at; i++) {
		uintptr_t code = *(const uintptr_t *)(at + l->frame_code) & ~(uintptr_t)TAGS;
		uint64_t place = l->code_start ? *(const uint64_t *)(at + l->frame_place)
									   : *(const uint32_t *)(at + l->frame_place);
		/* A code object may take the place of one that is gone: its name and first line tell. */
		if (plausible(code) && (*(const void *const *)(code + TYPE_OFF) == p->api.code_type))
			place ^= *(const uint64_t *)(code + l->code_name) * 3 + *(const uint32_t *)(code + l->code_line);
		h = (h ^ code) * 0x9e3779b97f4a7c15u;
		h = (h ^ (h >> 32) ^ place) * 0xff51afd7ed558ccdu;
		at = *(const char *const *)(at + l->frame_back);
	}
	return h | 1;
}

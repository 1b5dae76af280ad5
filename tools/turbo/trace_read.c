/*
 * trace_read.c - an allocation trace, line by line: checked, numbers made dense.
 *
 * Memory grows with the blocks and streams that exist at one time, not with the file.
 */
#if !__has_include(<zlib.h>)
#error "zlib.h is missing: run `make setup`, or install zlib1g-dev"
#endif

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "trace_file.h"
#include "turbo.h"

#define BUFFER_BYTES (256 * 1024)

static int bad(struct trace_reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int bad(struct trace_reader *r, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(r->why, sizeof(r->why), fmt, ap);
	va_end(ap);
	return -1;
}

bool trace_reader_open(struct trace_reader *r, const char *path)
{
	*r = (struct trace_reader){0};
	errno = 0;
	r->buf = malloc(BUFFER_BYTES + 1);
	r->file = r->buf ? gzopen(path, "rbe") : NULL;
	if (r->file) {
		gzbuffer(r->file, BUFFER_BYTES);
		return true;
	}
	int error = errno ? errno : ENOMEM;
	trace_reader_close(r);
	errno = error;
	return false;
}

void trace_reader_close(struct trace_reader *r)
{
	if (r->file)
		gzclose_r(r->file);
	r->file = NULL;
	trace_map_free(&r->block_of);
	trace_map_free(&r->stream_of);
	free(r->block_numbers.spare);
	free(r->stream_numbers.spare);
	free(r->block);
	free(r->buf);
	r->buf = NULL;
}

/* ---- lines ---- */

static int cannot_read(struct trace_reader *r)
{
	int code;
	const char *text = gzerror(r->file, &code);
	if (code == Z_BUF_ERROR)
		return bad(r, "the compressed file is truncated");
	if (code == Z_ERRNO)
		return bad(r, "it cannot be read: %s", strerror(errno));
	return bad(r, "the compressed file is damaged (%s)", code == Z_DATA_ERROR ? "bad data" : text);
}

/* Moves the unread rest to the front and reads on behind it. */
static int fill(struct trace_reader *r)
{
	memmove(r->buf, r->buf + r->at, r->have - r->at);
	r->have -= r->at;
	r->at = 0;
	int n = gzread(r->file, r->buf + r->have, (unsigned)(BUFFER_BYTES - r->have)), code;
	if (n < 0)
		return cannot_read(r);
	gzerror(r->file, &code);
	if (n == 0 && code == Z_BUF_ERROR)
		return cannot_read(r);
	r->ended = n == 0;
	r->have += (size_t)n;
	return 0;
}

/* *line: the next line, ended by a NUL, in the buffer. 1, 0 at the end, -1. */
static int next_line(struct trace_reader *r, char **line)
{
	for (;;) {
		size_t left = r->have - r->at;
		char *start = r->buf + r->at, *eol = memchr(start, '\n', left);
		size_t n = eol ? (size_t)(eol - start) : left;
		if (n > TRACE_LINE_MAX) {
			r->line++;
			return bad(r, "the line is longer than %d bytes", TRACE_LINE_MAX);
		}
		if (eol || (r->ended && left)) {
			r->line++;
			if (memchr(start, '\0', n))
				return bad(r, "the line holds a zero byte: not a text file");
			if (n && start[n - 1] == '\r')
				start[n - 1] = '\0';
			start[n] = '\0';
			r->at += n + (eol != NULL);
			*line = start;
			return 1;
		}
		if (r->ended)
			return 0;
		int code = fill(r);
		if (code < 0) {
			r->line++;
			return code;
		}
	}
}

/* ---- fields ---- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static char *skip_blanks(char *s)
{
	while (is_blank(*s))
		s++;
	return s;
}

/* What stands at s, for messages: at most 20 printable characters. */
static const char *shown(const char *s, char buf[24])
{
	size_t n = 0;
	for (; s[n] && !is_blank(s[n]) && n < 20; n++)
		buf[n] = (s[n] > 0x20 && s[n] < 0x7f) ? s[n] : '?';
	buf[n] = '\0';
	return buf;
}

/* Takes one decimal number that is called `what`. */
static int number(struct trace_reader *r, char **s, const char *what, uint64_t *out)
{
	char text[24], *p = skip_blanks(*s);
	uint64_t n = 0;
	if (!*p)
		return bad(r, "%s is missing", what);
	if (*p == '-')
		return bad(r, "%s is negative: %s", what, shown(p, text));
	char *start = p;
	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(n, 10u, &n) || __builtin_add_overflow(n, (unsigned)(*p - '0'), &n))
			return bad(r, "%s does not fit 64 bits: %s", what, shown(start, text));
	if (p == start || (*p && !is_blank(*p)))
		return bad(r, "%s is not a number: %s", what, shown(start, text));
	*s = p;
	*out = n;
	return 0;
}

static int end_of_line(struct trace_reader *r, char *s)
{
	char text[24];
	s = skip_blanks(s);
	return *s ? bad(r, "there is something behind the last field: %s", shown(s, text)) : 0;
}

/* `fallback` when the line ends here. */
static int device(struct trace_reader *r, char **s, uint16_t fallback, uint16_t *out)
{
	uint64_t n = fallback;
	if (*skip_blanks(*s) && number(r, s, "DEVICE", &n) < 0)
		return -1;
	if (n >= TRACE_DEVICES)
		return bad(r, "DEVICE is %" PRIu64 ", the highest is %d", n, TRACE_DEVICES - 1);
	*out = (uint16_t)n;
	if (n >= r->devices)
		r->devices = (uint32_t)n + 1;
	return 0;
}

/* ---- dense numbers ---- */

static uint32_t number_take(struct trace_numbers *n)
{
	if (n->spares)
		return n->spare[--n->spares];
	return n->next == TRACE_NONE ? TRACE_NONE : n->next++;
}

static bool number_give_back(struct trace_numbers *n, uint32_t number)
{
	if (n->spares == n->room) {
		uint32_t room = n->room ? n->room * 2 : 64;
		uint32_t *spare = realloc(n->spare, room * sizeof(*spare));
		if (!spare)
			return false;
		n->spare = spare;
		n->room = room;
	}
	n->spare[n->spares++] = number;
	return true;
}

/* The stream called `name`; `make` it when it is new, else *out is TRACE_NONE. */
static int stream_named(struct trace_reader *r, uint64_t name, bool make, uint32_t *out)
{
	uint32_t *known = trace_map_find(&r->stream_of, name);
	*out = known ? *known : TRACE_NONE;
	if (known || !make)
		return 0;
	*out = number_take(&r->stream_numbers);
	if (*out == TRACE_NONE || !trace_map_add(&r->stream_of, name, *out))
		return bad(r, "no memory for stream %zu", r->stream_of.count + 1);
	r->streams = r->stream_numbers.next;
	return 0;
}

static int stream(struct trace_reader *r, char **s, bool make, uint32_t *out)
{
	uint64_t name;
	return number(r, s, "STREAM", &name) < 0 ? -1 : stream_named(r, name, make, out);
}

/* ---- operations ---- */

static int new_block(struct trace_reader *r, uint64_t id, struct trace_op *op)
{
	op->block = number_take(&r->block_numbers);
	if (op->block != TRACE_NONE && op->block >= r->block_room) {
		size_t room = r->block_room ? r->block_room * 2 : 1024;
		struct trace_block *block = realloc(r->block, room * sizeof(*block));
		if (!block)
			return bad(r, "no memory for %zu blocks", room);
		r->block = block;
		r->block_room = room;
	}
	if (op->block == TRACE_NONE || !trace_map_add(&r->block_of, id, op->block))
		return bad(r, "no memory for block %zu", r->block_of.count + 1);
	r->block[op->block] = (struct trace_block){.bytes = op->bytes, .device = op->device};
	r->blocks = r->block_numbers.next;
	return 0;
}

static int take_alloc(struct trace_reader *r, char *s, struct trace_op *op)
{
	uint64_t id;
	if (number(r, &s, "ID", &id) < 0 || number(r, &s, "BYTES", &op->bytes) < 0 ||
		stream(r, &s, true, &op->stream) < 0 || device(r, &s, 0, &op->device) < 0 || end_of_line(r, s) < 0)
		return -1;
	if (!op->bytes)
		return bad(r, "BYTES is 0");
	if (trace_map_find(&r->block_of, id))
		return bad(r, "block %" PRIu64 " is allocated already", id);
	if (__builtin_add_overflow(r->live, op->bytes, &r->live))
		return bad(r, "more than 2^64 bytes are allocated");
	return new_block(r, id, op) < 0 ? -1 : 1;
}

static int take_free(struct trace_reader *r, char *s, struct trace_op *op)
{
	uint64_t id;
	if (number(r, &s, "ID", &id) < 0)
		return -1;
	uint32_t *known = trace_map_find(&r->block_of, id);
	uint16_t home = known ? r->block[*known].device : 0;
	if (stream(r, &s, true, &op->stream) < 0 || device(r, &s, home, &op->device) < 0 || end_of_line(r, s) < 0)
		return -1;
	if (!known)
		return bad(r, "block %" PRIu64 " is not allocated", id);
	if (op->device != home)
		return bad(r, "block %" PRIu64 " is on device %u, not %u", id, home, op->device);
	op->block = *known;
	op->bytes = r->block[op->block].bytes;
	r->live -= op->bytes;
	trace_map_remove(&r->block_of, id);
	return number_give_back(&r->block_numbers, op->block) ? 1 : bad(r, "no memory");
}

static int take_wait(struct trace_reader *r, char *s, struct trace_op *op)
{
	/* Later waits for the first stream pass on what it waited for: it exists from now on. */
	if (stream(r, &s, true, &op->stream) < 0 || stream(r, &s, false, &op->other) < 0 || end_of_line(r, s) < 0)
		return -1;
	return 1;
}

static int take_sync(struct trace_reader *r, char *s, struct trace_op *op)
{
	return stream(r, &s, false, &op->stream) < 0 || end_of_line(r, s) < 0 ? -1 : 1;
}

static int take_destroy(struct trace_reader *r, char *s, struct trace_op *op)
{
	uint64_t name;
	if (number(r, &s, "STREAM", &name) < 0 || end_of_line(r, s) < 0)
		return -1;
	stream_named(r, name, false, &op->stream);
	if (op->stream == TRACE_NONE)
		return 1;
	trace_map_remove(&r->stream_of, name);
	return number_give_back(&r->stream_numbers, op->stream) ? 1 : bad(r, "no memory");
}

static int check_header(struct trace_reader *r, char *s)
{
	uint64_t version;
	size_t n = strlen(TRACE_MAGIC);
	if (strncmp(s, TRACE_MAGIC, n) || !is_blank(s[n]))
		return bad(r, "not an allocation trace: the first line must be `%s %d`", TRACE_MAGIC, TRACE_VERSION);
	s += n;
	if (number(r, &s, "the version", &version) < 0 || end_of_line(r, s) < 0)
		return -1;
	if (version != TRACE_VERSION)
		return bad(r, "the trace has version %" PRIu64 ", this command reads version %d", version,
				   TRACE_VERSION);
	return 1;
}

/* *line: the next line that is an operation. 1, 0 at the end, -1. */
static int next_operation(struct trace_reader *r, char **line)
{
	bool first = r->line == 0;
	int code = next_line(r, line);
	if (code == 0 && first) {
		r->line = 1;
		return bad(r, "the file is empty");
	}
	if (code > 0 && first) {
		code = check_header(r, *line);
		if (code > 0)
			code = next_line(r, line);
	}
	while (code > 0) {
		*line = skip_blanks(*line);
		if (**line && **line != '#')
			break;
		code = next_line(r, line);
	}
	return code;
}

int trace_reader_next(struct trace_reader *r, struct trace_op *op)
{
	char *s = NULL, text[24];
	int code = next_operation(r, &s);
	if (code <= 0)
		return code;
	*op = (struct trace_op){.kind = *s, .stream = TRACE_NONE, .other = TRACE_NONE};
	switch (is_blank(s[1]) || !s[1] ? *s : '\0') {
	case 'a': return take_alloc(r, s + 1, op);
	case 'f': return take_free(r, s + 1, op);
	case 'w': return take_wait(r, s + 1, op);
	case 's': return take_sync(r, s + 1, op);
	case 'd': return take_destroy(r, s + 1, op);
	default: return bad(r, "unknown operation: %s", shown(s, text));
	}
}

int trace_examine(const char *name, const char *path, struct trace_facts *facts)
{
	struct trace_reader r;
	struct trace_op op;
	int code;
	*facts = (struct trace_facts){.devices = 1};
	if (!trace_reader_open(&r, path))
		return failure(name, "%s: %s", path, strerror(errno));
	while ((code = trace_reader_next(&r, &op)) > 0) {
		if (r.live > facts->peak_live) {
			facts->peak_live = r.live;
			facts->peak_op = facts->ops;
		}
		facts->ops++;
	}
	if (r.devices > facts->devices)
		facts->devices = r.devices;
	if (code < 0)
		code = failure(name, "%s:%" PRIu64 ": %s", path, r.line, r.why);
	trace_reader_close(&r);
	return code;
}

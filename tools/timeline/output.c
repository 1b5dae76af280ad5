/*
 * output.c - see output.h.
 */
#if !__has_include(<zlib.h>)
#error "zlib.h is missing: run `make setup`, or install zlib1g-dev"
#endif

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "cupti/record.h"
#include "tools/timeline/output.h"

#define GZIP_LEVEL 1 /* JSON shrinks to a twentieth at any level */

struct output_gzip {
	z_stream z;
	unsigned char out[OUTPUT_BUFFER];
};

/* ---- opening ---- */

static struct output_gzip *start_gzip(void)
{
	struct output_gzip *g = calloc(1, sizeof(*g));
	if (g && deflateInit2(&g->z, GZIP_LEVEL, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) != Z_OK) {
		free(g);
		return NULL;
	}
	return g;
}

const char *output_error_text(int error)
{
	return error == OUTPUT_IS_TIMELINE ? "it is a timeline, which is not overwritten: choose another name"
									   : strerror(error);
}

static bool is_timeline(const char *path)
{
	char magic[sizeof(TIMELINE_MAGIC) - 1] = "";
	struct stat st;
	if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
		return false;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool is = fd >= 0 && read(fd, magic, sizeof(magic)) == (ssize_t)sizeof(magic) &&
			  memcmp(magic, TIMELINE_MAGIC, sizeof(magic)) == 0;
	if (fd >= 0)
		close(fd);
	return is;
}

int output_open(struct output *o, const char *path, bool gzip)
{
	*o = (struct output){.fd = -1};
	if (is_timeline(path))
		return OUTPUT_IS_TIMELINE;
	o->buffer = malloc(OUTPUT_BUFFER + OUTPUT_SLACK);
	if (gzip)
		o->gzip = start_gzip();
	int error = o->buffer && (o->gzip || !gzip) ? 0 : ENOMEM;
	if (!error && (o->fd = temporary_open(&o->file, path)) < 0)
		error = errno;
	if (error)
		output_abandon(o);
	return error;
}

/* ---- closing ---- */

void output_abandon(struct output *o)
{
	temporary_remove(&o->file);
	if (o->fd >= 0)
		close(o->fd);
	if (o->gzip)
		deflateEnd(&o->gzip->z);
	free(o->gzip);
	free(o->buffer);
	*o = (struct output){.fd = -1};
}

void output_fail(struct output *o, int error)
{
	if (!o->error)
		o->error = error;
}

static void write_out(struct output *o, const unsigned char *bytes, size_t n)
{
	while (n && !o->error) {
		ssize_t written = write(o->fd, bytes, n);
		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0) {
			output_fail(o, written < 0 ? errno : ENOSPC);
			return;
		}
		bytes += written;
		n -= (size_t)written;
	}
}

static void compress_out(struct output *o, const unsigned char *bytes, size_t n, int flush)
{
	z_stream *z = &o->gzip->z;
	z->next_in = (unsigned char *)bytes;
	z->avail_in = (unsigned)n;
	do {
		z->next_out = o->gzip->out;
		z->avail_out = sizeof(o->gzip->out);
		if (deflate(z, flush) == Z_STREAM_ERROR) {
			output_fail(o, EIO);
			return;
		}
		write_out(o, o->gzip->out, sizeof(o->gzip->out) - z->avail_out);
	} while (z->avail_out == 0 && !o->error);
}

void output_flush(struct output *o)
{
	if (!o->error) {
		if (o->gzip)
			compress_out(o, o->buffer, o->used, Z_NO_FLUSH);
		else
			write_out(o, o->buffer, o->used);
	}
	o->bytes += o->used;
	o->used = 0;
}

int output_close(struct output *o)
{
	output_flush(o);
	if (o->gzip && !o->error)
		compress_out(o, NULL, 0, Z_FINISH);
	/* Some file systems have no room only at the close. */
	if (close(o->fd) != 0)
		output_fail(o, errno);
	o->fd = -1;
	int error = o->error ? o->error : temporary_place(&o->file);
	output_abandon(o); /* nothing is left of what is in its place */
	return error;
}

/* ---- putting ---- */

void output_bytes(struct output *o, const void *bytes, size_t n)
{
	const unsigned char *from = bytes;
	while (n) {
		unsigned char *to = output_room(o);
		size_t part = OUTPUT_BUFFER + OUTPUT_SLACK - o->used;
		part = n < part ? n : part;
		memcpy(to, from, part);
		o->used += part;
		from += part;
		n -= part;
	}
}

void output_format(struct output *o, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	output_bytes(o, text, n < 0 ? 0 : (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

void output_json(struct output *o, const char *s)
{
	output_bytes(o, "\"", 1);
	while (*s) {
		size_t n = 0;
		while (s[n] && s[n] != '"' && s[n] != '\\' && (unsigned char)s[n] >= 0x20)
			n++;
		output_bytes(o, s, n);
		s += n;
		if (!*s)
			break;
		if (*s == '"' || *s == '\\')
			output_bytes(o, (char[]){'\\', *s}, 2);
		else
			output_format(o, "\\u%04x", (unsigned char)*s);
		s++;
	}
	output_bytes(o, "\"", 1);
}

/* Digits of n behind `to`; how many. */
static size_t digits(unsigned char *to, uint64_t n)
{
	static const char pair[] =
		"00010203040506070809101112131415161718192021222324252627282930313233343536373839"
		"40414243444546474849505152535455565758596061626364656667686970717273747576777879"
		"8081828384858687888990919293949596979899";
	unsigned char text[20];
	size_t at = sizeof(text);
	while (n >= 100) {
		at -= 2;
		memcpy(text + at, pair + 2 * (n % 100), 2);
		n /= 100;
	}
	if (n >= 10) {
		at -= 2;
		memcpy(text + at, pair + 2 * n, 2);
	} else {
		text[--at] = (unsigned char)('0' + n);
	}
	memcpy(to, text + at, sizeof(text) - at);
	return sizeof(text) - at;
}

void output_number(struct output *o, uint64_t n)
{
	output_used(o, digits(output_room(o), n));
}

void output_microseconds(struct output *o, uint64_t ns)
{
	unsigned char *to = output_room(o);
	unsigned rest = (unsigned)(ns % 1000);
	size_t n = digits(to, ns / 1000);
	to[n] = '.';
	to[n + 1] = (unsigned char)('0' + rest / 100);
	to[n + 2] = (unsigned char)('0' + rest / 10 % 10);
	to[n + 3] = (unsigned char)('0' + rest % 10);
	output_used(o, n + 4);
}

/* trace_write.c - an allocation trace to a file, plain or compressed, or to standard output. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "trace_file.h"

void trace_fail(struct trace_writer *w, int error)
{
	if (w->failed)
		return;
	w->failed = true;
	w->error = error ? error : EIO;
}

static void check(struct trace_writer *w, int written)
{
	if (written <= 0)
		trace_fail(w, errno);
}

#define PUT(w, ...)                                   \
	do {                                              \
		errno = 0;                                    \
		check((w), gzprintf((w)->file, __VA_ARGS__)); \
	} while (0)

static bool wants_gzip(const char *path)
{
	size_t n = path ? strlen(path) : 0;
	return n > 3 && !strcmp(path + n - 3, ".gz");
}

bool trace_create(struct trace_writer *w, const char *path)
{
	*w = (struct trace_writer){0};
	int fd = path ? temporary_open(&w->whole, path) : fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return false;
	/* T: written as it is. */
	w->file = gzdopen(fd, wants_gzip(path) ? "wb" : "wbT");
	if (!w->file) {
		close(fd);
		temporary_remove(&w->whole);
		errno = ENOMEM;
		return false;
	}
	PUT(w, "%s %d\n", TRACE_MAGIC, TRACE_VERSION);
	return true;
}

void trace_comment(struct trace_writer *w, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	PUT(w, "# %s\n", text);
}

void trace_alloc(struct trace_writer *w, uint64_t id, uint64_t bytes, uint64_t stream, unsigned device)
{
	w->ops++;
	if (device)
		PUT(w, "a %" PRIu64 " %" PRIu64 " %" PRIu64 " %u\n", id, bytes, stream, device);
	else
		PUT(w, "a %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", id, bytes, stream);
}

void trace_free(struct trace_writer *w, uint64_t id, uint64_t stream, unsigned device)
{
	w->ops++;
	if (device)
		PUT(w, "f %" PRIu64 " %" PRIu64 " %u\n", id, stream, device);
	else
		PUT(w, "f %" PRIu64 " %" PRIu64 "\n", id, stream);
}

void trace_wait(struct trace_writer *w, uint64_t stream, uint64_t other)
{
	w->ops++;
	PUT(w, "w %" PRIu64 " %" PRIu64 "\n", stream, other);
}

void trace_sync(struct trace_writer *w, uint64_t stream)
{
	w->ops++;
	PUT(w, "s %" PRIu64 "\n", stream);
}

void trace_destroy(struct trace_writer *w, uint64_t stream)
{
	w->ops++;
	PUT(w, "d %" PRIu64 "\n", stream);
}

bool trace_finish(struct trace_writer *w)
{
	errno = 0;
	int code = gzclose_w(w->file);
	w->file = NULL;
	if (code != Z_OK)
		trace_fail(w, errno);
	int error = w->failed ? 0 : temporary_place(&w->whole);
	if (error)
		trace_fail(w, error);
	temporary_remove(&w->whole);
	return !w->failed;
}

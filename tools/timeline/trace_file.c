/*
 * trace_file.c - a timeline file, opened and closed; what it says of itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/timeline/trace_impl.h"

bool trace_refuse(char *why, size_t size, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(why, size, fmt, ap);
	va_end(ap);
	return false;
}

/* ---- the descriptor ---- */

static unsigned kept;
/* The trace that has its file open for now, without being counted; NULL: none. */
static struct trace *guest;

static void close_file(struct trace *t)
{
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
	if (guest == t)
		guest = NULL;
	kept -= t->kept;
	t->kept = false;
}

/* O_NONBLOCK: a FIFO must not hold us up. */
static bool open_path(struct trace *t, struct stat *st)
{
	if (guest)
		close_file(guest);
	guest = t;
	t->fd = open(t->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return t->fd >= 0 && fstat(t->fd, st) == 0;
}

/* Another file in its place is not read. */
static bool open_again(struct trace *t)
{
	struct stat st;
	if (open_path(t, &st) && S_ISREG(st.st_mode) && st.st_dev == t->dev && st.st_ino == t->ino)
		return true;
	close_file(t);
	return false;
}

/* Whoever allows us few descriptors needs some for what is written, too. */
static unsigned most_kept(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur / 4 >= TRACE_KEPT_MAX)
		return TRACE_KEPT_MAX;
	return (unsigned)limit.rlim_cur / 4;
}

static void keep_file(struct trace *t)
{
	if (t->fd < 0 || kept >= most_kept())
		return;
	t->kept = true;
	kept++;
	if (guest == t)
		guest = NULL;
}

size_t trace_pread(struct trace *t, void *to, size_t n, uint64_t offset)
{
	size_t have = 0;
	if (t->fd < 0 && !open_again(t))
		return 0;
	while (have < n) {
		ssize_t got = pread(t->fd, (char *)to + have, n - have, (off_t)(offset + have));
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		have += (size_t)got;
	}
	return have;
}

/* ---- opening ---- */

static bool open_file(struct trace *t, char *why, size_t why_size)
{
	struct stat st;
	if (!open_path(t, &st))
		return trace_refuse(why, why_size, "%s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return trace_refuse(why, why_size, "it is not a regular file");
	t->dev = st.st_dev;
	t->ino = st.st_ino;
	t->file_bytes = (uint64_t)st.st_size;
	if (trace_pread(t, &t->header, sizeof(t->header), 0) != sizeof(t->header)) {
		if (t->file_bytes >= 8 && memcmp(t->header.magic, TIMELINE_MAGIC, 8))
			return trace_refuse(why, why_size, "it is not a timeline file");
		return trace_refuse(why, why_size, "it is truncated (%llu bytes)", (unsigned long long)t->file_bytes);
	}
	return trace_check_header(t, why, why_size);
}

static bool read_all(struct trace *t, const char *path, char *why, size_t why_size)
{
	struct timeline_header fresh;
	t->path = strdup(path);
	if (!t->path)
		return trace_refuse(why, why_size, "no memory");
	if (!open_file(t, why, why_size) || !trace_scan_headers(t, why, why_size))
		return false;
	/* Tables grow while we read: what they hold now is at least what the committed records refer to. */
	if (trace_pread(t, &fresh, sizeof(fresh), 0) == sizeof(fresh)) {
		t->header = fresh;
		if (!trace_check_header(t, why, why_size))
			return false;
	}
	if (!trace_read_tables(t, why, why_size) || !trace_scan_records(t, why, why_size))
		return false;
	t->live = trace_process_runs(&t->header);
	keep_file(t);
	return true;
}

struct trace *trace_open(const char *path, char *why, size_t why_size)
{
	struct trace *t = calloc(1, sizeof(*t));
	if (!t) {
		trace_refuse(why, why_size, "no memory");
		return NULL;
	}
	t->fd = -1;
	if (read_all(t, path, why, why_size))
		return t;
	trace_close(t);
	return NULL;
}

void trace_close(struct trace *t)
{
	if (!t)
		return;
	trace_merge_end(t);
	for (uint32_t i = 0; t->demangled && i < t->entries; i++)
		free(t->demangled[i]);
	free(t->demangled);
	free(t->chunk);
	free(t->clock);
	free(t->lane);
	free(t->entry);
	free(t->names);
	free(t->path);
	close_file(t);
	free(t);
}

/* ---- what it says ---- */

const struct timeline_header *trace_header(const struct trace *t)
{
	return &t->header;
}

const char *trace_path(const struct trace *t)
{
	return t->path;
}

bool trace_live(const struct trace *t)
{
	return t->live;
}

uint32_t trace_entries(const struct trace *t)
{
	return t->entries;
}

const struct timeline_entry *trace_entry(const struct trace *t, uint32_t index)
{
	return &t->entry[index < t->entries ? index : 0];
}

uint32_t trace_lanes(const struct trace *t)
{
	return t->lanes;
}

const struct timeline_lane *trace_lane(const struct trace *t, uint32_t index)
{
	return &t->lane[index < t->lanes ? index : 0];
}

uint64_t trace_records(const struct trace *t)
{
	return t->records;
}

bool trace_span(const struct trace *t, uint64_t *first_start, uint64_t *last_end)
{
	*first_start = t->first_start;
	*last_end = t->last_end;
	return t->records != 0;
}

uint64_t trace_damaged(const struct trace *t)
{
	return t->damaged + t->lost;
}

/* read.c - see read.h. */
#include "read.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "../sys.h"
#include "tune.h"
#include "where.h"

#define LEASES 64u
#define LEASE_TRIES 1000u /* of a millisecond: the other one reads a small file */

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

/*
 * Inode numbers of files with leases; the device is not compared. Two lists, of which that of the present generation is read: who
 * finds another generation after reading begins anew. Written under `listing`; generation: release, acquire.
 */
struct leases {
	_Atomic uint64_t inode[LEASES];
	_Atomic unsigned count;
};
static struct leases lists[2];
static _Atomic uint32_t generation;
static _Atomic bool listing;

static bool is_in(const struct leases *l, ino_t inode)
{
	unsigned n = atomic_load_explicit(&l->count, memory_order_relaxed);

	for (unsigned i = 0; i < n; i++)
		if (atomic_load_explicit(&l->inode[i], memory_order_relaxed) == inode)
			return true;
	return false;
}

static bool is_leased(ino_t inode)
{
	for (;;) {
		uint32_t before = atomic_load_explicit(&generation, memory_order_acquire);
		bool is = is_in(&lists[before % 2], inode);
		atomic_thread_fence(memory_order_acquire);
		if (is || atomic_load_explicit(&generation, memory_order_relaxed) == before)
			return is;
	}
}

/* "1: LEASE  ACTIVE    WRITE 4711 fe:00:1234 0 EOF" */
static void take_line(struct leases *l, char *line)
{
	char *colon, *end;
	unsigned n = atomic_load_explicit(&l->count, memory_order_relaxed);

	if (!strstr(line, "LEASE") || n >= LEASES || !(colon = strrchr(line, ':')))
		return;
	uint64_t inode = strtoull(colon + 1, &end, 10);
	if (end == colon + 1)
		return;
	atomic_store_explicit(&l->inode[n], inode, memory_order_relaxed);
	atomic_store_explicit(&l->count, n + 1, memory_order_relaxed);
}

bool read_leases(void)
{
	static char text[32768]; /* under `listing` */
	const struct timespec pause = {0, 1000000};
	unsigned tries = 0;
	ssize_t n;

	/* Whoever is at it may have looked before the lease was there that this caller must see. */
	while (atomic_exchange_explicit(&listing, true, memory_order_acquire)) {
		if (++tries > LEASE_TRIES)
			return false;
		nanosleep(&pause, NULL);
	}
	uint32_t next = atomic_load_explicit(&generation, memory_order_relaxed) + 1;
	struct leases *l = &lists[next % 2];
	n = sys_slurp("/proc/locks", text, sizeof(text));
	atomic_store_explicit(&l->count, 0, memory_order_relaxed);
	for (char *line = text, *after; n > 0 && line && *line; line = after) {
		after = strchr(line, '\n');
		if (after)
			*after++ = '\0';
		take_line(l, line);
	}
	atomic_store_explicit(&generation, next, memory_order_release);
	atomic_store_explicit(&listing, false, memory_order_release);
	return true;
}

void read_fork_child(void)
{
	atomic_store_explicit(&listing, false, memory_order_relaxed);
}

static bool is_wanted(const struct stat *st, uint64_t most)
{
	return S_ISREG(st->st_mode) && st->st_size > 0 && (uint64_t)st->st_size <= most &&
		   /* Mandatory locks, before Linux 5.15. */
		   !((st->st_mode & S_ISGID) && !(st->st_mode & S_IXGRP)) && !is_leased(st->st_ino);
}

/* A file's device is its own on some file systems with layers, and another one where a symbolic link leads. */
static bool is_near(int fd, const struct read_where *where, dev_t device)
{
	enum where_kind kind;

	if (device == where->device)
		return true;
	kind = where_kind(fd);
	return kind == WHERE_LOCAL || (kind == WHERE_NETWORK && where->network);
}

bool read_open(int dir, const char *path, const struct read_where *where, struct read_file *out)
{
	/* Between the look and the open it may have become something else: a fifo does not block then, a lease is not waited for. */
	static const int flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
	struct stat st, now;

	if (sys_stat(dir, path, &st, 0) != 0 || !is_wanted(&st, where->most))
		return false;
	out->fd = sys_openat(dir, path, flags | O_NOATIME, 0);
	out->silent = out->fd >= 0;
	if (out->fd < 0 && errno == EPERM)
		out->fd = sys_openat(dir, path, flags, 0);
	if (out->fd < 0)
		return false;
	if (sys_stat(out->fd, "", &now, AT_EMPTY_PATH) != 0 || now.st_dev != st.st_dev ||
		now.st_ino != st.st_ino || !is_near(out->fd, where, now.st_dev)) {
		sys_close(out->fd);
		return false;
	}
	out->device = now.st_dev;
	out->inode = now.st_ino;
	out->size = (uint64_t)now.st_size;
	return true;
}

void read_close(struct read_file *f)
{
	sys_close(f->fd);
	f->fd = -1;
}

void read_ahead(const struct read_file *f, uint64_t from, uint64_t to)
{
	if (to > f->size)
		to = f->size;
	for (uint64_t at = from; at < to; at += READ_CHUNK)
		if (syscall(SYS_readahead, f->fd, (off_t)at, to - at < READ_CHUNK ? to - at : READ_CHUNK) != 0)
			return;
}

void read_wait(const struct read_file *f, uint64_t at)
{
	char byte;

	if (f->silent && at < f->size && sys_pread(f->fd, &byte, 1, (off_t)at) < 0)
		return;
}

/* Before Linux 6.5. Whoever may open silently is told the truth. */
static int in_core(const struct read_file *f, uint64_t at)
{
	unsigned char is = 0;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *m = !f->silent
				  ? MAP_FAILED
				  : mmap(NULL, page, PROT_READ, MAP_SHARED, f->fd, (off_t)(at & ~(uint64_t)(page - 1)));
	int r;

	if (m == MAP_FAILED)
		return -1;
	r = mincore(m, page, &is);
	munmap(m, page);
	return r == 0 ? is & 1 : -1;
}

/* Not preadv2(RWF_NOWAIT): it asks the disk, and where that is quick it finds what it has just asked for. */
int read_is_resident(const struct read_file *f, uint64_t at)
{
	struct {
		uint64_t from, length;
	} range = {at & ~(uint64_t)4095, 1};
	struct {
		uint64_t cached, dirty, writeback, evicted, recent;
	} found;

	return syscall(SYS_cachestat, f->fd, &range, &found, 0u) == 0 ? found.cached != 0 : in_core(f, at);
}

/*
 * file.c - see file.h.
 *
 * No descriptor is kept: the file is opened by its name for each copy, and is only written to when it is the one that
 * was made. One that has vanished, was replaced or cut short is made anew.
 */
#define _GNU_SOURCE
#include "file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "comms.h"
#include "file_copy.h"
#include "guard.h"
#include "log.h"
#include "proc_stat.h"
#include "stats_leftovers.h"
#include "thread.h"

#define RETRY_NS 2000000000ull /* from one vain attempt to make it to the next */
#define SWEEP_NS 60000000000ull
#define END_TRIES 100
#define HURRY_MS 20          /* that who has made a communicator waits for the copy */
#define SEEN_NS 600000000ull /* others have found a new communicator */

static struct flight_page *page;
/* TMPDIR at the start: the copier must not read the environment, which the program may be changing. */
static char tmp_dir[PATH_MAX];
static _Atomic uint32_t busy;   /* 1: a thread is copying; by compare-and-swap */
static _Atomic bool copying;    /* there is a copier; relaxed */
static _Atomic bool ended;      /* nothing is copied any more */
static _Atomic uint32_t bell;   /* counted up: the copier is wanted; */
static _Atomic uint32_t copied; /* what it was before the last copy */

/* Of the thread that is copying. */
static char path[PATH_MAX];
static bool there;            /* `path` is made, and is ours */
static bool whole;            /* its magic has been written */
static bool in_shm, shm_left; /* `path` is in /dev/shm; no file is made there any more */
static dev_t dev;
static ino_t ino;
static unsigned comms_there; /* communicators that it has room for */
static void *mark;           /* its first page, mapped without access */

/* ---- making ---- */

/* Growing a file beyond the limit would raise SIGXFSZ. */
static bool below_limit(uint64_t bytes)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes;
}

/* NCCL has its buffers in /dev/shm, too, which in a container is 64 MiB unless somebody has asked for more: half of it
 * is left alone. */
static bool is_crowded(int fd, uint64_t more)
{
	struct statvfs v;

	return fstatvfs(fd, &v) == 0 &&
		   (uint64_t)v.f_bavail * v.f_frsize < (uint64_t)v.f_blocks * v.f_frsize / 2 + more;
}

static bool reserve(int fd, uint64_t from, uint64_t bytes)
{
	int error = EINTR;

	if (in_shm && is_crowded(fd, bytes)) {
		errno = ENOSPC;
		return false;
	}
	if (!below_limit(from + bytes)) {
		errno = EFBIG;
		return false;
	}
	for (int tries = 0; error == EINTR && tries < 8; tries++)
		error = posix_fallocate(fd, (off_t)from, (off_t)bytes);
	errno = error;
	return error == 0;
}

/* Under our own name: of a process that had our number, or of this one before exec. In another pid namespace
 * it may be a live one's. */
static bool remove_predecessor(const char *name)
{
	static struct flight_page header;
	struct stat st;

	if (!flight_file_header(name, &header, &st))
		return false;
	if (memcmp(header.magic, FLIGHT_MAGIC, sizeof(header.magic)) == 0 &&
		header.pid_ns != stats_pid_namespace() && time(NULL) - st.st_mtime < FLIGHT_FILE_KEPT_S)
		return false;
	return unlink(name) == 0;
}

static int create(const char *name)
{
	static const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd = open(name, flags, 0600);

	if (fd < 0 && errno == EEXIST && remove_predecessor(name))
		fd = open(name, flags, 0600);
	return fd;
}

static bool make_in(const char *dir)
{
	int n = snprintf(path, sizeof(path), "%s/" FLIGHT_FILE_FORMAT, dir, (unsigned)geteuid(), (int)getpid());
	struct stat st;
	int fd, error;

	if (dir[0] != '/' || n < 0 || (size_t)n >= sizeof(path)) {
		errno = ENAMETOOLONG;
		return false;
	}
	fd = create(path);
	if (fd < 0)
		return false;
	if (fstat(fd, &st) != 0 || !reserve(fd, 0, COMMS_OFF)) {
		error = errno;
		unlink(path);
		close(fd);
		errno = error;
		return false;
	}
	dev = st.st_dev;
	ino = st.st_ino;
	comms_there = 0;
	whole = false;
	if (mark)
		munmap(mark, COMMS_OFF);
	mark = mmap(NULL, COMMS_OFF, PROT_NONE, MAP_SHARED, fd, 0);
	if (mark == MAP_FAILED)
		mark = NULL;
	else
		madvise(mark, COMMS_OFF, MADV_DONTFORK);
	close(fd);
	file_copy_renew();
	return true;
}

static void make(void)
{
	const char *dirs[] = {"/dev/shm", tmp_dir, "/tmp"};
	int error = 0;

	for (unsigned i = 0; i < sizeof(dirs) / sizeof(dirs[0]) && !there; i++) {
		if (!*dirs[i] || (i == 0 && shm_left))
			continue;
		in_shm = i == 0;
		there = make_in(dirs[i]);
		error = errno;
	}
	errno = error;
	if (!there)
		log_once(LOG_INFO,
				 "collectives are not shown to other ranks: no file in /dev/shm, TMPDIR or /tmp: %m");
}

/* ---- copying ---- */

/* The file that was made, or -1. */
static int open_own(void)
{
	int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	off_t size = (off_t)(COMMS_OFF + comms_there * sizeof(struct flight_comm));
	char magic[sizeof(page->magic)];
	struct stat st;

	if (fd < 0)
		return -1;
	/* Longer, by somebody, or by a reservation that found room for a part: that is not ours. */
	if (fstat(fd, &st) == 0 && st.st_dev == dev && st.st_ino == ino &&
		(st.st_size == size || (st.st_size > size && ftruncate(fd, size) == 0)) &&
		pread(fd, magic, sizeof(magic), 0) == sizeof(magic) &&
		(!whole || memcmp(magic, FLIGHT_MAGIC, sizeof(magic)) == 0))
		return fd;
	close(fd);
	return -1;
}

/* Each communicator finds its room when it comes. false: in another folder, if anywhere. */
static bool grow(int fd)
{
	unsigned want = atomic_load_explicit(&page->comm_high, memory_order_relaxed);

	while (comms_there < want &&
		   reserve(fd, COMMS_OFF + comms_there * sizeof(struct flight_comm), sizeof(struct flight_comm)))
		comms_there++;
	shm_left = in_shm && comms_there < want;
	return !shm_left;
}

/* What is at our name, if that is still the file. */
static void drop(void)
{
	struct stat st;

	if (lstat(path, &st) == 0 && st.st_dev == dev && st.st_ino == ino)
		unlink(path);
	there = false;
}

static bool copy(void)
{
	int fd = -1;
	bool ok;

	for (unsigned tries = 0; fd < 0 && tries < 3; tries++) {
		if (!there)
			make();
		if (!there)
			return false;
		fd = open_own();
		if (fd >= 0 && !grow(fd)) {
			close(fd);
			fd = -1;
		}
		if (fd < 0)
			drop();
	}
	if (fd < 0)
		return false;
	ok = whole = file_copy_write(fd, comms_there);
	close(fd);
	if (!ok)
		drop();
	return ok;
}

static bool enter(void)
{
	uint32_t none = 0;

	return atomic_compare_exchange_strong_explicit(&busy, &none, 1, memory_order_acquire,
												   memory_order_relaxed);
}

bool flight_file_copy(void)
{
	bool ok = false;

	if (!page || !enter())
		return false;
	if (!atomic_load_explicit(&ended, memory_order_relaxed))
		ok = copy();
	atomic_store_explicit(&busy, 0, memory_order_release);
	return ok;
}

/* ---- leftovers ---- */

static void sweep_own(void)
{
	char dir[PATH_MAX];

	if (!enter())
		return;
	memcpy(dir, path, sizeof(dir));
	atomic_store_explicit(&busy, 0, memory_order_release);
	*(strrchr(dir, '/') ? strrchr(dir, '/') : dir) = '\0'; /* "" is no folder */
	flight_file_sweep(dir);
}

/* ---- the copier ---- */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void flight_file_hurry(bool wait)
{
	const struct timespec pause = {0, 1000000};
	uint32_t rung = atomic_fetch_add(&bell, 1) + 1;

	syscall(SYS_futex, &bell, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	wait = wait && atomic_load_explicit(&copying, memory_order_relaxed);
	for (unsigned ms = 0; wait && ms < HURRY_MS && (int32_t)(atomic_load(&copied) - rung) < 0; ms++)
		nanosleep(&pause, NULL);
}

static void *copier(void *arg)
{
	const struct timespec pause = {0, FLIGHT_COPY_MS * 1000000L};
	uint64_t next_try = 0, next_sweep = 0;

	(void)arg;
	guard_enter(); /* never leaves: whatever this thread calls is ours */
	while (!atomic_load_explicit(&ended, memory_order_relaxed)) {
		uint64_t now = now_ns();
		uint32_t rung = atomic_load(&bell);
		if (now >= next_try && !flight_file_copy()) {
			next_try = now + RETRY_NS;
		} else if (now >= next_sweep) {
			sweep_own();
			next_sweep = now + SWEEP_NS;
		}
		atomic_store(&copied, rung);
		syscall(SYS_futex, &bell, FUTEX_WAIT_PRIVATE, rung, &pause, NULL, 0);
	}
	return NULL;
}

void flight_file_start(struct flight_page *record)
{
	const char *tmp = getenv("TMPDIR");

	if (tmp && strlen(tmp) < sizeof(tmp_dir))
		strcpy(tmp_dir, tmp);
	if (!file_copy_start(record)) {
		log_once(LOG_INFO, "collectives are not shown to other ranks: no memory");
		return;
	}
	page = record;
	if (thread_start("turbo-flight", copier, NULL))
		atomic_store_explicit(&copying, true, memory_order_relaxed);
	else
		log_once(LOG_INFO, "collectives are not shown to other ranks: no thread for it");
}

/* A rank of a communicator that is so new that the others may not have found this file. */
static bool is_new_to_others(void)
{
	bool is = false;

	for (unsigned i = 0; i < page->comm_high && i < FLIGHT_COMMS; i++) {
		const struct flight_comm *c = comms_at(page, i);
		uint32_t state = atomic_load(&c->state);
		is |=
			(state == FLIGHT_LIVE || state == FLIGHT_MAKING) && c->ranks > 1 && now_ns() - c->made < SEEN_NS;
	}
	return is;
}

void flight_file_end(void)
{
	const struct timespec pause = {0, 1000000};
	bool alone = false;

	/* In a child of clone() the file is not its own. */
	if (!page || page->pid != (uint32_t)getpid() || atomic_exchange(&ended, true))
		return;
	for (unsigned i = 0; !(alone = enter()) && i < END_TRIES; i++)
		nanosleep(&pause, NULL);
	if (!alone || !there)
		return;
	copy();
	if (!is_new_to_others())
		drop();
}

void flight_file_fork_child(void)
{
	page = NULL;
	there = shm_left = false;
	atomic_store(&copying, false);
	atomic_store(&busy, 0);
	atomic_store(&ended, false);
}

/* file.c - see file.h. */
#include "cupti/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cupti/record.h"
#include "host_name.h"

#define FLAGS (O_RDWR | O_CLOEXEC | O_NOFOLLOW)
/* Names that are tried: files of earlier processes with our number lie where a container's pids begin
 * anew. */
#define NAMES 10000
#define RESERVE_TRIES 8
/* Programs expect the numbers below for what they open themselves. */
#define FD_LEAST 512

/* ---- the name ---- */

static bool next_path(struct file *f)
{
	static unsigned recording; /* of this process; one thread at a time */
	char host[HOST_NAME_BYTES];

	host_name_part(host);
	int n = snprintf(f->path, sizeof(f->path), "%s/" TIMELINE_FILE_FORMAT, f->dir, host, (int)getpid(),
					 ++recording);
	return n > 0 && (size_t)n < sizeof(f->path);
}

/* A sandbox refused the naming. One thread at a time. */
static bool names_first;

/* The same file under a number that is out of the way; where there is none, under the one that it has. */
static int move_up(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, FD_LEAST);

	if (high < 0)
		return fd;
	close(fd);
	return high;
}

/* Without a name; it gets one when it is whole. Asks for a file system that can do that and for /proc. */
static int create_unnamed(struct file *f)
{
	if (names_first)
		return -1;
	f->fd = open(f->dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (f->fd >= 0 && access("/proc/self/fd", X_OK) != 0) {
		close(f->fd);
		f->fd = -1;
	}
	return f->fd;
}

static int create_named(struct file *f)
{
	for (unsigned tries = 0; tries < NAMES; tries++) {
		if (!next_path(f))
			return ENAMETOOLONG;
		f->fd = open(f->path, FLAGS | O_CREAT | O_EXCL, 0600);
		if (f->fd >= 0) {
			f->named = true;
			return 0;
		}
		if (errno != EEXIST)
			return errno;
	}
	return EEXIST;
}

static int create(struct file *f, const char *dir)
{
	char here[PATH_MAX];
	int n;

	if (*dir == '/')
		n = snprintf(f->dir, sizeof(f->dir), "%s", dir);
	else if (getcwd(here, sizeof(here)))
		n = snprintf(f->dir, sizeof(f->dir), "%s%s%s", here, *dir ? "/" : "", dir);
	else
		return errno;
	if (n < 0 || (size_t)n >= sizeof(f->dir))
		return ENAMETOOLONG;
	int error = create_unnamed(f) >= 0 ? 0 : create_named(f);
	if (!error)
		f->fd = move_up(f->fd);
	return error;
}

/* ---- space ---- */

static int room_for(int fd, uint64_t bytes)
{
	struct rlimit limit;
	struct statvfs fs;

	/* Growing a file beyond the limit would raise SIGXFSZ. */
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes)
		return EFBIG;
	/* The job's checkpoints need the disk more than we do. Some file systems do not say what they have. */
	if (fstatvfs(fd, &fs) == 0 && fs.f_blocks != 0 &&
		fs.f_bavail < 2 * bytes / (fs.f_frsize ? fs.f_frsize : 1))
		return ENOSPC;
	return 0;
}

/* Where space cannot be reserved it is used: whoever writes there later finds it. */
static int write_zeros(int fd, uint64_t bytes)
{
	static char zeros[1 << 16];

	for (uint64_t at = 0; at < bytes;) {
		size_t part = bytes - at < sizeof(zeros) ? bytes - at : sizeof(zeros);
		ssize_t n = pwrite(fd, zeros, part, (off_t)at);
		if (n < 0 && errno != EINTR)
			return errno;
		at += n > 0 ? (uint64_t)n : 0;
	}
	return 0;
}

static int reserve(int fd, uint64_t bytes)
{
	int error = room_for(fd, bytes);

	for (int tries = 0; !error && tries < RESERVE_TRIES; tries++) {
		if (fallocate(fd, 0, 0, (off_t)bytes) == 0)
			return 0;
		if (errno == EOPNOTSUPP || errno == ENOSYS)
			return write_zeros(fd, bytes);
		if (errno != EINTR)
			error = errno;
	}
	return error ? error : EINTR;
}

/* ---- life ---- */

int file_make(struct file *f, const char *dir, uint64_t bytes)
{
	struct stat st;

	*f = (struct file){.fd = -1, .bytes = bytes};
	int error = create(f, dir);
	if (!error)
		error = reserve(f->fd, bytes);
	if (!error && fstat(f->fd, &st) != 0)
		error = errno;
	if (error) {
		file_drop(f);
		return error;
	}
	f->dev = st.st_dev;
	f->ino = st.st_ino;
	return 0;
}

int file_publish(struct file *f)
{
	char self[40];
	int error = f->named ? 0 : EEXIST;

	snprintf(self, sizeof(self), "/proc/self/fd/%d", f->fd);
	for (unsigned tries = 0; error == EEXIST && tries < NAMES; tries++) {
		if (!next_path(f))
			error = ENAMETOOLONG;
		else if (linkat(AT_FDCWD, self, AT_FDCWD, f->path, AT_SYMLINK_FOLLOW) == 0)
			error = 0;
		else
			error = errno;
	}
	if (error == ENOSPC || error == EDQUOT || error == EEXIST || error == ENAMETOOLONG)
		return error;
	if (error) {
		names_first = true;
		return EAGAIN;
	}
	f->named = true;
	return 0;
}

void file_drop(struct file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	if (f->named)
		unlink(f->path);
	*f = (struct file){.fd = -1};
}

/* ---- the descriptor ---- */

/*
 * System calls without libc around them from here on: its functions may be those of another preloaded library,
 * which may lock and allocate, and they are where a thread of the program's would be cancelled.
 */

static bool is_it(const struct file *f, int fd, struct stat *st)
{
	return fd >= 0 && syscall(SYS_fstat, fd, st) == 0 && st->st_dev == f->dev && st->st_ino == f->ino;
}

/* By its name, after a daemon has closed all descriptors: whatever has our number now is not ours to close. 0, or the
 * error. */
static int reopen(struct file *f, struct stat *st)
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, f->path, FLAGS | O_NONBLOCK, 0);

	if (fd < 0 && (errno == EACCES || errno == EPERM || errno == EMFILE || errno == ENFILE))
		return errno; /* it may well be there */
	if (!is_it(f, fd, st)) {
		if (fd >= 0)
			syscall(SYS_close, fd);
		return ENOENT;
	}
	int high = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, FD_LEAST);
	if (high >= 0)
		syscall(SYS_close, fd);
	f->fd = high >= 0 ? high : fd;
	return 0;
}

void file_close(struct file *f)
{
	struct stat st;

	if (is_it(f, f->fd, &st))
		syscall(SYS_close, f->fd);
	f->fd = -1;
}

/* ---- writing ---- */

int file_enter(struct file *f, sigset_t *mask)
{
	sigset_t too_large;
	struct stat st;

	sigemptyset(&too_large);
	sigaddset(&too_large, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &too_large, mask);
	int error = is_it(f, f->fd, &st) ? 0 : reopen(f, &st);
	if (error)
		return error;
	if (st.st_nlink == 0)
		return ENOENT;
	return (uint64_t)st.st_size < f->bytes ? ENODATA : 0;
}

void file_leave(struct file *f, const sigset_t *mask)
{
	const struct timespec none = {0, 0};
	sigset_t too_large;

	if (f->too_large) {
		sigemptyset(&too_large);
		sigaddset(&too_large, SIGXFSZ);
		syscall(SYS_rt_sigtimedwait, &too_large, NULL, &none, (size_t)_NSIG / 8);
		f->too_large = false;
	}
	pthread_sigmask(SIG_SETMASK, mask, NULL);
}

int file_store(struct file *f, uint64_t offset, const void *from, size_t bytes)
{
	const char *at = from;

	while (bytes) {
		long n = syscall(SYS_pwrite64, f->fd, at, bytes, (off_t)offset);
		if (n == 0 || (n < 0 && errno != EINTR)) {
			int error = n ? errno : EIO;
			f->too_large |= error == EFBIG;
			return error;
		}
		if (n < 0)
			continue;
		at += n;
		offset += (uint64_t)n;
		bytes -= (size_t)n;
	}
	return 0;
}

bool file_holds(const struct file *f, uint64_t offset, const void *what, size_t bytes)
{
	char found[64];

	return bytes <= sizeof(found) &&
		   syscall(SYS_pread64, f->fd, found, bytes, (off_t)offset) == (long)bytes &&
		   memcmp(found, what, bytes) == 0;
}

void file_cut(struct file *f, uint64_t bytes)
{
	if (bytes < f->bytes)
		syscall(SYS_ftruncate, f->fd, (off_t)bytes);
}

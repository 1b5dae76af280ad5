/* file.c - see file.h. */
#include "cupti/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cupti/record.h"

/* Linux 5.14; older headers lack it. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define FLAGS (O_RDWR | O_CLOEXEC | O_NOFOLLOW)
/* Names that are tried: files of earlier processes with our number lie where a container's pids begin
 * anew. */
#define NAMES 10000
#define RESERVE_TRIES 8

/* ---- the name ---- */

/* The host's name with nothing in it that is special in a path or a terminal. */
static void host_part(char *out, size_t size)
{
	if (gethostname(out, size) != 0 || !*out)
		snprintf(out, size, "localhost");
	out[size - 1] = '\0';
	for (char *c = out; *c; c++)
		if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '-' ||
			  (*c == '.' && c != out)))
			*c = '_';
}

static bool next_path(struct file *f)
{
	static unsigned recording; /* of this process; one thread at a time */
	char host[65];

	host_part(host, sizeof(host));
	int n = snprintf(f->path, sizeof(f->path), "%s/" TIMELINE_FILE_FORMAT, f->dir, host, (int)getpid(),
					 ++recording);
	return n > 0 && (size_t)n < sizeof(f->path);
}

/* A sandbox refused the naming. One thread at a time. */
static bool names_first;

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
	return create_unnamed(f) >= 0 ? 0 : create_named(f);
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

/* Where space cannot be reserved it is used: whoever stores into it later finds it. */
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

static int map(struct file *f, uint64_t bytes)
{
	struct stat st;

	if (fstat(f->fd, &st) != 0)
		return errno;
	f->dev = st.st_dev;
	f->ino = st.st_ino;
	f->base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
	if (f->base == MAP_FAILED) {
		f->base = NULL;
		return errno;
	}
	f->bytes = bytes;
	/* A child that wrote here would write into its parent's recording. */
	return madvise(f->base, bytes, MADV_DONTFORK) == 0 ? 0 : errno;
}

/* ---- life ---- */

int file_make(struct file *f, const char *dir, uint64_t bytes)
{
	*f = (struct file){.fd = -1};
	int error = create(f, dir);
	if (!error)
		error = reserve(f->fd, bytes);
	if (!error)
		error = map(f, bytes);
	if (error)
		file_drop(f);
	return error;
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
	close(f->fd);
	f->fd = -1;
	return 0;
}

void file_drop(struct file *f)
{
	if (f->base)
		munmap(f->base, f->bytes);
	if (f->fd >= 0)
		close(f->fd);
	if (f->named)
		unlink(f->path);
	*f = (struct file){.fd = -1};
}

/* By its path, if that is still the file: no descriptor was kept. */
static void shorten(const struct file *f, uint64_t bytes)
{
	int fd = open(f->path, FLAGS | O_NONBLOCK);
	struct stat st;

	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && st.st_dev == f->dev && st.st_ino == f->ino && S_ISREG(st.st_mode))
		(void)!ftruncate(fd, (off_t)bytes);
	close(fd);
}

void file_end(struct file *f, uint64_t bytes)
{
	if (!f->base)
		return;
	munmap(f->base, f->bytes);
	f->base = NULL;
	if (bytes < f->bytes)
		shorten(f, bytes);
}

bool file_ready(const struct file *f, uint64_t offset, uint64_t bytes)
{
	/* Else each page is made at the first store, at thrice the cost; EINVAL: the kernel is older. */
	return madvise(f->base + offset, bytes, MADV_POPULATE_WRITE) == 0 || errno != EFAULT;
}

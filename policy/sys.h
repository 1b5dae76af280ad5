/*
 * sys.h - system calls of our own threads.
 *
 * open() and its relatives are exported by libturbo itself, and others may wrap them, too: what these threads open is
 * nobody else's business. No cancellation point; errno as the kernel says.
 */
#ifndef TURBO_POLICY_SYS_H
#define TURBO_POLICY_SYS_H

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static inline int sys_openat(int dir, const char *path, int flags, unsigned mode)
{
	return (int)syscall(SYS_openat, dir, path, flags, mode);
}

static inline int sys_close(int fd)
{
	return (int)syscall(SYS_close, fd);
}

static inline ssize_t sys_read(int fd, void *buf, size_t size)
{
	return syscall(SYS_read, fd, buf, size);
}

struct stat;

/* fstatat(); with "" and AT_EMPTY_PATH fstat(). */
static inline int sys_stat(int dir, const char *path, struct stat *st, int flags)
{
	return (int)syscall(SYS_newfstatat, dir, path, st, flags);
}

static inline ssize_t sys_pread(int fd, void *buf, size_t size, off_t at)
{
	return syscall(SYS_pread64, fd, buf, size, at);
}

/* What sys_getdents() fills in, `length` bytes each: struct linux_dirent64. */
struct sys_dirent {
	uint64_t inode;
	int64_t offset;
	uint16_t length;
	uint8_t type;
	char name[];
};

static inline ssize_t sys_getdents(int fd, void *buf, size_t size)
{
	return syscall(SYS_getdents64, fd, buf, size);
}

/* As much of a small file as fits, with a NUL behind it; its length, or -1. */
static inline ssize_t sys_slurp(const char *path, char *buf, size_t size)
{
	int fd = sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
	size_t used = 0;
	ssize_t n = -1;

	if (fd < 0)
		return -1;
	while (used + 1 < size && (n = sys_read(fd, buf + used, size - 1 - used)) > 0)
		used += (size_t)n;
	sys_close(fd);
	buf[used] = '\0';
	return n < 0 && used == 0 ? -1 : (ssize_t)used;
}

#endif

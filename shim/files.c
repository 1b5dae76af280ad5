/*
 * files.c - bodies of libc's functions that open files: the real call, then policy/files is told what was opened.
 *
 * A process may open files before the loader's list can be walked, or in a child where it no longer can: then the system
 * call is made here, which is what libc does.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guard.h"
#include "hooks.h"
#include "libc.h"
#include "../policy/files/files.h"

#define NEEDS_MODE(flags) (((flags)&O_CREAT) || ((flags)&O_TMPFILE) == O_TMPFILE)

static inline int opened(int fd, int folder, const char *path, int flags)
{
	if (__builtin_expect(files_watching(), 0) && fd >= 0 && !guard_inside())
		files_opened(folder, path, flags, fd);
	return fd;
}

static mode_t mode_of(int flags, va_list *arguments)
{
	return NEEDS_MODE(flags) ? va_arg(*arguments, mode_t) : 0;
}

#define WITH_MODE(flags)                      \
	va_list arguments;                        \
	va_start(arguments, flags);               \
	mode_t mode = mode_of(flags, &arguments); \
	va_end(arguments)

#define OPEN(symbol, more)                                                                                   \
	TURBO_EXPORT int symbol(const char *path, int flags, ...)                                                \
	{                                                                                                        \
		WITH_MODE(flags);                                                                                    \
		int (*const real)(const char *, int, ...) = LIBC_NEXT(symbol);                                       \
		int fd =                                                                                             \
			real ? real(path, flags, mode) : (int)syscall(SYS_openat, AT_FDCWD, path, flags | (more), mode); \
		return opened(fd, AT_FDCWD, path, flags);                                                            \
	}
#define OPEN_AT(symbol, more)                                                         \
	TURBO_EXPORT int symbol(int folder, const char *path, int flags, ...)             \
	{                                                                                 \
		WITH_MODE(flags);                                                             \
		int (*const real)(int, const char *, int, ...) = LIBC_NEXT(symbol);           \
		int fd = real ? real(folder, path, flags, mode)                               \
					  : (int)syscall(SYS_openat, folder, path, flags | (more), mode); \
		return opened(fd, folder, path, flags);                                       \
	}

OPEN(open, 0)
OPEN(open64, O_LARGEFILE)
OPEN_AT(openat, 0)
OPEN_AT(openat64, O_LARGEFILE)

/* What a program calls that was compiled with checks, where no mode is given. */
#define CHECKED(symbol)                                                                         \
	int symbol(const char *path, int flags);                                                    \
	TURBO_EXPORT int symbol(const char *path, int flags)                                        \
	{                                                                                           \
		int (*const real)(const char *, int) = LIBC_NEXT(symbol);                               \
		int fd = real ? real(path, flags) : (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0); \
		return opened(fd, AT_FDCWD, path, flags);                                               \
	}
#define CHECKED_AT(symbol)                                                                            \
	int symbol(int folder, const char *path, int flags);                                              \
	TURBO_EXPORT int symbol(int folder, const char *path, int flags)                                  \
	{                                                                                                 \
		int (*const real)(int, const char *, int) = LIBC_NEXT(symbol);                                \
		int fd = real ? real(folder, path, flags) : (int)syscall(SYS_openat, folder, path, flags, 0); \
		return opened(fd, folder, path, flags);                                                       \
	}

CHECKED(__open_2)
CHECKED(__open64_2)
CHECKED_AT(__openat_2)
CHECKED_AT(__openat64_2)

static void opened_stream(FILE *file, const char *path, const char *mode)
{
	int saved = errno;

	if (__builtin_expect(files_watching(), 0) && *mode == 'r' && !strchr(mode, '+'))
		opened(fileno(file), AT_FDCWD, path, O_RDONLY);
	errno = saved;
}

#define FOPEN(symbol)                                                        \
	TURBO_EXPORT FILE *symbol(const char *path, const char *mode)            \
	{                                                                        \
		FILE *(*const real)(const char *, const char *) = LIBC_NEXT(symbol); \
		FILE *file = NULL;                                                   \
		if (!real) {                                                         \
			errno = ENOSYS;                                                  \
			return NULL;                                                     \
		}                                                                    \
		file = real(path, mode);                                             \
		if (file)                                                            \
			opened_stream(file, path, mode);                                 \
		return file;                                                         \
	}

FOPEN(fopen)
FOPEN(fopen64)

/* Memory that processes share: what loaders' workers hand over is in there. */
TURBO_EXPORT int shm_open(const char *name, int flags, mode_t mode)
{
	int (*const real)(const char *, int, mode_t) = LIBC_NEXT(shm_open);

	if (!real) {
		errno = ENOSYS;
		return -1;
	}
	int fd = real(name, flags, mode);
	if (__builtin_expect(fd >= 0 && (flags & O_CREAT) && files_limits_on(), 0) && !guard_inside())
		files_shared_memory();
	return fd;
}

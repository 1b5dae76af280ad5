/*
 * trace_out.c - whole lines, collected and written by whoever fills the buffer or comes a
 * second after the last write.
 *
 * No descriptor is kept: the file is opened for each write and must still be the one that we
 * made. Raw system calls, so that no interposer is met.
 */
#include "trace_out.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "log.h"

#define BUFFER_BYTES 65536
#define LINE_BYTES 128 /* four numbers of 20 digits and their letter */
#define FLUSH_S 1

/* Under the recorder's lock, but for start(). */
static char path[PATH_MAX];
static char buffer[BUFFER_BYTES];
static size_t used;
static off_t written; /* bytes in the file: whole lines */
static time_t flushed;
static bool made;
static dev_t made_dev;
static ino_t made_ino;

static time_t now(void)
{
	struct timespec t = {0, 0};
	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return t.tv_sec;
}

bool trace_out_start(const char *name)
{
	size_t n = 0;
	if (name[0] != '/') {
		if (!getcwd(path, sizeof(path) - 1))
			path[0] = '\0';
		n = strlen(path);
		path[n++] = '/';
	}
	/* Room for ".PID". */
	if (snprintf(path + n, sizeof(path) - n, "%s", name) + n >= sizeof(path) - 16) {
		log_warn("TURBO_DEVMEM_TRACE: the path is too long; nothing is recorded");
		return false;
	}
	return true;
}

static int open_file(int flags)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | flags,
						0600);
}

/* Never an existing file: a second process, or a second run, gets one of its own. */
static int create_file(void)
{
	int fd = open_file(O_CREAT | O_EXCL);
	if (fd < 0 && errno == EEXIST) {
		size_t n = strlen(path);
		snprintf(path + n, sizeof(path) - n, ".%d", (int)getpid());
		fd = open_file(O_CREAT | O_EXCL);
		if (fd >= 0)
			log_warn("TURBO_DEVMEM_TRACE: the file exists; recording to %.400s", path);
	}
	return fd;
}

/* The file, open for appending, or -1 with errno. */
static int open_made(void)
{
	struct stat st;
	int fd = made ? open_file(0) : create_file();
	if (fd < 0 || fstat(fd, &st) != 0)
		return fd;
	if (!made) {
		made = true;
		made_dev = st.st_dev;
		made_ino = st.st_ino;
	} else if (st.st_dev != made_dev || st.st_ino != made_ino || st.st_size != written) {
		syscall(SYS_close, fd);
		errno = ESTALE;
		return -1;
	}
	return fd;
}

/* The signal of a file at its size limit would kill the program. */
static ssize_t write_quietly(int fd, const char *from, size_t n)
{
	sigset_t limit, old, pending;
	struct timespec none = {0, 0};
	sigemptyset(&limit);
	sigaddset(&limit, SIGXFSZ);
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, &limit, &old);
	ssize_t done = syscall(SYS_write, fd, from, n);
	int error = errno;
	if (done < 0 && error == EFBIG && !sigismember(&pending, SIGXFSZ))
		syscall(SYS_rt_sigtimedwait, &limit, NULL, &none, _NSIG / 8);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = error;
	return done;
}

static bool write_all(int fd)
{
	size_t done = 0;
	while (done < used) {
		ssize_t n = write_quietly(fd, buffer + done, used - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			/* Whole lines only; where even that fails, the reader names the last line. */
			int error = n < 0 ? errno : ENOSPC;
			if (ftruncate(fd, written) != 0)
				log_debug("TURBO_DEVMEM_TRACE: the last line is not whole: %m");
			errno = error;
			return false;
		}
		done += (size_t)n;
	}
	return true;
}

bool trace_out_flush(void)
{
	if (!used)
		return true;
	int fd = open_made();
	bool ok = fd >= 0 && write_all(fd);
	int error = errno;
	if (fd >= 0)
		syscall(SYS_close, fd);
	if (!ok) {
		errno = error;
		log_warn(error == ESTALE ? "TURBO_DEVMEM_TRACE: %.400s was changed by somebody else; recording ends"
								 : "TURBO_DEVMEM_TRACE: %.400s cannot be written: %m; recording ends",
				 path);
		return false;
	}
	written += (off_t)used;
	used = 0;
	flushed = now();
	return true;
}

bool trace_out_line(const char *fmt, ...)
{
	va_list ap;
	if (!made && !used) {
		used = (size_t)snprintf(buffer, sizeof(buffer), "turbo-alloc-trace 1\n");
		if (!trace_out_flush()) /* here rather than a second later */
			return false;
	}
	if (sizeof(buffer) - used < LINE_BYTES && !trace_out_flush())
		return false;
	va_start(ap, fmt);
	used += (size_t)vsnprintf(buffer + used, LINE_BYTES, fmt, ap);
	va_end(ap);
	return now() - flushed < FLUSH_S || trace_out_flush();
}

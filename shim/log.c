/*
 * log.c - one line, one write(2).
 *
 * Raw system calls, so that no interposer and no cancellation point is met on the
 * way; no lock and no buffer shared between threads, so that a forked child may
 * log at once. Nothing here may block or kill the program: a pipe without reader
 * or room loses the line.
 */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "log_sink.h"
#include "options.h"

/* A line fits PIPE_BUF, so that lines of several processes never mix. */
#define LINE_BYTES 1024
#define ELLIPSIS "\xe2\x80\xa6"
/* A reader that takes longer than this loses the line rather than holding up the program. */
#define WRITE_WAIT_MS 100

int log_level = LOG_WARN;

/* Written by log_start() (constructor, one thread), constant afterwards. */
static const char *log_path = "";
static bool stderr_was_open;
static dev_t stderr_dev;
static ino_t stderr_ino;

static const char *const level_names[] = {"none", "error", "warn", "info", "debug"};

void log_start(void)
{
	struct stat st;

	if (fstat(STDERR_FILENO, &st) == 0) {
		stderr_was_open = true;
		stderr_dev = st.st_dev;
		stderr_ino = st.st_ino;
	}
	log_level = (int)option_get(OPT_LOG);
	log_path = option_text(OPT_LOG_FILE);
}

/*
 * Programs close their standard descriptors and reuse the numbers. A descriptor 2
 * that is not the one we started with is still taken for a log when it is a
 * terminal, a pipe or opened for appending, but never when a line could land in
 * the middle of a data file.
 */
static bool stderr_usable(void)
{
	struct stat st;
	long flags;

	if (fstat(STDERR_FILENO, &st) != 0)
		return false;
	if (stderr_was_open && st.st_dev == stderr_dev && st.st_ino == stderr_ino)
		return true;
	if (S_ISFIFO(st.st_mode) || (S_ISCHR(st.st_mode) && isatty(STDERR_FILENO)))
		return true;
	flags = syscall(SYS_fcntl, STDERR_FILENO, F_GETFL);
	return S_ISREG(st.st_mode) && flags >= 0 && (flags & O_APPEND);
}

/*
 * Writes once, without waiting long, and without leaving behind a signal that would kill
 * the program: SIGPIPE (nobody reads) or SIGXFSZ (the file is at its limit).
 */
static bool write_line(int fd, const char *line, size_t len)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	struct timespec wait = {0, WRITE_WAIT_MS * 1000000L}, now = {0, 0};
	sigset_t killers, old, pending;
	bool ok;

	if (syscall(SYS_ppoll, &p, 1, &wait, NULL, 0) != 1 || !(p.revents & POLLOUT))
		return false;
	sigpending(&pending);
	sigemptyset(&killers);
	sigaddset(&killers, SIGPIPE);
	sigaddset(&killers, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &killers, &old);
	ok = syscall(SYS_write, fd, line, len) == (long)len;
	if (!ok && (errno == EPIPE || errno == EFBIG)) {
		int error = errno;
		sigset_t mine;
		sigemptyset(&mine);
		sigaddset(&mine, error == EPIPE ? SIGPIPE : SIGXFSZ);
		if (!sigismember(&pending, error == EPIPE ? SIGPIPE : SIGXFSZ))
			while (syscall(SYS_rt_sigtimedwait, &mine, NULL, &now, _NSIG / 8) < 0 && errno == EINTR)
				;
		errno = error;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return ok;
}

/* The file is opened for each line and closed again: no descriptor of ours that the
 * program could close and reuse. O_NONBLOCK: a FIFO without reader must not block. */
static int open_file(void)
{
	int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK;

	return (int)syscall(SYS_openat, AT_FDCWD, log_path, flags, 0600);
}

static bool write_file(const char *line, size_t len)
{
	int fd = open_file();
	bool ok;

	if (fd < 0)
		return false;
	ok = write_line(fd, line, len);
	syscall(SYS_close, fd);
	return ok;
}

static void say_unwritable(int error)
{
	static int said;
	char line[LINE_BYTES];
	int saved = errno, len;

	if (__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED) || !stderr_usable())
		return;
	errno = error;
	/* What %m says of O_NOFOLLOW would mislead. */
	len = snprintf(line, sizeof(line),
				   error == ELOOP ? "libturbo[%d]: warn: TURBO_LOG_FILE=%.400s %s; using stderr\n"
								  : "libturbo[%d]: warn: TURBO_LOG_FILE=%.400s %s: %m; using stderr\n",
				   (int)getpid(), log_path, error == ELOOP ? "is a symbolic link" : "cannot be written");
	write_line(STDERR_FILENO, line, (size_t)len);
	errno = saved;
}

bool log_file_usable(void)
{
	int fd;

	if (!log_path[0] || log_level == LOG_NONE)
		return true;
	fd = open_file();
	if (fd >= 0)
		syscall(SYS_close, fd);
	else if (errno != ENXIO) /* a FIFO that nobody reads yet */
		say_unwritable(errno);
	return fd >= 0 || errno == ENXIO;
}

void log_emit(const char *text, size_t len)
{
	int saved = errno;

	if (log_path[0] != '\0') {
		if (write_file(text, len)) {
			errno = saved;
			return;
		}
		say_unwritable(errno);
	}
	if (stderr_usable())
		write_line(STDERR_FILENO, text, len);
	errno = saved;
}

/* Values from the environment may hold anything; a line stays a line. */
static void flatten(char *line, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
			line[i] = '?';
}

void log_write(enum log_level level, const char *fmt, ...)
{
	int saved = errno;
	char line[LINE_BYTES];
	size_t room = sizeof(line) - 1; /* the newline */
	va_list ap;
	size_t len;
	int n;

	len = (size_t)snprintf(line, room, "libturbo[%d]: %s: ", (int)getpid(), level_names[level]);
	errno = saved; /* for %m */
	va_start(ap, fmt);
	n = vsnprintf(line + len, room - len, fmt, ap);
	va_end(ap);
	if (n < 0) {
		errno = saved;
		return;
	}
	if ((size_t)n >= room - len) {
		len = room - 1;
		memcpy(line + len - strlen(ELLIPSIS), ELLIPSIS, strlen(ELLIPSIS));
	} else {
		len += (size_t)n;
	}
	flatten(line, len);
	line[len++] = '\n';
	log_emit(line, len);
	errno = saved;
}

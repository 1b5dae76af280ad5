/*
 * temporary.c - see temporary.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/timeline/temporary.h"

static const int ends[] = {SIGINT, SIGTERM, SIGHUP};

/* The name of the file of the moment, read by the handler. Set and cleared so that whenever a signal is let through
 * the file is there exactly while this is set; only a name whose file has just been renamed or removed may be tried
 * in vain. */
static const char *volatile unfinished;

static void remove_unfinished(int signal_number)
{
	const char *name = unfinished;
	if (name)
		unlink(name);
	signal(signal_number, SIG_DFL);
	raise(signal_number); /* comes when this handler returns */
}

/* Once. A signal that is ignored (nohup) or taken by the command itself stays so. */
static void watch_signals(void)
{
	static bool watched;
	struct sigaction act = {.sa_handler = remove_unfinished}, old;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]) && !watched; i++)
		if (sigaction(ends[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
			sigaction(ends[i], &act, NULL);
	if (!watched)
		signal(SIGXFSZ, SIG_IGN);
	watched = true;
}

static void forget(struct temporary *t)
{
	int error = errno;
	unfinished = NULL;
	free(t->name);
	free(t->path);
	*t = (struct temporary){0};
	errno = error;
}

/* Created and told to the handler in one, as signals see it: one that came between would leave the file. */
static int create(const char *name)
{
	sigset_t held, before;
	sigemptyset(&held);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		sigaddset(&held, ends[i]);
	sigprocmask(SIG_BLOCK, &held, &before);
	int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666), error = errno;
	if (fd >= 0) /* else the name is another's, or nobody's */
		unfinished = name;
	sigprocmask(SIG_SETMASK, &before, NULL);
	errno = error;
	return fd;
}

/* What the process writes to already, by a name as /dev/stdout; or -1. A file in its place would take it from whoever
 * else has it open, and the name's own place may be the system's. */
static int own_output(const struct stat *st)
{
	struct stat own;
	for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
		if (fstat(fd, &own) == 0 && own.st_dev == st->st_dev && own.st_ino == st->st_ino)
			return fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	return -1;
}

int temporary_open(struct temporary *t, const char *path)
{
	struct stat st;
	bool there = stat(path, &st) == 0;
	*t = (struct temporary){0};
	int own = there ? own_output(&st) : -1;
	if (own >= 0)
		return own;
	if (there && !S_ISREG(st.st_mode))
		return open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	t->path = there ? realpath(path, NULL) : strdup(path);
	if (!t->path || asprintf(&t->name, "%s.%d.tmp", path, (int)getpid()) < 0) {
		t->name = NULL;
		errno = t->path || !there ? ENOMEM : errno;
		forget(t);
		return -1;
	}
	watch_signals();
	int fd = create(t->name);
	if (fd < 0)
		forget(t);
	return fd;
}

int temporary_place(struct temporary *t)
{
	if (!t->name)
		return 0;
	if (rename(t->name, t->path) != 0) {
		int error = errno;
		temporary_remove(t);
		return error;
	}
	forget(t);
	return 0;
}

void temporary_remove(struct temporary *t)
{
	if (t->name)
		unlink(t->name);
	forget(t);
}

/*
 * proc_stat.h - another process by its number: does it live, is it the one that was meant?
 *
 * For the library and the tools. No memory is taken, no descriptor kept, errno is kept. Any thread.
 */
#ifndef TURBO_PROC_STAT_H
#define TURBO_PROC_STAT_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

struct proc_stat {
	char name[16];              /* of its program, or of the thread; 15 bytes */
	char state;                 /* field 3: R, S, D, T stopped, t traced, Z zombie, X dead, … */
	pid_t parent;               /* field 4 */
	uint64_t cpu, cpu_children; /* fields 14 to 17, clock ticks; of children that were waited for */
	uint32_t threads;           /* field 20 */
	uint64_t start_ticks;       /* field 22: since boot, in clock ticks; the same after exec */
	int exit_code;              /* field 52, as wait() gives it; 0: none, or not for us to see */
};

enum proc_life {
	PROC_RUNS,
	PROC_ENDED, /* a zombie too */
	PROC_OTHER, /* it has ended, and its number is another process's */
	PROC_HIDDEN /* there is one of this number; more cannot be known */
};

/* Of "/proc/PID" or "/proc/PID/task/TID". false: there is none, or it cannot be read. */
static inline bool proc_stat_read_in(const char *dir, struct proc_stat *s)
{
	unsigned long long field[53] = {0};
	char path[64], text[1024];
	int saved = errno, fd;
	ssize_t n;

	*s = (struct proc_stat){0};
	snprintf(path, sizeof(path), "%s/stat", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	errno = saved;
	text[n > 0 ? n : 0] = '\0';
	/* Field 2 is the name in parentheses and may hold any character. */
	char *open_at = strchr(text, '('), *p = strrchr(text, ')');
	if (!open_at || !p || p < open_at || p[1] != ' ')
		return false;
	size_t length = (size_t)(p - open_at - 1);
	memcpy(s->name, open_at + 1, length < sizeof(s->name) ? length : sizeof(s->name) - 1);
	s->state = p[2];
	p += 3;
	for (int i = 4; i <= 52 && *p; i++)
		field[i] = strtoull(p, &p, 10);
	errno = saved;
	s->parent = (pid_t)field[4];
	s->cpu = field[14] + field[15];
	s->cpu_children = field[16] + field[17];
	s->threads = (uint32_t)field[20];
	s->start_ticks = field[22];
	s->exit_code = (int)field[52];
	return s->start_ticks != 0;
}

static inline bool proc_stat_read(uint32_t pid, struct proc_stat *s)
{
	char dir[32];

	snprintf(dir, sizeof(dir), "/proc/%u", pid);
	return proc_stat_read_in(dir, s);
}

/* Nobody runs in it any more. A first thread that has ended before the others is shown as a zombie, too. */
static inline bool proc_stat_dead(const struct proc_stat *s)
{
	return s->state == 'X' || s->state == 'x' || (s->state == 'Z' && s->threads <= 1);
}

/* Of the process `pid` that was started at `start_ticks`. */
static inline enum proc_life proc_life(uint32_t pid, uint64_t start_ticks)
{
	struct proc_stat s;
	int saved = errno;
	bool there = pid && pid <= INT32_MAX && (kill((pid_t)pid, 0) == 0 || errno != ESRCH);

	errno = saved;
	if (!there)
		return PROC_ENDED;
	if (!proc_stat_read(pid, &s))
		return PROC_HIDDEN;
	if (s.start_ticks != start_ticks)
		return PROC_OTHER;
	return proc_stat_dead(&s) ? PROC_ENDED : PROC_RUNS;
}

/*
 * Whether the process has a file mapped whose path holds `part`, which is short and of one line: 1, 0, or -1 when that
 * cannot be known. After exec nothing is mapped that was. Takes milliseconds where there are thousands of mappings.
 */
static inline int proc_maps(uint32_t pid, const char *part)
{
	char path[40], text[4096];
	size_t size = strlen(part), kept = 0;
	int saved = errno, fd, found = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%u/maps", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && found != 1 && (n = read(fd, text + kept, sizeof(text) - kept)) > 0) {
		size_t have = kept + (size_t)n;
		found = memmem(text, have, part, size) != NULL;
		/* What may be the beginning of it. */
		kept = have < size ? have : size - 1;
		memmove(text, text + have - kept, kept);
	}
	if (fd >= 0)
		close(fd);
	errno = saved;
	return found;
}

#endif

/*
 * trace_life.c - whether the process that records a timeline still does.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/timeline/trace_impl.h"

/* Field 22 of /proc/PID/stat; 0 where there is none, and for a zombie. The command's name before it may hold
 * anything but ends at the last ')'. */
static uint64_t start_ticks_of(uint32_t pid)
{
	char path[64], buf[1024];
	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t n = read(fd, buf, sizeof(buf) - 1);
	close(fd);
	buf[n > 0 ? n : 0] = '\0';
	char *p = strrchr(buf, ')');
	if (!p || !strncmp(p, ") Z", 3) || !strncmp(p, ") X", 3))
		return 0;
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p + 1, NULL, 10) : 0;
}

bool trace_process_runs(const struct timeline_header *h)
{
	struct stat st;
	char host[sizeof(h->host)] = "";
	if (h->end_ns || !h->pid || !h->pid_start_ticks)
		return false;
	if (stat("/proc/self/ns/pid", &st) != 0 || (uint64_t)st.st_ino != h->pid_ns)
		return false;
	/* The first pid namespace has the same inode on every host. */
	if (gethostname(host, sizeof(host) - 1) != 0)
		return false;
	for (char *s = host; *s; s++)
		if (*s == '/')
			*s = '_';
	trace_printable(host, strlen(host));
	if (h->host[0] && strcmp(host, h->host))
		return false;
	return start_ticks_of(h->pid) == h->pid_start_ticks;
}

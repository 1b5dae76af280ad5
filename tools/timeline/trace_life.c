/*
 * trace_life.c - whether the process that records a timeline still does.
 */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proc_stat.h"
#include "tools/timeline/trace_impl.h"

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
	return proc_life(h->pid, h->pid_start_ticks) == PROC_RUNS;
}

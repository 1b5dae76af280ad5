/* timeline_file.c - see timeline_file.h. */
#include "timeline_file.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/timeline/trace.h"

static bool find(glob_t *found, int pid)
{
	const char *dir = getenv("TURBO_TIMELINE_DIR");
	char pattern[4096];
	snprintf(pattern, sizeof(pattern), "%s/turbo-*-%d-*.timeline", dir ? dir : ".", pid);
	return glob(pattern, 0, NULL, found) == 0;
}

static void add(struct timeline_sum *s, const struct trace_event *e)
{
	s->copies += e->kind == TIMELINE_COPY;
	s->memsets += e->kind == TIMELINE_MEMSET;
	s->gaps += e->kind == TIMELINE_GAP && e->duration > 0;
	s->events += e->kind == TIMELINE_EVENT;
	if (e->kind != TIMELINE_KERNEL)
		return;
	s->kernels++;
	if (e->duration > s->longest_ns)
		s->longest_ns = e->duration;
	if (!s->first || e->start < s->first)
		s->first = e->start;
	if (e->start + e->duration > s->last)
		s->last = e->start + e->duration;
}

static bool add_file(struct timeline_sum *s, const char *path)
{
	char why[256];
	struct trace *t = trace_open(path, why, sizeof(why));
	struct trace_event e;
	if (!t) {
		printf("%s: %s\n", path, why);
		return false;
	}
	for (trace_rewind(t); trace_next(t, &e);)
		add(s, &e);
	for (int i = 0; i < TIMELINE_COUNTS; i++)
		s->count[i] += trace_header(t)->count[i];
	trace_close(t);
	return true;
}

bool timeline_sum(struct timeline_sum *s, int pid)
{
	struct timespec t;
	glob_t found;
	bool fine;
	memset(s, 0, sizeof(*s));
	clock_gettime(CLOCK_REALTIME, &t);
	s->now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	fine = find(&found, pid);
	for (size_t i = 0; fine && i < found.gl_pathc; i++)
		fine = add_file(s, found.gl_pathv[i]);
	globfree(&found);
	return fine;
}

void timeline_remove(int pid)
{
	glob_t found;
	if (find(&found, pid))
		for (size_t i = 0; i < found.gl_pathc; i++)
			unlink(found.gl_pathv[i]);
	globfree(&found);
}

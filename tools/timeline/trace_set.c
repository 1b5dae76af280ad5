/*
 * trace_set.c - the timelines that a command line names.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/timeline/trace_impl.h"

#define SUFFIX ".timeline"

struct opening {
	struct trace_set *set;
	unsigned room;
	trace_error *each_error;
	void *arg;
	bool ok;
};

static void report_error(struct opening *o, const char *path, const char *why)
{
	o->ok = false;
	if (o->each_error)
		o->each_error(o->arg, path, why);
}

/* Named twice, by a directory and by itself, say. */
static bool is_there(const struct trace_set *set, const struct stat *st)
{
	for (unsigned i = 0; i < set->count; i++)
		if (set->trace[i]->dev == st->st_dev && set->trace[i]->ino == st->st_ino)
			return true;
	return false;
}

static void open_one(struct opening *o, const char *path)
{
	char why[256];
	struct stat st;
	struct trace_set *set = o->set;
	if (stat(path, &st) == 0 && is_there(set, &st))
		return;
	if (set->count == o->room) {
		unsigned room = o->room ? 2 * o->room : 16;
		struct trace **more = realloc(set->trace, room * sizeof(struct trace *));
		if (!more) {
			report_error(o, path, "no memory");
			return;
		}
		set->trace = more;
		o->room = room;
	}
	struct trace *t = trace_open(path, why, sizeof(why));
	if (t)
		set->trace[set->count++] = t;
	else
		report_error(o, path, why);
}

static int is_timeline(const struct dirent *e)
{
	size_t n = strlen(e->d_name);
	return n > strlen(SUFFIX) && !strcmp(e->d_name + n - strlen(SUFFIX), SUFFIX);
}

static void open_directory(struct opening *o, const char *path)
{
	struct dirent **entry = NULL;
	int n = scandir(path, &entry, is_timeline, alphasort);
	if (n < 0)
		report_error(o, path, strerror(errno));
	else if (n == 0)
		report_error(o, path, "there is no *" SUFFIX " file in it");
	for (int i = 0; i < n; i++) {
		char *file = NULL;
		if (asprintf(&file, "%s/%s", path, entry[i]->d_name) < 0)
			report_error(o, path, "no memory");
		else
			open_one(o, file);
		free(file);
		free(entry[i]);
	}
	free(entry);
}

static int by_rank(const void *a, const void *b)
{
	const struct trace *const *x = a, *const *y = b;
	const struct timeline_header *p = &(*x)->header, *q = &(*y)->header;
	if (p->rank != q->rank)
		return p->rank < q->rank ? -1 : 1;
	int host = strcmp(p->host, q->host);
	if (host)
		return host;
	if (p->pid != q->pid)
		return p->pid < q->pid ? -1 : 1;
	if (p->start_ns != q->start_ns)
		return p->start_ns < q->start_ns ? -1 : 1;
	return strcmp((*x)->path, (*y)->path);
}

bool trace_set_open(struct trace_set *set, const char *const *paths, unsigned n, trace_error *each_error,
					void *arg)
{
	struct opening o = {.set = set, .each_error = each_error, .arg = arg, .ok = true};
	*set = (struct trace_set){0};
	for (unsigned i = 0; i < n; i++) {
		struct stat st;
		if (stat(paths[i], &st) == 0 && S_ISDIR(st.st_mode))
			open_directory(&o, paths[i]);
		else
			open_one(&o, paths[i]);
	}
	if (set->count)
		qsort(set->trace, set->count, sizeof(struct trace *), by_rank);
	return o.ok;
}

void trace_set_close(struct trace_set *set)
{
	for (unsigned i = 0; i < set->count; i++)
		trace_close(set->trace[i]);
	free(set->trace);
	*set = (struct trace_set){0};
}

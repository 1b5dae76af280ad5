/* learn_list.c - see learn_list.h. */
#include "learn_list.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define MAGIC "turbo-files 1\n"
#define CLOSE_BYTES (128 * FILES_KIB) /* a disk is as fast to read what lies between */

size_t learn_list_begin(const char *text, size_t size)
{
	size_t n = strlen(MAGIC);

	return size >= n && memcmp(text, MAGIC, n) == 0 ? n : 0;
}

/* Digits up to `end`; false: none, or too many. */
static bool number(const char **at, const char *end, uint64_t *out)
{
	uint64_t n = 0;
	const char *c = *at;

	for (; c < end && *c >= '0' && *c <= '9'; c++)
		if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, (uint64_t)(*c - '0'), &n))
			return false;
	if (c == *at)
		return false;
	*at = c;
	*out = n;
	return true;
}

static bool ranges(const char *at, const char *end, struct learn_record *out)
{
	uint64_t last = 0;

	out->ranges = 0;
	if (end - at == 1 && *at == '*')
		return true;
	for (;;) {
		struct learn_range r;
		if (!number(&at, end, &r.from) || at == end || *at++ != '-' || !number(&at, end, &r.to) ||
			r.from < last || r.to <= r.from || r.to > INT64_MAX || out->ranges == LEARN_RANGES)
			return false;
		out->range[out->ranges++] = r;
		last = r.to;
		if (at == end)
			return true;
		if (*at++ != ',')
			return false;
	}
}

bool learn_list_next(const char *text, size_t size, size_t *at, struct learn_record *out)
{
	const char *begin = text + *at, *end, *space;

	if (*at >= size || !(end = memchr(begin, '\0', size - *at)) ||
		!(space = memchr(begin, ' ', (size_t)(end - begin))))
		return false;
	out->path = space + 1;
	*at = (size_t)(end - text) + 1;
	return out->path[0] == '/' && end - out->path < PATH_MAX && ranges(begin, space, out);
}

void learn_list_open(struct learn_writer *w, char *text)
{
	w->text = text;
	w->used = strlen(MAGIC);
	w->files = 0;
	memcpy(text, MAGIC, w->used);
}

bool learn_list_put(struct learn_writer *w, const struct learn_record *r)
{
	size_t room = LEARN_BYTES - w->used, used = 0, path = strlen(r->path);
	char *to = w->text + w->used;

	/* A range takes at most 42 bytes. */
	if (w->files >= LEARN_FILES || path + 3 + r->ranges * 42u > room)
		return false;
	if (r->ranges == 0)
		to[used++] = '*';
	for (unsigned i = 0; i < r->ranges; i++)
		used += (size_t)snprintf(to + used, room - used, "%s%llu-%llu", i ? "," : "",
								 (unsigned long long)r->range[i].from, (unsigned long long)r->range[i].to);
	to[used++] = ' ';
	memcpy(to + used, r->path, path + 1);
	w->used += used + path + 1;
	w->files++;
	return true;
}

static void join_closest(struct learn_record *r)
{
	unsigned best = 0;

	for (unsigned i = 1; i + 1 < r->ranges; i++)
		if (r->range[i + 1].from - r->range[i].to < r->range[best + 1].from - r->range[best].to)
			best = i;
	r->range[best].to = r->range[best + 1].to;
	memmove(&r->range[best + 1], &r->range[best + 2], (r->ranges - best - 2) * sizeof(r->range[0]));
	r->ranges--;
}

void learn_range_add(struct learn_record *r, uint64_t from, uint64_t to)
{
	struct learn_range *last = r->ranges ? &r->range[r->ranges - 1] : NULL;

	if (last && from <= last->to + CLOSE_BYTES) {
		if (to > last->to)
			last->to = to;
		return;
	}
	if (r->ranges == LEARN_RANGES)
		join_closest(r);
	r->range[r->ranges++] = (struct learn_range){from, to};
}

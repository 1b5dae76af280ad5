/* memory.c - see memory.h. */
#include "memory.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys.h"

#define MEMORY_PRESSURE 10.0 /* percent of the last ten seconds that some task waited for memory (PSI) */
/* Large enough for /proc/meminfo, memory.stat and the lists of cgroups. */
#define TEXT 16384

static ssize_t slurp(char *text, const char *root, const char *dir, const char *name)
{
	char path[PATH_MAX];

	if ((size_t)snprintf(path, sizeof(path), "%s%s%s", root, dir, name) >= sizeof(path))
		return -1;
	return sys_slurp(path, text, TEXT);
}

/* The number behind `key` at the beginning of a line of `text`. */
static bool number(char *text, const char *key, uint64_t *out)
{
	size_t n = strlen(key);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, n) == 0 && (line[n] == ' ' || line[n] == '\t' || line[n] == ':')) {
			line += n;
			while (*line == ' ' || *line == '\t' || *line == ':')
				line++;
			*out = strtoull(line, NULL, 10);
			return true;
		}
	}
	return false;
}

/* A file that holds one number; "max" is none. */
static bool single(char *text, const char *root, const char *dir, const char *name, uint64_t *out)
{
	if (slurp(text, root, dir, name) <= 0 || text[0] < '0' || text[0] > '9')
		return false;
	*out = strtoull(text, NULL, 10);
	return true;
}

/* "some avg10=1.23 ...": without strtod, whose comma is the locale's. */
static double pressure_of(char *text, const char *root, const char *dir, const char *name)
{
	const char *at;
	char *end;
	double value;

	if (slurp(text, root, dir, name) <= 0 || !(at = strstr(text, "some avg10=")))
		return 0;
	at += strlen("some avg10=");
	value = (double)strtoul(at, &end, 10);
	if (*end == '.' && end[1] >= '0' && end[1] <= '9')
		value += (end[1] - '0') / 10.0;
	return value;
}

static void limit_by(struct memory *m, uint64_t limit, uint64_t used, uint64_t files)
{
	uint64_t kept = used > files ? used - files : 0; /* what does not give way */
	uint64_t left = limit > kept ? limit - kept : 0;

	if (limit >= m->total)
		return;
	m->total = limit;
	if (left < m->available)
		m->available = left;
}

/* One cgroup and those above it. `dir` is cut. */
static void cgroups_up(char *text, const char *root, const char *mount, char *dir, bool v2, struct memory *m)
{
	for (;;) {
		char path[PATH_MAX];
		uint64_t limit, used, in = 0, active = 0;
		double p;
		snprintf(path, sizeof(path), "%s%s/", mount, strcmp(dir, "/") == 0 ? "" : dir);
		if (single(text, root, path, v2 ? "memory.max" : "memory.limit_in_bytes", &limit) &&
			single(text, root, path, v2 ? "memory.current" : "memory.usage_in_bytes", &used)) {
			if (slurp(text, root, path, "memory.stat") > 0) {
				number(text, v2 ? "inactive_file" : "total_inactive_file", &in);
				number(text, v2 ? "active_file" : "total_active_file", &active);
			}
			limit_by(m, limit, used, in + active);
		}
		if (v2 && (p = pressure_of(text, root, path, "memory.pressure")) > m->pressure)
			m->pressure = p;
		char *slash = strrchr(dir, '/');
		if (!slash || !dir[1])
			return;
		slash[slash == dir] = '\0';
	}
}

/* A container that sees its own cgroup as the root has a path that is not there: what is above it is asked then. */
static void cgroups(char *text, const char *root, struct memory *m)
{
	char list[4096], dir[PATH_MAX];

	if (slurp(text, root, "", "/proc/self/cgroup") <= 0)
		return;
	snprintf(list, sizeof(list), "%.4000s", text);
	for (char *line = list, *next; line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!path)
			continue;
		*path++ = '\0';
		controllers++;
		snprintf(dir, sizeof(dir), "%s", path);
		if (!*controllers)
			cgroups_up(text, root, "/sys/fs/cgroup", dir, true, m);
		else if (strcmp(controllers, "memory") == 0)
			cgroups_up(text, root, "/sys/fs/cgroup/memory", dir, false, m);
	}
}

bool memory_look(const char *root, struct memory *out)
{
	char text[TEXT];
	uint64_t total, available;

	if (slurp(text, root, "", "/proc/meminfo") <= 0 || !number(text, "MemTotal", &total) ||
		!number(text, "MemAvailable", &available))
		return false;
	out->total = total << 10;
	out->available = available << 10;
	out->pressure = pressure_of(text, root, "", "/proc/pressure/memory");
	cgroups(text, root, out);
	return true;
}

bool memory_is_tight(const struct memory *m)
{
	return m->pressure >= MEMORY_PRESSURE || m->available < m->total / 10;
}

uint64_t memory_budget(const struct memory *m)
{
	return memory_is_tight(m) ? 0 : (m->available - m->total / 10) / 2;
}

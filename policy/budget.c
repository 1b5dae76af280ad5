/* budget.c - see budget.h. */
#define _GNU_SOURCE
#include "budget.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHARE 2                     /* one part of so many */
#define LEAST (UINT64_C(256) << 20) /* what is left alone in any case */
#define PRESSED_PERCENT 10.0        /* of the last ten seconds some task waited for memory */

const char *budget_root = "";

/* The beginning of a file, as a text. */
static bool read_text(const char *path, char *text, size_t size)
{
	char whole[512];
	snprintf(whole, sizeof(whole), "%s%s", budget_root, path);
	int fd = open(whole, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	return n > 0;
}

static uint64_t meminfo(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? strtoull(at + strlen(key), NULL, 10) << 10 : 0;
}

/* What is left below the limit of this process's cgroup (version 2) or one above it. Clean file pages count as free: they
 * would make room. */
static uint64_t cgroup_room(void)
{
	char text[4096], path[512], file[600];
	uint64_t room = UINT64_MAX;

	if (!read_text("/proc/self/cgroup", text, sizeof(text)))
		return room;
	const char *at = strstr(text, "0::");
	if (!at)
		return room;
	snprintf(path, sizeof(path), "%.*s", (int)strcspn(at + 3, "\n"), at + 3);
	for (char *slash = path + strlen(path); slash; slash = strrchr(path, '/')) {
		*slash = 0;
		uint64_t most, used, clean = 0;
		snprintf(file, sizeof(file), "/sys/fs/cgroup%s/memory.max", path);
		if (!read_text(file, text, sizeof(text)) || *text < '0' || *text > '9')
			continue;
		most = strtoull(text, NULL, 10);
		snprintf(file, sizeof(file), "/sys/fs/cgroup%s/memory.current", path);
		used = read_text(file, text, sizeof(text)) ? strtoull(text, NULL, 10) : 0;
		snprintf(file, sizeof(file), "/sys/fs/cgroup%s/memory.stat", path);
		if (read_text(file, text, sizeof(text)) && (at = strstr(text, "\ninactive_file ")))
			clean = strtoull(at + 15, NULL, 10);
		used = used > clean ? used - clean : 0;
		room = most > used ? (most - used < room ? most - used : room) : 0;
	}
	return room;
}

uint64_t budget_bytes(void)
{
	char text[4096];
	uint64_t available, room;

	if (!read_text("/proc/meminfo", text, sizeof(text)))
		return 0;
	available = meminfo(text, "MemAvailable:");
	room = cgroup_room();
	available = room < available ? room : available;
	return available > LEAST ? (available - LEAST) / SHARE : 0;
}

bool budget_pressed(void)
{
	char text[512];

	if (read_text("/proc/pressure/memory", text, sizeof(text))) {
		const char *at = strstr(text, "avg10=");
		if (at && strtod(at + 6, NULL) >= PRESSED_PERCENT)
			return true;
	}
	return budget_bytes() == 0;
}

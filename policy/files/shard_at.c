/* shard_at.c - see shard_at.h. */
#include "shard_at.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "../sys.h"
#include "tune.h"

#define STILL_NS (50 * FILES_MS) /* a descriptor that has not moved for so long may be mapped */
#define MAPS_NS (200 * FILES_MS) /* from one look for a mapping to the next */
#define MAPS_LOOKS 50u           /* vain ones */
#define MAPPED_LEAST (4 * FILES_MIB)
#define PAGES_NS (20 * FILES_MS)
#define FORWARD (16 * FILES_MIB) /* looked at page by page, from the last one that was touched */
#define FORWARDS 16u             /* times that, when it went on there */
#define SAMPLES 512u             /* of the whole mapping, where nothing was touched there */
#define PAGE ((uint64_t)4096)

void shard_at_begin(struct shard_at *at, int fd, dev_t device, ino_t inode)
{
	memset(at, 0, sizeof(*at));
	at->fd = fd;
	at->device = device;
	at->inode = inode;
}

/* ---- the descriptor ---- */

static bool descriptor(struct shard_at *at, uint64_t now)
{
	char path[64], text[512], *pos;
	struct stat st;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", at->fd);
	if (sys_stat(AT_FDCWD, path, &st, 0) != 0 || st.st_dev != at->device || st.st_ino != at->inode)
		return false;
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", at->fd);
	if (sys_slurp(path, text, sizeof(text)) <= 0 || !(pos = strstr(text, "pos:")))
		return false;
	uint64_t position = strtoull(pos + 4, NULL, 10);
	if (position != at->position || at->moved == 0) {
		at->position = position;
		at->moved = now;
	}
	return true;
}

/* ---- the mapping ---- */

/* "7f00-7f10 r--p 00000000 fe:00 4711 /path" */
static bool take_line(struct shard_at *at, const char *line)
{
	unsigned long long from, to, offset, inode;
	unsigned ma, mi;

	if (sscanf(line, "%llx-%llx %*s %llx %x:%x %llu", &from, &to, &offset, &ma, &mi, &inode) != 6 ||
		inode != at->inode || makedev(ma, mi) != at->device || to - from < MAPPED_LEAST)
		return false;
	at->mapped = true;
	at->from = at->front = from;
	at->to = to;
	at->offset = offset;
	return true;
}

static void find_mapping(struct shard_at *at)
{
	static char text[65536];
	int fd = sys_openat(AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
	size_t used = 0;
	ssize_t n;

	if (fd < 0)
		return;
	while (!at->mapped && (n = sys_read(fd, text + used, sizeof(text) - 1 - used)) > 0) {
		char *line = text, *end;
		used += (size_t)n;
		text[used] = '\0';
		for (; !at->mapped && (end = strchr(line, '\n')); line = end + 1) {
			*end = '\0';
			take_line(at, line);
		}
		used = (size_t)(text + used - line);
		memmove(text, line, used);
		if (used == sizeof(text) - 1)
			break;
	}
	sys_close(fd);
}

static bool is_touched(int pagemap, uint64_t address)
{
	uint64_t page;

	return sys_pread(pagemap, &page, sizeof(page), (off_t)(address / PAGE * sizeof(page))) == sizeof(page) &&
		   page >> 63;
}

/* The last touched page not far behind the front. */
static bool forward(struct shard_at *at, int pagemap)
{
	static uint64_t page[FORWARD / PAGE];
	uint64_t want = (at->to - at->front) / PAGE;
	ssize_t n;

	if (want > FORWARD / PAGE)
		want = FORWARD / PAGE;
	n = sys_pread(pagemap, page, want * sizeof(page[0]), (off_t)(at->front / PAGE * sizeof(page[0])));
	for (ssize_t i = n / (ssize_t)sizeof(page[0]) - 1; i > 0; i--)
		if (page[i] >> 63) {
			at->front += (uint64_t)i * PAGE;
			return true;
		}
	return false;
}

/* It went on somewhere else: the first touched place after the front, in steps. */
static void somewhere(struct shard_at *at, int pagemap)
{
	uint64_t step = ((at->to - at->from) / SAMPLES + PAGE) & ~(PAGE - 1);

	for (uint64_t a = at->front + FORWARD; a < at->to; a += step)
		if (is_touched(pagemap, a)) {
			at->front = a;
			return;
		}
}

static void mapping(struct shard_at *at)
{
	int pagemap = sys_openat(AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0);

	if (pagemap < 0)
		return;
	if (!forward(at, pagemap))
		somewhere(at, pagemap);
	else
		for (unsigned i = 0; i < FORWARDS && forward(at, pagemap); i++)
			;
	sys_close(pagemap);
}

bool shard_at_look(struct shard_at *at, uint64_t now, uint64_t size, uint64_t *position)
{
	if (at->fd >= 0 && !descriptor(at, now))
		at->fd = -1;
	if (at->moved == 0)
		at->moved = now;
	if (!at->mapped && (at->fd < 0 || now - at->moved > STILL_NS) && at->looks < MAPS_LOOKS &&
		now >= at->next_maps) {
		at->next_maps = now + (at->looks < 4 ? STILL_NS : MAPS_NS);
		at->looks++;
		find_mapping(at);
	}
	if (!at->mapped) {
		*position = at->position;
		return at->fd >= 0 || at->looks < 4;
	}
	if (now >= at->next_pages) {
		uint64_t front = at->front;
		at->next_pages = now + PAGES_NS;
		mapping(at);
		if (front == at->front && ++at->looks % 64 == 0) {
			/* It may have been unmapped, and something else be there now. */
			at->mapped = false;
			find_mapping(at);
			if (!at->mapped)
				return false;
			at->front = front >= at->from && front < at->to ? front : at->from;
		}
	}
	*position = at->offset + (at->front - at->from);
	if (*position > size)
		*position = size;
	return true;
}

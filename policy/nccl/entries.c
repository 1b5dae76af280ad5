/* entries.c - see entries.h. */
#define _GNU_SOURCE
#include "entries.h"

#include <dirent.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

bool entries_open(struct entries *e, const char *dir)
{
	e->fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
	e->at = e->have = 0;
	return e->fd >= 0;
}

const char *entries_next(struct entries *e)
{
	if (e->at >= e->have) {
		long n = syscall(SYS_getdents64, e->fd, e->buffer, sizeof(e->buffer));
		e->at = 0;
		e->have = n > 0 ? (unsigned)n : 0;
	}
	if (e->have == 0)
		return NULL;
	/* As the kernel lays it out. */
	const struct dirent64 *entry = (const void *)(e->buffer + e->at);
	e->at += entry->d_reclen;
	return entry->d_name;
}

void entries_close(struct entries *e)
{
	close(e->fd);
}

/*
 * entries.h - names in a folder, without memory from the program's heap, which may be what hangs.
 */
#ifndef TURBO_ENTRIES_H
#define TURBO_ENTRIES_H

#include <stdbool.h>

struct entries {
	int fd; /* of the folder; for fstatat() */
	unsigned at, have;
	char buffer[2048] __attribute__((aligned(16)));
};

bool entries_open(struct entries *e, const char *dir);
/* NULL: there are no more. Valid until the next call. */
const char *entries_next(struct entries *e);
void entries_close(struct entries *e);

#endif

/*
 * library.c - where libturbo.so is, seen from this command.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "turbo.h"

/* Relative to the folder of the command, in this order: a build tree, then
 * PREFIX/bin with PREFIX/lib, then a library folder of our own. */
static const char *const places[] = {"libturbo.so", "../lib/libturbo.so", "../lib/libturbo/libturbo.so"};

bool library_find(char *buf, size_t size)
{
	char self[PATH_MAX], path[PATH_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n <= 0)
		return false;
	self[n] = '\0';
	char *slash = strrchr(self, '/');
	if (!slash)
		return false;
	*slash = '\0';

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		char real[PATH_MAX];
		snprintf(path, sizeof(path), "%s/%s", self, places[i]);
		if (access(path, R_OK) == 0 && realpath(path, real) && strlen(real) < size) {
			strcpy(buf, real);
			return true;
		}
	}
	return false;
}

/*
 * folders.c - where compiled kernels are kept, and where temporary files go.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor.h"
#include "tools/timeline/units.h"

#define TEMPORARY_LEAST 1e9

static void cache(struct doctor *d)
{
	const char *path = getenv("CUDA_CACHE_PATH"), *home = getenv("HOME");
	struct doctor_mount m;
	char folder[PATH_MAX];
	if ((!path || !*path) && (!home || !*home)) {
		doctor_say(d, F_cache_folder, DOCTOR_WARN, NULL, "HOME is not set");
		return;
	}
	snprintf(folder, sizeof(folder), "%s%s", path && *path ? path : home, path && *path ? "" : "/.nv");
	char wanted[PATH_MAX];
	strcpy(wanted, folder);
	/* The nearest that is there: it makes the rest itself. */
	char *slash;
	while (access(folder, F_OK) != 0 && errno == ENOENT && (slash = strrchr(folder, '/')) && slash != folder)
		*slash = '\0';
	if (access(folder, W_OK) != 0)
		doctor_say(d, F_cache_folder, DOCTOR_WARN, NULL, "%s cannot be written: %s", folder, strerror(errno));
	else if (doctor_mount_of(d, folder, &m) && m.network)
		doctor_say(d, F_cache_folder, DOCTOR_WARN, NULL, "%s is on a network (%s)", folder, m.type);
	else
		doctor_say(d, F_cache_folder, DOCTOR_OK, NULL, "%s", wanted);
}

void probe_folders(struct doctor *d)
{
	const char *temporary = getenv("TMPDIR");
	struct doctor shell = *d;
	double size, available;
	shell.root = ""; /* a path of the environment */
	if (!temporary || !*temporary)
		temporary = "/tmp";
	cache(d);
	if (access(temporary, W_OK | X_OK) != 0)
		doctor_say(d, F_temporary, DOCTOR_WARN, NULL, "%s cannot be written: %s", temporary, strerror(errno));
	else if (doctor_space(&shell, temporary, &size, &available))
		doctor_say(d, F_temporary, available < TEMPORARY_LEAST ? DOCTOR_WARN : DOCTOR_OK, NULL,
				   "%s: %s free of %s", temporary, units_bytes(available).s, units_bytes(size).s);
}

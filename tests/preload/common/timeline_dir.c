/*
 * timeline_dir.c - a folder of its own for the timelines of a test program (timeline_dir.h).
 */
#include "timeline_dir.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void remove_all(const char *dir)
{
	char path[512];
	DIR *d = opendir(dir);
	for (struct dirent *e; d && (e = readdir(d));) {
		snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
		if (e->d_name[0] != '.')
			unlink(path);
	}
	if (d)
		closedir(d);
	rmdir(dir);
}

bool timeline_dir_enter(char **argv, int *status)
{
	const char *below = getenv("TMPDIR");
	char dir[256];
	int ended = 0;
	if (getenv("TEST_TIMELINE_DIR_ENTERED"))
		return true;
	snprintf(dir, sizeof dir, "%s/turbo-timeline-XXXXXX", below && *below ? below : "/tmp");
	*status = 1;
	if (!mkdtemp(dir)) {
		perror(dir);
		return false;
	}
	setenv("TURBO_TIMELINE_DIR", dir, 1);
	setenv("TEST_TIMELINE_DIR_ENTERED", "1", 1);
	pid_t child = fork();
	if (!child) {
		execv("/proc/self/exe", argv);
		_exit(127);
	}
	if (child > 0 && waitpid(child, &ended, 0) == child) {
		*status = WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
		if (WIFSIGNALED(ended))
			fprintf(stderr, "ended by signal %d (%s)\n", WTERMSIG(ended), strsignal(WTERMSIG(ended)));
	}
	remove_all(dir);
	return false;
}

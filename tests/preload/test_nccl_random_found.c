/*
 * test_nccl_random_found.c - what the watchdog has told, and what is left.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "policy/nccl/flight_page.h"
#include "test_nccl_random_jobs.h"

static void read_file(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);

	text[n > 0 ? n : 0] = '\0';
	if (fd >= 0)
		close(fd);
}

static void understand(struct found *f)
{
	const char *verdict = strstr(f->text, "\"verdict\": \""), *who = strstr(f->text, "\"culprit\": {");
	const char *pid = who ? strstr(who, "\"pid\": ") : NULL;

	if (verdict)
		sscanf(verdict, "\"verdict\": \"%31[a-z]", f->verdict);
	f->pid = pid ? strtol(pid + 7, NULL, 10) : -1;
}

/* Reports get more detailed, so also old ones may be written to. */
static bool is_old(struct slot *s, const char *name, bool note)
{
	uint64_t hash = 14695981039346656037u;

	for (const char *c = name; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 1099511628211u;
	for (unsigned i = 0; i < SEEN; i++)
		if (s->seen[i] == hash)
			return true;
	if (note)
		s->seen[s->seen_next++ % SEEN] = hash;
	return false;
}

/* Calls `each` with the path of every report that the program before has not brought. */
static unsigned new_reports(struct slot *s, struct found *f, void (*each)(struct found *f, const char *path),
							bool note)
{
	DIR *d = opendir(s->dir);
	struct dirent *entry;
	unsigned n = 0;

	while (d && (entry = readdir(d))) {
		char path[400];
		size_t length = strlen(entry->d_name);
		if (entry->d_name[0] == '.' || length < 5 || strcmp(entry->d_name + length - 5, ".json") != 0 ||
			is_old(s, entry->d_name, note))
			continue;
		snprintf(path, sizeof(path), "%s/%s", s->dir, entry->d_name);
		if (f)
			each(f, path);
		n++;
	}
	if (d)
		closedir(d);
	return n;
}

static void take(struct found *f, const char *path)
{
	size_t used = f->reports++ ? strlen(f->text) : 0, room = sizeof(f->text) - used;

	if (f->reports > 1 && room < 1000)
		return;
	read_file(path, f->text + used, used ? 900 : room / 2);
	if (!used)
		understand(f);
}

void found_look(struct slot *s, struct found *f)
{
	f->reports = 0;
	new_reports(s, f, take, false);
}

void found_forget(struct slot *s)
{
	new_reports(s, NULL, NULL, true);
	if (truncate(s->log, 0) != 0)
		return; /* nothing was ever logged */
}

void found_clear(struct slot *s)
{
	DIR *d = opendir(s->dir);
	struct dirent *entry;

	while (d && (entry = readdir(d)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			unlinkat(dirfd(d), entry->d_name, 0);
	if (d)
		closedir(d);
}

/* Not only the end of a report that was begun before. */
bool found_log(const struct slot *s, char text[2048])
{
	read_file(s->log, text, 2048);
	return strstr(text, "warn: ") != NULL;
}

/* ---- flight files ---- */

#define KILLED 1024

static char killed[KILLED][64]; /* files of killed ranks */
static unsigned killed_count;

void found_file(pid_t pid, char path[64])
{
	snprintf(path, 64, "/dev/shm/" FLIGHT_FILE_FORMAT, (unsigned)geteuid(), (int)pid);
}

/* As if it had happened long ago. */
void found_killed(pid_t pid)
{
	struct timespec times[2];
	char path[64];

	found_file(pid, path);
	clock_gettime(CLOCK_REALTIME, &times[0]);
	times[0].tv_sec -= 2000;
	times[1] = times[0];
	if (utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW) == 0)
		memcpy(killed[killed_count++ % KILLED], path, sizeof(path));
}

unsigned slot_leftovers(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < KILLED; i++)
		n += killed[i][0] && access(killed[i], F_OK) == 0;
	return n;
}

/* stats_leftovers.c - see stats_leftovers.h. */
#include "stats_leftovers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "proc_stat.h"
#include "stats_page.h"

#define SWEEP_ENTRIES 4096
#define SWEEP_FILES 64
/* A file without a magic belongs to a process that is just making it, or that died in the
 * middle; making one takes milliseconds. */
#define HALF_MADE_S 60

uint64_t stats_start_ticks(pid_t pid)
{
	struct proc_stat s;

	return proc_stat_read((uint32_t)pid, &s) ? s.start_ticks : 0;
}

uint64_t stats_pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* Reads the header of a regular file of our user; false when it is something else. */
static bool read_header(const char *path, struct stats_header *h, struct stat *st)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	bool ok;

	if (fd < 0)
		return false;
	ok = fstat(fd, st) == 0 && S_ISREG(st->st_mode) && st->st_uid == geteuid();
	if (ok) {
		memset(h, 0, sizeof(*h));
		ok = pread(fd, h, sizeof(*h), 0) >= 0;
	}
	close(fd);
	return ok;
}

/* exec keeps the number and the start: a file of ours that nothing maps is of the program before. Another copy of
 * libturbo in this process has its own mapped. */
static bool is_before_exec(const char *path)
{
	const char *name = strrchr(path, '/');

	return name && proc_maps((uint32_t)getpid(), name) == 0;
}

static bool is_dead(const char *path, const struct stats_header *h, const struct stat *st, pid_t pid)
{
	enum proc_life life;

	if (memcmp(h->magic, STATS_MAGIC, sizeof(h->magic)) != 0)
		return time(NULL) - st->st_mtime > HALF_MADE_S;
	if (h->version != STATS_VERSION || h->pid_ns != stats_pid_namespace())
		return false;
	life = proc_life((uint32_t)pid, h->start_ticks);
	return life == PROC_ENDED || life == PROC_OTHER || (pid == getpid() && is_before_exec(path));
}

bool stats_remove_if_dead(const char *path, pid_t pid)
{
	struct stats_header header;
	struct stat st;

	return read_header(path, &header, &st) && is_dead(path, &header, &st, pid) && unlink(path) == 0;
}

/* The name is ours, whole: %n tells where the match ended. */
static bool our_name(const char *name, pid_t *pid)
{
	unsigned uid;
	int number, end = 0;

	if (sscanf(name, STATS_FILE_FORMAT "%n", &uid, &number, &end) != 2 || end == 0 || name[end] != '\0')
		return false;
	*pid = number;
	return uid == geteuid() && number > 0;
}

void stats_sweep(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *entry;
	int files = 0;

	if (!d)
		return;
	for (int i = 0; i < SWEEP_ENTRIES && files < SWEEP_FILES && (entry = readdir(d)); i++) {
		char path[512];
		pid_t pid;
		if (!our_name(entry->d_name, &pid) || pid == getpid())
			continue;
		files++;
		if (snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name) < (int)sizeof(path))
			stats_remove_if_dead(path, pid);
	}
	closedir(d);
}

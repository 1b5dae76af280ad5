/* file_sweep.c - see file.h: flight files of processes that are dead. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "file.h"
#include "proc_stat.h"
#include "stats_leftovers.h"

#define SWEEP_ENTRIES 4096
#define SWEEP_FILES 256

bool flight_file_header(const char *name, struct flight_page *header, struct stat *st)
{
	int fd = open(name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	bool ok;

	if (fd < 0)
		return false;
	memset(header->bytes, 0, sizeof(header->bytes));
	ok = fstat(fd, st) == 0 && S_ISREG(st->st_mode) && st->st_uid == geteuid() &&
		 pread(fd, header->bytes, sizeof(header->bytes), 0) >= 0;
	close(fd);
	return ok;
}

static bool is_leftover(const struct flight_page *h, const struct stat *st, pid_t pid)
{
	time_t age = time(NULL) - st->st_mtime;

	if (age < FLIGHT_FILE_KEPT_S)
		return false;
	if (age > FLIGHT_FILE_FORGOTTEN_S || memcmp(h->magic, FLIGHT_MAGIC, sizeof(h->magic)) != 0)
		return true;
	enum proc_life life = proc_life((uint32_t)pid, h->start_ticks);
	return h->pid_ns == stats_pid_namespace() && (life == PROC_ENDED || life == PROC_OTHER);
}

void flight_file_sweep(const char *dir)
{
	static struct flight_page header;
	DIR *d = opendir(dir);
	struct dirent *entry;
	unsigned files = 0;

	for (unsigned i = 0; d && i < SWEEP_ENTRIES && files < SWEEP_FILES && (entry = readdir(d)); i++) {
		char name[PATH_MAX];
		unsigned uid;
		int pid, end = 0;
		struct stat st;

		/* The name is ours, whole: %n tells where the match ended. */
		if (sscanf(entry->d_name, FLIGHT_FILE_FORMAT "%n", &uid, &pid, &end) != 2 || end == 0 ||
			entry->d_name[end] != '\0' || uid != geteuid() || pid <= 0 || pid == getpid())
			continue;
		files++;
		if (snprintf(name, sizeof(name), "%s/%s", dir, entry->d_name) < (int)sizeof(name) &&
			flight_file_header(name, &header, &st) && is_leftover(&header, &st, pid))
			unlink(name);
	}
	if (d)
		closedir(d);
}

/* nccl_files.c - see nccl.h: reports that the watchdog has left in a folder. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nccl.h"

#define REPORT_PREFIX "turbo-nccl-" /* of REPORT_FILE_FORMAT */

static bool is_report(const char *name, const char *suffix)
{
	size_t n = strlen(name), s = strlen(suffix);

	return !strncmp(name, REPORT_PREFIX, sizeof(REPORT_PREFIX) - 1) && n > s && !strcmp(name + n - s, suffix);
}

static bool later(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

int nccl_files_last(const char *dir, const char *suffix, char *path, size_t size)
{
	DIR *d = opendir(dir);
	struct timespec newest = {0, 0};
	struct dirent *entry;
	struct stat st;
	int count = 0;

	if (!d)
		return -1;
	while ((entry = readdir(d))) {
		if (!is_report(entry->d_name, suffix) ||
			fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
			continue;
		if (count++ && !later(&st.st_mtim, &newest))
			continue;
		newest = st.st_mtim;
		if ((size_t)snprintf(path, size, "%s/%s", dir, entry->d_name) >= size)
			count--;
	}
	closedir(d);
	return count;
}

static void put_clean(char *text, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (((unsigned char)text[i] < 0x20 && text[i] != '\n') || text[i] == 0x7f)
			text[i] = '?';
	fwrite(text, 1, bytes, stdout);
}

int nccl_files_print(const char *path)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), error = 0;
	struct stat st;
	char text[8192];
	ssize_t n = 0;

	if (fd < 0)
		return errno;
	if (fstat(fd, &st) != 0)
		error = errno;
	else if (!S_ISREG(st.st_mode))
		error = EINVAL;
	while (!error && ((n = read(fd, text, sizeof(text))) > 0 || (n < 0 && errno == EINTR)))
		if (n > 0)
			put_clean(text, (size_t)n);
	if (!error && n < 0)
		error = errno;
	close(fd);
	return error;
}

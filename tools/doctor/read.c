/* read.c - small files of /proc, /sys and /dev, below the root that --root names. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor.h"

static void path_of(const struct doctor *d, char *buf, size_t size, const char *fmt, va_list ap)
{
	int n = snprintf(buf, size, "%s", d->root);
	if (n >= 0 && (size_t)n < size)
		vsnprintf(buf + n, size - (size_t)n, fmt, ap);
}

void doctor_path(const struct doctor *d, char *buf, size_t size, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	path_of(d, buf, size, fmt, ap);
	va_end(ap);
}

static bool read_text(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t have = 0;
	*buf = '\0';
	if (fd < 0)
		return false;
	while (have < size - 1) {
		ssize_t n = read(fd, buf + have, size - 1 - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			if (n < 0 && have == 0) {
				close(fd);
				return false;
			}
			break;
		}
		have += (size_t)n;
	}
	close(fd);
	while (have && strchr(" \t\n", buf[have - 1]))
		have--;
	buf[have] = '\0';
	return true;
}

bool doctor_read(const struct doctor *d, char *buf, size_t size, const char *fmt, ...)
{
	char path[PATH_MAX];
	va_list ap;
	va_start(ap, fmt);
	path_of(d, path, sizeof(path), fmt, ap);
	va_end(ap);
	return read_text(path, buf, size);
}

int64_t doctor_number(const struct doctor *d, const char *fmt, ...)
{
	char path[PATH_MAX], text[64], *end;
	va_list ap;
	va_start(ap, fmt);
	path_of(d, path, sizeof(path), fmt, ap);
	va_end(ap);
	if (!read_text(path, text, sizeof(text)))
		return -1;
	if (!strncmp(text, "max", 3))
		return INT64_MAX;
	int64_t value = strtoll(text, &end, 10); /* too large: INT64_MAX */
	return end == text ? -1 : value;
}

bool doctor_exists(const struct doctor *d, const char *fmt, ...)
{
	char path[PATH_MAX];
	va_list ap;
	va_start(ap, fmt);
	path_of(d, path, sizeof(path), fmt, ap);
	va_end(ap);
	return access(path, F_OK) == 0;
}

unsigned doctor_entries(const struct doctor *d, const char *folder, doctor_entry *each, void *arg)
{
	char path[PATH_MAX];
	unsigned count = 0;
	doctor_path(d, path, sizeof(path), "%s", folder);
	DIR *dir = opendir(path);
	for (struct dirent *e; dir && (e = readdir(dir));) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		count++;
		if (each && !each(arg, e->d_name))
			break;
	}
	if (dir)
		closedir(dir);
	return count;
}

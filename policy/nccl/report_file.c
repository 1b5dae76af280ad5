/*
 * report_file.c - the two files of a report: text and JSON, under one number.
 *
 * Each is written under a hidden name beside its own and then renamed, so that who reads sees all or nothing. Nothing
 * that exists is overwritten but what this process has written for the same report.
 */
#include "report_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_name.h"
#include "options.h"

#define NUMBERS 1000 /* that are tried: files of earlier processes with our number may lie there */
#define NAME 128     /* bytes of a name without its folder */

struct file {
	const char *text;
	unsigned bytes;
	const char *suffix;
};

static bool write_all(int fd, const struct file *f)
{
	for (unsigned at = 0; at < f->bytes;) {
		ssize_t n = write(fd, f->text + at, f->bytes - at);
		if (n < 0 && errno != EINTR)
			return false;
		at += n > 0 ? (unsigned)n : 0;
	}
	return true;
}

/* Into the hidden name. 0, or an errno. */
static int write_hidden(int dir, const char *name, const struct file *f)
{
	static const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(dir, name, flags, 0600), error = 0;

	if (fd < 0 && errno == EEXIST && unlinkat(dir, name, 0) == 0) /* of one that was killed meanwhile */
		fd = openat(dir, name, flags, 0600);
	if (fd < 0)
		return errno;
	if (!write_all(fd, f))
		error = errno;
	/* Full disks and servers tell it here, if not before. */
	if (close(fd) != 0 && errno != EINTR && !error)
		error = errno;
	if (error)
		unlinkat(dir, name, 0);
	return error;
}

/* Not every file system can do the first, or the second. */
static int name_anew(int dir, const char *hidden, const char *name)
{
	if (renameat2(dir, hidden, dir, name, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return errno;
	if (linkat(dir, hidden, dir, name, 0) == 0) {
		unlinkat(dir, hidden, 0);
		return 0;
	}
	if (errno == EEXIST || faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return EEXIST;
	return renameat(dir, hidden, dir, name) == 0 ? 0 : errno;
}

static int put_file(int dir, const char *stem, const struct file *f, bool anew)
{
	char name[NAME], hidden[NAME + 8];
	int error;

	snprintf(name, sizeof(name), "%s%s", stem, f->suffix);
	snprintf(hidden, sizeof(hidden), ".%s.new", name);
	error = write_hidden(dir, hidden, f);
	if (error)
		return error;
	if (anew)
		error = name_anew(dir, hidden, name);
	else if (renameat(dir, hidden, dir, name) != 0)
		error = errno;
	if (error)
		unlinkat(dir, hidden, 0);
	return error;
}

static int put_both(int dir, const char *stem, const struct file file[2], bool anew)
{
	char name[NAME];
	int error = put_file(dir, stem, &file[0], anew);

	if (error)
		return error;
	error = put_file(dir, stem, &file[1], anew);
	if (error && anew) {
		snprintf(name, sizeof(name), "%s%s", stem, file[0].suffix);
		unlinkat(dir, name, 0);
	}
	return error;
}

static void make_stem(char stem[NAME], unsigned number)
{
	char host[HOST_NAME_BYTES];

	host_name_part(host);
	snprintf(stem, NAME - 8, REPORT_FILE_FORMAT, host, (int)getpid(), number);
}

/* The folder's path from the root, for who reads the log. */
static bool full_path(char *out, size_t size, const char *folder, const char *stem)
{
	char here[PATH_MAX] = "";
	int n;

	if (folder[0] != '/' && !getcwd(here, sizeof(here)))
		here[0] = '\0';
	if (!strcmp(folder, "."))
		n = snprintf(out, size, "%s/%s.txt", here, stem);
	else
		n = snprintf(out, size, "%s%s%s/%s.txt", here, here[0] ? "/" : "", folder, stem);
	return n > 0 && (size_t)n < size;
}

/* So that not everything is written for each number that is taken. */
static bool is_taken(int dir, const char *stem, const struct file file[2])
{
	char name[NAME];

	for (int i = 0; i < 2; i++) {
		snprintf(name, sizeof(name), "%s%s", stem, file[i].suffix);
		if (faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			return true;
	}
	return false;
}

static int write_anew(struct report_given *given, const char *folder, const struct file file[2])
{
	int dir = open(folder, O_DIRECTORY | O_RDONLY | O_CLOEXEC), error = EEXIST;
	char stem[NAME];

	if (dir < 0)
		return errno;
	for (unsigned i = 1; error == EEXIST && i <= NUMBERS; i++) {
		make_stem(stem, i);
		error = is_taken(dir, stem, file) ? EEXIST : put_both(dir, stem, file, true);
		if (!error) {
			given->number = i;
			snprintf(given->folder, sizeof(given->folder), "%s", folder);
			if (!full_path(given->path, sizeof(given->path), folder, stem))
				snprintf(given->path, sizeof(given->path), "%s.txt", stem);
		}
	}
	close(dir);
	return error;
}

static int write_again(const struct report_given *given, const struct file file[2])
{
	int dir = open(given->folder, O_DIRECTORY | O_RDONLY | O_CLOEXEC), error;
	char stem[NAME];

	if (dir < 0)
		return errno;
	make_stem(stem, given->number);
	error = put_both(dir, stem, file, false);
	close(dir);
	return error;
}

bool report_files(struct report_given *given, const char *text, unsigned text_bytes, const char *json,
				  unsigned json_bytes, int *error)
{
	const struct file file[2] = {{text, text_bytes, ".txt"}, {json, json_bytes, ".json"}};
	const char *wanted = option_text(OPT_NCCL_DIR), *spare = getenv("TMPDIR");

	if (given->number) {
		*error = write_again(given, file);
		return *error == 0;
	}
	*error = write_anew(given, wanted[0] ? wanted : ".", file);
	if (*error == 0)
		return true;
	return write_anew(given, spare && spare[0] ? spare : "/tmp", file) == 0;
}

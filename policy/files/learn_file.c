/* learn_file.c - see learn_file.h. */
#include "learn_file.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "../sys.h"
#include "track.h"
#include "tune.h"

#define LEFT_S 3600 /* a file that was being written and is so old is left over */

/* Constant after the constructor. */
static char dir[PATH_MAX], path[PATH_MAX + 64];
static uint64_t command;

uint64_t learn_file_command(void)
{
	return command;
}

/* ---- which ---- */

uint64_t learn_file_number(const char *program, const char *arguments, size_t size)
{
	uint64_t hash = track_hash(program, strlen(program), 17);
	bool code = false;

	for (size_t at = 0, n; at < size; at += n + 1) {
		char copy[1024];
		const char *a = arguments + at;
		size_t used = 0;
		n = strnlen(a, size - at);
		if (at > 0) { /* behind the program's own name */
			for (size_t i = 0; i < n && used < sizeof(copy); i++)
				if (!code || a[i] < '0' || a[i] > '9')
					copy[used++] = a[i];
			hash = track_hash(copy, used, hash);
			if (a[0] != '-' || code)
				break;
			code = n == 2 && (a[1] == 'c' || a[1] == 'm');
		}
	}
	return hash;
}

bool learn_file_start(void)
{
	static char arguments[4096], program[PATH_MAX];
	const char *base = getenv("XDG_CACHE_HOME"), *below = "";
	ssize_t n;

	if (!base || base[0] != '/') {
		base = getenv("HOME");
		below = "/.cache";
	}
	if (!base || base[0] != '/' ||
		(size_t)snprintf(dir, sizeof(dir), "%s%s/libturbo", base, below) >= sizeof(dir))
		return false;
	n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	if (n <= 0)
		return false;
	program[n] = '\0';
	n = sys_slurp("/proc/self/cmdline", arguments, sizeof(arguments));
	command = learn_file_number(program, arguments, n > 0 ? (size_t)n : 0);
	snprintf(path, sizeof(path), "%s/start-%016llx", dir, (unsigned long long)command);
	return true;
}

/* ---- reading ---- */

char *learn_file_read(size_t *size, size_t *room)
{
	int fd = sys_openat(AT_FDCWD, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0);
	struct stat st;
	char *text = MAP_FAILED;
	ssize_t n = -1;

	if (fd < 0)
		return NULL;
	if (sys_stat(fd, "", &st, AT_EMPTY_PATH) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
		!(st.st_mode & 022) && st.st_size > 0 && st.st_size <= (off_t)LEARN_BYTES) {
		*room = (size_t)st.st_size;
		text = mmap(NULL, *room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	}
	if (text != MAP_FAILED)
		n = sys_read(fd, text, *room);
	sys_close(fd);
	if (n > 0) {
		*size = (size_t)n;
		return text;
	}
	if (text != MAP_FAILED)
		munmap(text, *room);
	return NULL;
}

/* ---- writing ---- */

static bool below_limit(uint64_t bytes)
{
	struct rlimit limit; /* beyond it, a write raises SIGXFSZ */

	return getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
		   (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes);
}

static bool make_dir(void)
{
	struct stat st;
	char *slash = strrchr(dir, '/');

	if (mkdir(dir, 0700) != 0 && errno == ENOENT) {
		*slash = '\0'; /* the cache folder itself, which only the user's home must have */
		mkdir(dir, 0700);
		*slash = '/';
		mkdir(dir, 0700);
	}
	return lstat(dir, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 022);
}

/* Removes the oldest list where there are too many, and what was left half written. */
static void sweep(void)
{
	_Alignas(8) static char names[8192];
	char oldest[64] = "";
	time_t age = 0, now = time(NULL);
	unsigned lists = 0;
	int fd = sys_openat(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
	ssize_t n;

	if (fd < 0)
		return;
	while ((n = sys_getdents(fd, names, sizeof(names))) > 0)
		for (ssize_t i = 0; i < n; i += *(const uint16_t *)(const void *)(names + i + 16)) {
			const char *name = names + i + 19;
			struct stat st;
			if (strncmp(name, "start-", 6) != 0 || strlen(name) >= sizeof(oldest) ||
				sys_stat(fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
				continue;
			if (strchr(name, '.')) {
				if (now - st.st_mtime > LEFT_S)
					unlinkat(fd, name, 0);
				continue;
			}
			lists++;
			if (!*oldest || st.st_mtime < age) {
				age = st.st_mtime;
				strcpy(oldest, name);
			}
		}
	if (lists > LEARN_LISTS && *oldest)
		unlinkat(fd, oldest, 0);
	sys_close(fd);
}

bool learn_file_write(const char *text, size_t size)
{
	char name[PATH_MAX + 96];
	size_t done = 0;
	int fd;

	if (!below_limit(size) || !make_dir())
		return false;
	snprintf(name, sizeof(name), "%s.%d", path, (int)getpid());
	fd = sys_openat(AT_FDCWD, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return false;
	while (done < size) {
		ssize_t n = syscall(SYS_write, fd, text + done, size - done);
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	sys_close(fd);
	if (done < size || rename(name, path) != 0) {
		unlink(name);
		return false;
	}
	sweep();
	return true;
}

/* files.c - the policy: limits, what of the program's opens is looked at, and life. */
#define _GNU_SOURCE
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "life.h"
#include "log.h"
#include "options.h"
#include "readers.h"
#include "seen.h"
#include "stats.h"
#include "../policy.h"

/* What Linux services get; programs that use select() with numbers above 1023 would break, and never get there. */
#define DESCRIPTORS ((rlim_t)65536)
/* Docker's default is 64 MiB; a batch of images that eight workers hand over takes more. */
#define SHARED_LEAST (UINT64_C(512) << 20)

enum { FILES_OFF, FILES_LIMITS, FILES_PREFETCH };

_Atomic bool files_watch, files_limits;

/* Shared with forked children: workers make the shared memory, and one line is enough. NULL: no memory. */
static _Atomic int *said;

/* ---- limits ---- */

static void raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	rlim_t to = limit.rlim_max < DESCRIPTORS ? limit.rlim_max : DESCRIPTORS;
	if (limit.rlim_cur >= to)
		return;
	limit.rlim_cur = to;
	setrlimit(RLIMIT_NOFILE, &limit);
}

void files_shared_memory(void)
{
	struct statvfs fs;
	int saved = errno;

	if (said && !atomic_exchange(said, 1) && statvfs("/dev/shm", &fs) == 0) {
		uint64_t size = (uint64_t)fs.f_blocks * fs.f_frsize;
		if (size && size < SHARED_LEAST)
			log_warn(
				"files: /dev/shm holds %llu MiB: loaders' workers that hand over batches there die of SIGBUS when it is "
				"full; give the container more (docker run --shm-size=8g, or --ipc=host)",
				(unsigned long long)(size >> 20));
	}
	errno = saved;
}

/* ---- what is opened ---- */

static bool ends(const char *path, size_t length, const char *with)
{
	size_t n = strlen(with);

	return length > n && !memcmp(path + length - n, with, n);
}

/* Programs, and what is no file of a disk. */
static bool no_data(const char *path)
{
	size_t length = strlen(path);

	return ends(path, length, ".py") || ends(path, length, ".pyc") || ends(path, length, ".so") ||
		   !strncmp(path, "/proc/", 6) || !strncmp(path, "/sys/", 5) || !strncmp(path, "/dev/", 5) ||
		   !strncmp(path, "/etc/", 5) || !strncmp(path, "/usr/", 5) || !strncmp(path, "/lib", 4);
}

static void ask(const char *path, size_t length, bool tree, const struct seen_folder *f)
{
	char root[1024];
	size_t at = 0;
	uint32_t runs = atomic_load_explicit(&f->runs, memory_order_relaxed);
	uint32_t ups = atomic_load_explicit(&f->ups, memory_order_relaxed);

	if (*path != '/') {
		if (!getcwd(root, sizeof(root) - 1) || *root != '/')
			return;
		at = strlen(root);
		root[at++] = '/';
	}
	if (at + length >= sizeof(root))
		return;
	memcpy(root + at, path, length);
	root[at + length] = 0;
	readers_ask(root, tree, !tree && ups + 2 >= runs, strrchr(path, '/') + 1, f);
}

void files_opened(int folder, const char *path, int flags)
{
	size_t length;
	int tree;

	if ((flags & O_ACCMODE) != O_RDONLY || (flags & (O_DIRECTORY | O_PATH | O_DIRECT | O_CREAT)) ||
		(folder != AT_FDCWD && *path != '/') || no_data(path))
		return;
	struct seen_folder *f = seen_file(path, &length, &tree);
	if (!f)
		return;
	int saved = errno;
	ask(path, length, tree, f);
	errno = saved;
}

/* ---- life ---- */

static void start(void)
{
	int64_t mode = option_get(OPT_FILES);

	if (mode == FILES_OFF || !life_engaged())
		return;
	raise_descriptors();
	void *page = mmap(NULL, sizeof(*said), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	said = page == MAP_FAILED ? NULL : page;
	atomic_store(&files_limits, said != NULL);
	readers_start(option_get(OPT_FILES_NETWORK) == 1);
	atomic_store(&files_watch, mode == FILES_PREFETCH);
}

static void stop(void)
{
	atomic_store(&files_watch, false);
	readers_stop();
}

static void fork_child(void)
{
	readers_fork_child();
}

static int summary(char *buf, int size)
{
	uint64_t files = stats_get(STATS_FILES_AHEAD);

	return files ? snprintf(buf, (size_t)size, "%llu files read ahead, %.1f MB\n", (unsigned long long)files,
							(double)stats_get(STATS_FILES_AHEAD_BYTES) / 1e6)
				 : 0;
}

const struct policy files_policy = {
	.name = "files",
	.start = start,
	.fork_child = fork_child,
	.stop = stop,
	.summary = summary,
};

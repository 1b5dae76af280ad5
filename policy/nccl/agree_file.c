/* agree_file.c - see agree_file.h. */
#define _GNU_SOURCE
#include "agree_file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include "../sys.h"
#include "log.h"
#include "proc_stat.h"
#include "stats_leftovers.h"

#define PATH_BYTES 160
#define OPEN_FLAGS (O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
/* Somebody else may make the file, or remove the name of one that is stale, between two looks. */
#define TRIES 8
/* That share of /dev/shm stays free: NCCL and data loaders have no other place for their memory. */
#define LEFT_FREE 8
#define SWEEP_ENTRIES 4096
#define SWEEP_FILES 256

/* ---- the memory ---- */

static bool map(struct agree_file *f, int fd, int flags)
{
	f->map = mmap(NULL, f->bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (f->map == MAP_FAILED) {
		f->map = NULL;
		return false;
	}
	/* A child that stored into it would speak for its parent. */
	if (madvise(f->map, f->bytes, MADV_DONTFORK) != 0) {
		munmap(f->map, f->bytes);
		f->map = NULL;
		return false;
	}
	f->area = (struct agree_area *)(void *)((char *)f->map + sizeof(struct agree_file_head));
	return true;
}

static void unmap(struct agree_file *f)
{
	if (f->map)
		munmap(f->map, f->bytes);
	f->map = NULL;
	f->area = NULL;
}

/* Growing a file beyond the limit would raise SIGXFSZ; one that finds no room when it is stored to, SIGBUS. */
static const char *reserve(int fd, size_t bytes)
{
	struct rlimit limit;
	struct statvfs v;
	int error = EINTR;

	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes)
		return "files may not be that large (ulimit -f)";
	/* Without a limit there are no blocks to count. */
	if (fstatvfs(fd, &v) == 0 && v.f_blocks &&
		(uint64_t)v.f_bavail * v.f_frsize < (uint64_t)v.f_blocks * v.f_frsize / LEFT_FREE + bytes)
		return "it is full";
	for (int tries = 0; error == EINTR && tries < 8; tries++)
		error = posix_fallocate(fd, 0, (off_t)bytes);
	return error ? "it is full" : NULL;
}

/* ---- names ---- */

static void path_of(char *to, const char *name)
{
	snprintf(to, PATH_BYTES, AGREE_FILE_DIR "/%s", name);
}

/* Another file by that name is somebody else's. In between it may have been replaced: then two have lost each other, which
 * is safe. */
static void remove_name(const char *name, dev_t dev, ino_t ino)
{
	char path[PATH_BYTES];
	struct stat st;

	path_of(path, name);
	if (lstat(path, &st) == 0 && st.st_dev == dev && st.st_ino == ino)
		unlink(path);
}

/* ---- making ---- */

/* A file that nobody can mistake for a finished one, and nobody else has; -1: none. */
static int create(char *path, const struct agree_file *f)
{
	static _Atomic unsigned number;
	int fd = -1;

	for (int tries = 0; fd < 0 && tries < TRIES; tries++) {
		snprintf(path, PATH_BYTES, AGREE_FILE_DIR "/%.*s-%d-%u" AGREE_FILE_SUFFIX,
				 (int)(strlen(f->name) - strlen(AGREE_FILE_SUFFIX)), f->name, (int)getpid(),
				 atomic_fetch_add_explicit(&number, 1, memory_order_relaxed));
		fd = sys_openat(AT_FDCWD, path, OPEN_FLAGS | O_CREAT | O_EXCL, 0600);
		if (fd < 0 && errno != EEXIST)
			break;
	}
	return fd;
}

/* Its magic last: a process may be killed in between, and a head with a magic is believed. */
static void sign(struct agree_file_head *h, const uint64_t key[2], unsigned ranks)
{
	h->key[0] = key[0];
	h->key[1] = key[1];
	h->start_ticks = stats_start_ticks(getpid());
	h->pid_ns = stats_pid_namespace();
	h->pid = (uint32_t)getpid();
	h->ranks = ranks;
	atomic_thread_fence(memory_order_release);
	memcpy(h->magic, AGREE_FILE_MAGIC, sizeof(h->magic));
}

static const char *fill(struct agree_file *f, int fd, const uint64_t key[2])
{
	struct stat st;
	const char *why = reserve(fd, f->bytes);

	if (why)
		return why;
	if (fstat(fd, &st) != 0 || !map(f, fd, MAP_SHARED))
		return "no memory";
	f->dev = st.st_dev;
	f->ino = st.st_ino;
	sign(f->map, key, f->ranks);
	return NULL;
}

/* NULL: f is open, or, when f->area is NULL, another rank was faster. */
static const char *make(struct agree_file *f, const uint64_t key[2])
{
	char unnamed[PATH_BYTES], path[PATH_BYTES];
	int fd = create(unnamed, f);
	const char *why;

	if (fd < 0)
		return "no file can be made";
	why = fill(f, fd, key);
	sys_close(fd);
	path_of(path, f->name);
	/* Whole when it gets its name, and never in place of another one. */
	f->named = !why && link(unnamed, path) == 0;
	if (!why && !f->named && errno != EEXIST)
		why = "no file can be named";
	unlink(unnamed);
	if (!f->named)
		unmap(f);
	return why;
}

/* ---- joining ---- */

static const char *wrong_with(const struct agree_file *f, const struct stat *st)
{
	if (!S_ISREG(st->st_mode) || st->st_uid != geteuid() || (st->st_mode & 07777) != 0600)
		return "what is there is not ours";
	return st->st_size == (off_t)f->bytes ? NULL : "what is there has another size";
}

/* Left by ranks of a job that had the same key (NCCL_COMM_ID makes that possible). Their places are taken, and nobody is
 * there: ours are not to be counted with them. */
static bool is_stale(const struct agree_file_head *h)
{
	enum proc_life life = proc_life(h->pid, h->start_ticks);

	return life == PROC_ENDED || life == PROC_OTHER;
}

static const char *look_at(struct agree_file *f, const uint64_t key[2], bool *stale)
{
	const struct agree_file_head *h = f->map;

	if (memcmp(h->magic, AGREE_FILE_MAGIC, sizeof(h->magic)) != 0 || h->key[0] != key[0] ||
		h->key[1] != key[1] || h->ranks != f->ranks)
		return "what is there is not ours";
	/* Whether it is stale cannot be known. */
	if (h->pid_ns != stats_pid_namespace())
		return "its ranks are in several PID namespaces";
	*stale = is_stale(h);
	return NULL;
}

/* NULL: f is open, or, when f->area is NULL, there is no file, or no longer. */
static const char *join(struct agree_file *f, const uint64_t key[2])
{
	char path[PATH_BYTES];
	struct stat st = {.st_size = 0};
	const char *why;
	bool stale = false;
	int fd;

	path_of(path, f->name);
	fd = sys_openat(AT_FDCWD, path, OPEN_FLAGS, 0);
	if (fd < 0)
		return errno == ENOENT ? NULL : "what is there is not ours";
	why = fstat(fd, &st) != 0 ? "what is there is not ours" : wrong_with(f, &st);
	if (!why && !map(f, fd, MAP_SHARED))
		why = "no memory";
	sys_close(fd);
	if (!why)
		why = look_at(f, key, &stale);
	if (why || stale)
		unmap(f);
	if (stale)
		remove_name(f->name, st.st_dev, st.st_ino);
	f->named = f->area != NULL;
	f->dev = st.st_dev;
	f->ino = st.st_ino;
	return why;
}

/* ---- for the communicator ---- */

static const char *open_shared(struct agree_file *f, const uint64_t key[2])
{
	static _Atomic bool swept;
	const char *why = NULL;

	if (!atomic_exchange_explicit(&swept, true, memory_order_relaxed))
		agree_file_sweep(AGREE_FILE_DIR);
	snprintf(f->name, sizeof(f->name), AGREE_FILE_FORMAT AGREE_FILE_SUFFIX, (unsigned)geteuid(),
			 (unsigned long long)key[0], (unsigned long long)key[1]);
	for (int tries = 0; !why && !f->area && tries < TRIES; tries++) {
		why = join(f, key);
		if (!why && !f->area)
			why = make(f, key);
	}
	return why || f->area ? why : "it comes and goes";
}

bool agree_file_open(struct agree_file *f, const uint64_t key[2], unsigned rank, unsigned ranks)
{
	int saved = errno;
	const char *why = "no such rank";

	*f = (struct agree_file){.ranks = ranks};
	f->bytes = sizeof(struct agree_file_head) + agree_bytes(ranks);
	if (ranks > AGREE_RANKS)
		why = "too many ranks";
	else if (rank < ranks && ranks == 1)
		why = map(f, -1, MAP_PRIVATE | MAP_ANONYMOUS) ? NULL : "no memory";
	else if (rank < ranks)
		why = open_shared(f, key);
	if (why)
		log_once(LOG_WARN,
				 "all-gathers are not coalesced: no memory that ranks share in " AGREE_FILE_DIR ": %s", why);
	errno = saved;
	return f->area != NULL;
}

void agree_file_ready(struct agree_file *f)
{
	int saved = errno;

	if (f->named)
		remove_name(f->name, f->dev, f->ino);
	f->named = false;
	errno = saved;
}

void agree_file_close(struct agree_file *f)
{
	agree_file_ready(f);
	unmap(f);
}

/* ---- leftovers ---- */

/* A name of ours, whole: %n tells where the match ended. */
static bool is_our_name(const char *name)
{
	char key[33];
	unsigned uid, number;
	int pid, key_end = 0, end = 0;

	if (sscanf(name, "turbo-%u-%32[0-9a-f]%n-%d-%u%n", &uid, key, &key_end, &pid, &number, &end) < 2)
		return false;
	end = end ? end : key_end;
	return uid == geteuid() && strlen(key) == 32 && strcmp(name + end, AGREE_FILE_SUFFIX) == 0;
}

static bool is_leftover(const char *path)
{
	struct agree_file_head h = {.pid = 0};
	int fd = sys_openat(AT_FDCWD, path, (OPEN_FLAGS & ~O_ACCMODE) | O_RDONLY, 0);
	struct stat st;
	time_t age;
	bool ours;

	if (fd < 0)
		return false;
	ours = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
		   sys_pread(fd, &h, sizeof(h), 0) >= 0;
	sys_close(fd);
	/* Stores into a mapping leave the time alone: it is that of the making. */
	age = time(NULL) - st.st_mtime;
	if (!ours || age < AGREE_FILE_KEPT_S)
		return false;
	if (age > AGREE_FILE_FORGOTTEN_S || memcmp(h.magic, AGREE_FILE_MAGIC, sizeof(h.magic)) != 0)
		return true;
	return h.pid_ns == stats_pid_namespace() && is_stale(&h);
}

void agree_file_sweep(const char *dir)
{
	int saved = errno;
	DIR *d = opendir(dir);
	struct dirent *entry;
	unsigned files = 0;

	for (unsigned i = 0; d && i < SWEEP_ENTRIES && files < SWEEP_FILES && (entry = readdir(d)); i++) {
		char path[512];
		if (!is_our_name(entry->d_name))
			continue;
		files++;
		if (snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name) < (int)sizeof(path) &&
			is_leftover(path))
			unlink(path);
	}
	if (d)
		closedir(d);
	errno = saved;
}

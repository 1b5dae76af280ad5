/*
 * stats_file.c - the counters as a file that `turbo stats` reads.
 *
 * The file is made whole first (names, space, header) and then mapped over the
 * counters; its magic is stored last, so a reader never takes a half-made one.
 * No descriptor is kept. Any failure leaves the counters private, with one line at
 * info.
 */
#include "stats_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "stats_leftovers.h"

/* Path and owner of the published file. Written by stats_publish() (once, by the thread whose
 * cuInit came first) and by the fork handler; read by the exit path. `owner` is 0 while there
 * is no file and is stored last, with release order. */
static char published_path[256];
static pid_t owner;

/* ---- names ---- */

struct names {
	int fd;
	off_t at; /* file offset of the next flush */
	size_t used;
	bool failed;
	char buf[4096];
};

static void names_flush(struct names *n)
{
	if (n->used && pwrite(n->fd, n->buf, n->used, n->at) != (ssize_t)n->used)
		n->failed = true;
	n->at += (off_t)n->used;
	n->used = 0;
}

static void names_row(struct names *n, const char *name, const char *unit, const char *text)
{
	int len;

	if (sizeof(n->buf) - n->used < 512)
		names_flush(n);
	len = snprintf(n->buf + n->used, 512, "%.128s\t%.32s\t%.256s\n", name, unit, text);
	n->used += (size_t)len;
}

/* Writes the table behind the lanes; returns its length, 0 on failure. */
static uint64_t write_names(int fd)
{
	static const char *const callee[HOOK_LIB_COUNT] = {
		[HOOK_LIB_CUDA] = "calls into libcuda",
		[HOOK_LIB_NCCL] = "calls into libnccl",
		[HOOK_LIB_CUPTI] = "calls into libcupti",
	};
	struct names n = {.fd = fd, .at = sizeof(struct stats_area)};

	for (int i = 0; i < (int)HOOK_COUNT; i++)
		names_row(&n, hook_table[i].name, "calls", callee[hook_table[i].lib]);
#define COUNTER(id, name, unit, text) names_row(&n, name, unit, text);
#include "counters.def"
#undef COUNTER
	names_flush(&n);
	return n.failed ? 0 : (uint64_t)n.at - sizeof(struct stats_area);
}

/* ---- header ---- */

void stats_read_command(char *out, size_t size)
{
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return;
	n = read(fd, out, size - 1);
	close(fd);
	if (n <= 0)
		return;
	while (n > 0 && out[n - 1] == '\0')
		n--;
	for (ssize_t i = 0; i < n; i++)
		if ((unsigned char)out[i] < 0x20 || out[i] == 0x7f)
			out[i] = out[i] == '\0' ? ' ' : '?';
}

static void fill_header(struct stats_header *h, uint64_t names_bytes)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	h->version = STATS_VERSION;
	h->pid = (uint32_t)getpid();
	h->start_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	h->start_ticks = stats_start_ticks(getpid());
	h->pid_ns = stats_pid_namespace();
	h->lanes = STATS_LANES;
	h->cells = STATS_CELLS;
	h->calls = HOOK_COUNT;
	h->lane_bytes = STATS_LANE_BYTES;
	h->lanes_off = STATS_HEADER_BYTES;
	h->names_off = sizeof(struct stats_area);
	h->names_bytes = names_bytes;
	h->engaged = 1;
	snprintf(h->version_text, sizeof(h->version_text), "%s", TURBO_VERSION);
	stats_read_command(h->command, sizeof(h->command));
}

/* ---- publication ---- */

/* Reserves every page: a full /dev/shm must fail here, not with SIGBUS at a count. */
static bool reserve(int fd, uint64_t bytes)
{
	struct rlimit limit;

	/* Growing a file beyond the limit would raise SIGXFSZ. */
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
		limit.rlim_cur < bytes + 65536) {
		errno = EFBIG;
		return false;
	}
	for (int tries = 0; tries < 8; tries++) {
		int rc = posix_fallocate(fd, 0, (off_t)bytes);
		if (rc != EINTR) {
			errno = rc;
			return rc == 0;
		}
	}
	errno = EINTR;
	return false;
}

/*
 * Copies the counts so far and maps the file over the area. A thread that counts between
 * the two loses that count; publication happens in the first cuInit, before there is
 * anything to lose.
 */
static bool map_over(int fd, uint64_t names_bytes)
{
	size_t size = sizeof(struct stats_area);
	struct stats_area *copy = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	bool ok;

	if (copy == MAP_FAILED)
		return false;
	fill_header(&copy->header, names_bytes);
	for (unsigned lane = 0; lane < STATS_LANES; lane++)
		for (unsigned cell = 0; cell < STATS_CELLS; cell++) {
			uint64_t n = __atomic_load_n(stats_cell(&stats_area, lane, cell), __ATOMIC_RELAXED);
			if (n)
				*stats_cell(copy, lane, cell) = n;
		}
	ok = mmap(&stats_area, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED;
	if (ok) {
		uint64_t magic;
		memcpy(&magic, STATS_MAGIC, sizeof(magic));
		/* Release: a reader that sees the magic sees the header and the names. */
		__atomic_store_n((uint64_t *)(void *)stats_area.header.magic, magic, __ATOMIC_RELEASE);
	}
	munmap(copy, size);
	return ok;
}

static int create_file(const char *path)
{
	int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd = open(path, flags, 0600);

	/* An earlier process with our number may have left its file. */
	if (fd < 0 && errno == EEXIST && stats_remove_if_dead(path, getpid()))
		fd = open(path, flags, 0600);
	return fd;
}

static bool publish_in(const char *dir)
{
	char path[sizeof(published_path)];
	int len = snprintf(path, sizeof(path), "%s/" STATS_FILE_FORMAT, dir, (unsigned)geteuid(), (int)getpid());
	uint64_t names_bytes;
	int fd, error;
	bool ok;

	if (dir[0] != '/' || len < 0 || (size_t)len >= sizeof(path)) {
		errno = ENAMETOOLONG;
		return false;
	}
	fd = create_file(path);
	if (fd < 0)
		return false;
	ok = reserve(fd, sizeof(struct stats_area)) && (names_bytes = write_names(fd)) != 0 &&
		 map_over(fd, names_bytes);
	error = errno;
	close(fd);
	if (!ok) {
		unlink(path);
		errno = error;
		return false;
	}
	memcpy(published_path, path, (size_t)len + 1);
	__atomic_store_n(&owner, getpid(), __ATOMIC_RELEASE);
	stats_sweep(dir);
	return true;
}

void stats_publish(void)
{
	const char *dirs[] = {"/dev/shm", getenv("TMPDIR"), "/tmp"};
	int saved = errno, error = 0;

	if (__atomic_load_n(&owner, __ATOMIC_ACQUIRE) == getpid())
		return;
	/* Old loaders ignore a segment's alignment beyond the page size they were built for. */
	if ((uintptr_t)&stats_area % (uintptr_t)sysconf(_SC_PAGESIZE) != 0) {
		log_info("counters stay private: their memory is not page-aligned");
		return;
	}
	for (unsigned i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		if (!dirs[i])
			continue;
		if (publish_in(dirs[i])) {
			errno = saved;
			return;
		}
		error = errno;
	}
	errno = error;
	log_info("counters stay private: no file in /dev/shm, TMPDIR or /tmp: %m");
	errno = saved;
}

void stats_unpublish(void)
{
	/* A child of clone() may run our destructor: the file is not its own. */
	if (__atomic_load_n(&owner, __ATOMIC_ACQUIRE) != getpid())
		return;
	unlink(published_path);
	__atomic_store_n(&owner, 0, __ATOMIC_RELAXED);
}

bool stats_file_forget(void)
{
	return __atomic_exchange_n(&owner, 0, __ATOMIC_RELAXED) != 0;
}

/* readers.c - see readers.h. */
#define _GNU_SOURCE
#include "readers.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "budget.h"
#include "guard.h"
#include "list.h"
#include "seen.h"
#include "stats.h"
#include "thread.h"

#define REQUESTS 16u
#define THREADS 2u
#define LOOK_EVERY 64u                 /* files between two looks at the memory */
#define FILE_MOST (UINT64_C(64) << 20) /* of larger ones the beginning */
#define AHEAD 512u                     /* files, where not all fit memory */
#define IDLE_MS 5000u                  /* the program does not come on */

struct request {
	_Atomic int state; /* FREE, BEING_WRITTEN, ASKED: release when ASKED, acquire */
	bool tree, in_order;
	const struct seen_folder *seen;
	char root[1024], like[256];
};
enum { FREE, BEING_WRITTEN, ASKED };

static struct request requests[REQUESTS];
static _Atomic uint32_t asked; /* futex: goes up with each request */
static _Atomic int running;    /* a first reader has been started */
static _Atomic bool stopped;
static bool network_too; /* constant after readers_start() */

/* What the readers are at: one folder at a time. */
static struct {
	struct list list;
	const struct request *request;
	_Atomic size_t next; /* relaxed: who takes which file does not matter */
	size_t end;
	_Atomic size_t reached; /* of a program that comes through in order */
	_Atomic uint64_t bytes;
	_Atomic bool enough;
	_Atomic unsigned helpers; /* release when one has gone */
	bool windowed;
} job;

/* ---- asking ---- */

static void *first_reader(void *arg);

bool readers_ask(const char *root, bool tree, bool in_order, const char *like, const struct seen_folder *seen)
{
	int none = 0;

	for (unsigned i = 0; i < REQUESTS && !atomic_load(&stopped); i++) {
		struct request *r = &requests[i];
		int expected = FREE;
		if (!atomic_compare_exchange_strong(&r->state, &expected, BEING_WRITTEN))
			continue;
		snprintf(r->root, sizeof(r->root), "%s", root);
		snprintf(r->like, sizeof(r->like), "%s", like);
		r->tree = tree;
		r->in_order = in_order;
		r->seen = seen;
		atomic_store_explicit(&r->state, ASKED, memory_order_release);
		atomic_fetch_add(&asked, 1);
		syscall(SYS_futex, &asked, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
		if (atomic_compare_exchange_strong(&running, &none, 1) &&
			!thread_start("turbo-files", first_reader, NULL))
			atomic_store(&running, 0);
		return true;
	}
	return false;
}

/* ---- a table of descriptors of one's own ---- */

static bool own_descriptors(void)
{
	if (syscall(SYS_unshare, CLONE_FILES) != 0)
		return false;
	/* Linux 5.9. Before, one by one: as many as there may be. */
	if (syscall(436 /* close_range */, 0u, ~0u, 0u) != 0)
		for (int fd = 0, most = (int)sysconf(_SC_OPEN_MAX); fd < most; fd++)
			close(fd);
	return true;
}

/* ---- one file ---- */

static int open_quietly(const char *path)
{
	/* A fifo does not block, a lease is not waited for, the time of access stays where that may be asked for. */
	int flags = O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY;
	int fd = open(path, flags | O_NOATIME);

	return fd >= 0 ? fd : open(path, flags);
}

static void read_file(size_t i)
{
	char path[4096];
	struct stat st;

	if (!list_path(&job.list, i, path, sizeof(path)))
		return;
	int fd = open_quietly(path);
	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
		uint64_t size = (uint64_t)st.st_size < FILE_MOST ? (uint64_t)st.st_size : FILE_MOST;
		readahead(fd, 0, size);
		atomic_fetch_add_explicit(&job.bytes, size, memory_order_relaxed);
		stats_add(STATS_FILES_AHEAD, 1);
		stats_add(STATS_FILES_AHEAD_BYTES, size);
	}
	close(fd);
}

/* ---- all files of a folder ---- */

static void nap(long ms)
{
	const struct timespec t = {0, ms * 1000000};

	nanosleep(&t, NULL);
}

/* Where the program is: the file that it opened last, looked for from where it was. */
static void follow(void)
{
	size_t from = atomic_load_explicit(&job.reached, memory_order_relaxed);
	uint64_t hash = atomic_load_explicit(&job.request->seen->hash, memory_order_relaxed);

	for (size_t i = from; i < job.end && i < from + 4 * AHEAD; i++)
		if (job.list.file[i].hash == hash) {
			atomic_store_explicit(&job.reached, i, memory_order_relaxed);
			return;
		}
}

/* Waits until file `i` is at most AHEAD before the program; false: it does not come on. */
static bool in_window(size_t i)
{
	size_t reached = atomic_load_explicit(&job.reached, memory_order_relaxed), seen = reached;

	for (unsigned ms = 0; i > reached + AHEAD; ms++) {
		if (ms >= IDLE_MS || atomic_load(&stopped))
			return false;
		nap(1);
		follow();
		reached = atomic_load_explicit(&job.reached, memory_order_relaxed);
		if (reached != seen) {
			seen = reached;
			ms = 0;
		}
	}
	return true;
}

static void read_all(void)
{
	for (;;) {
		size_t i = atomic_fetch_add_explicit(&job.next, 1, memory_order_relaxed);
		if (i >= job.end || atomic_load_explicit(&job.enough, memory_order_relaxed) || atomic_load(&stopped))
			return;
		if (job.windowed && !in_window(i))
			return;
		if (i % LOOK_EVERY == 0 && budget_pressed()) {
			stats_add(STATS_FILES_PRESSED, 1);
			atomic_store_explicit(&job.enough, true, memory_order_relaxed);
			return;
		}
		read_file(i);
	}
}

static void *helper(void *arg)
{
	(void)arg;
	guard_enter();
	if (own_descriptors())
		read_all();
	atomic_fetch_sub_explicit(&job.helpers, 1, memory_order_release);
	return NULL;
}

/* Bytes in all, by a sample of the files. */
static uint64_t estimate(void)
{
	size_t step = job.list.files / 64 + 1, looked = 0;
	uint64_t bytes = 0;
	char path[4096];
	struct stat st;

	for (size_t i = 0; i < job.list.files; i += step)
		if (list_path(&job.list, i, path, sizeof(path)) && lstat(path, &st) == 0) {
			bytes += (uint64_t)st.st_size;
			looked++;
		}
	return looked ? bytes / looked * job.list.files : 0;
}

static bool is_network(const char *root)
{
	static const unsigned kinds[] = {0x6969 /* NFS */,
									 0x517b /* SMB */,
									 0xfe534d42 /* SMB2 */,
									 0xff534d42 /* CIFS */,
									 0x65735546 /* FUSE */,
									 0x00c36400 /* Ceph */,
									 0x0bd00bd0 /* Lustre */,
									 0x47504653 /* GPFS */,
									 0x01021997 /* 9p */,
									 0x19830326 /* BeeGFS */,
									 0x5346414f /* AFS */};
	struct statfs fs;

	if (statfs(root, &fs) != 0)
		return true;
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if ((unsigned)fs.f_type == kinds[i])
			return true;
	return false;
}

/*
 * One process of the machine reads a folder, for all: who has bound its name among the abstract sockets, which goes with
 * the process however that ends, and is nowhere in the file system. In a reader's own table of descriptors it stays open.
 */
static bool first_here(const struct request *r)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "turbo-%u-ahead-%016llx",
						  (unsigned)geteuid(), (unsigned long long)seen_hash(r->root, strlen(r->root)));
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return true; /* each for itself */
	if (bind(fd, (struct sockaddr *)&name,
			 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) == 0)
		return true;
	close(fd);
	return false;
}

static void serve(struct request *r)
{
	if ((!network_too && is_network(r->root)) || !first_here(r) ||
		!list_read(&job.list, r->root, r->tree, r->like))
		return;
	uint64_t room = budget_bytes(), needed = estimate();
	job.windowed = needed > room;
	if (room && needed && (!job.windowed || r->in_order)) {
		job.request = r;
		job.end = job.list.files;
		r->in_order ? list_by_name(&job.list) : list_by_inode(&job.list);
		atomic_store(&job.reached, 0);
		if (r->in_order)
			follow();
		atomic_store(&job.next, atomic_load(&job.reached));
		atomic_store(&job.enough, false);
		stats_add(STATS_FILES_FOLDERS, 1);
		for (unsigned i = 1; i < THREADS; i++) {
			atomic_fetch_add(&job.helpers, 1);
			if (!thread_start("turbo-files", helper, NULL))
				atomic_fetch_sub(&job.helpers, 1);
		}
		read_all();
		while (atomic_load_explicit(&job.helpers, memory_order_acquire))
			nap(1);
	}
	list_free(&job.list);
}

static void *first_reader(void *arg)
{
	(void)arg;
	guard_enter();
	if (!own_descriptors())
		return NULL; /* `running` stays: nothing is read in this process */
	while (!atomic_load(&stopped)) {
		uint32_t seen = atomic_load(&asked);
		for (unsigned i = 0; i < REQUESTS; i++)
			if (atomic_load_explicit(&requests[i].state, memory_order_acquire) == ASKED) {
				serve(&requests[i]);
				atomic_store(&requests[i].state, FREE);
			}
		syscall(SYS_futex, &asked, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
	}
	return NULL;
}

/* ---- life ---- */

void readers_start(bool network)
{
	network_too = network;
}

void readers_stop(void)
{
	atomic_store(&stopped, true);
}

void readers_fork_child(void)
{
	memset(requests, 0, sizeof(requests));
	memset(&job, 0, sizeof(job));
	atomic_store(&running, 0);
}

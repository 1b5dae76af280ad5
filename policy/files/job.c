/* job.c - see job.h. */
#include "job.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "guard.h"
#include "job_impl.h"
#include "log.h"
#include "../memory.h"
#include "node.h"
#include "quiet.h"
#include "read.h"
#include "stats.h"
#include "../sys.h"
#include "thread.h"

#define WARM_FILES 16u
#define WARM_LEAST 8u                 /* of so many files that are looked at */
#define IOPRIO_LOWEST ((2 << 13) | 7) /* best effort, behind everybody else's */

static struct job job;
static _Atomic bool busy; /* release by the job's thread when it ends, acquire by the helper */
static _Atomic bool stopped;
static struct track_run waiting; /* the helper's, like all below */
static bool is_waiting, waiting_network;
static uint64_t next_look;
static char last[JOB_LAST][256];
static unsigned last_at;

uint64_t job_hash(const char *path)
{
	return track_hash(path, strlen(path), 7);
}

/* ---- the job's thread ---- */

/* The files that the program opened last, whose inodes are in memory: bytes of the largest, and on average. False: none is there. */
static bool look_at_opened(const struct job *j, uint64_t *largest, uint64_t *average)
{
	uint64_t bytes = 0, n = 0;
	struct stat st;

	*largest = 0;
	for (unsigned i = 0; i < JOB_LAST; i++) {
		if (!j->last[i][0] || sys_stat(j->tree.root, j->last[i], &st, 0) != 0 || !S_ISREG(st.st_mode))
			continue;
		n++;
		bytes += (uint64_t)st.st_size;
		if ((uint64_t)st.st_size > *largest)
			*largest = (uint64_t)st.st_size;
	}
	*average = n ? bytes / n : 0;
	return *largest > 0;
}

static bool decide(struct job *j)
{
	struct memory memory;
	uint64_t largest, average;

	if (!look_at_opened(j, &largest, &average) || !memory_look("", &memory) ||
		(j->budget = memory_budget(&memory)) == 0)
		return false;
	j->where = (struct read_where){j->tree.device, j->network, largest * JOB_SIZE_TIMES};
	if (j->where.most < JOB_SIZE_LEAST)
		j->where.most = JOB_SIZE_LEAST;
	if (average * j->tree.files <= j->budget && !j->tree.too_large) {
		tree_sort_inodes(&j->tree);
		return true;
	}
	j->in_order = true;
	return job_find_order(j);
}

static void *reader(void *arg)
{
	(void)arg;
	guard_enter();
	syscall(SYS_ioprio_set, 1, 0, IOPRIO_LOWEST);
	job_read(&job);
	atomic_fetch_sub_explicit(&job.readers, 1, memory_order_release);
	return NULL;
}

static void read_all(struct job *j)
{
	const struct timespec pause = {0, 1000000};

	stats_add(STATS_FILES_FOLDERS, 1);
	log_debug("files: %u files below %s are read ahead%s", j->tree.files, j->run.root,
			  j->in_order ? " in the program's order" : "");
	for (unsigned i = 1; i < JOB_READERS; i++) {
		atomic_fetch_add_explicit(&j->readers, 1, memory_order_relaxed);
		if (!thread_start("turbo-read", reader, NULL))
			atomic_fetch_sub_explicit(&j->readers, 1, memory_order_relaxed);
	}
	job_read(j);
	while (atomic_load_explicit(&j->readers, memory_order_acquire))
		nanosleep(&pause, NULL);
}

/* ---- what is in memory already ---- */

/* Of the tree that was looked at last: how often in a row there was nothing to do, and what the process had had from disks then. */
static struct {
	uint64_t root;
	unsigned times;
	long blocks;
} settled;

static long blocks_read(void)
{
	struct rusage used;

	return getrusage(RUSAGE_SELF, &used) == 0 ? used.ru_inblock : 0;
}

static uint64_t root_of(const struct job *j)
{
	return track_hash(j->run.root, strlen(j->run.root), j->run.depth);
}

/* Looks at every fourth file that the directory lists first, until `seen` are enough. False: one is not in memory. */
static bool is_warm_dir(const struct job *j, const char *path, unsigned *seen, uint64_t *largest)
{
	_Alignas(8) static char names[4096];
	const struct read_where any = {READ_NO_DEVICE, j->network, INT64_MAX};
	struct read_file f;
	bool is = true;
	int dir = sys_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOATIME, 0);
	ssize_t n = dir < 0 ? 0 : sys_getdents(dir, names, sizeof(names));

	for (ssize_t at = 0, skip = 0; is && at < n && *seen < WARM_FILES; skip++) {
		const struct sys_dirent *e = (const void *)(names + at);
		at += e->length;
		if (skip % 4 || e->name[0] == '.' || !track_wants(&j->run, e->name) ||
			!read_open(dir, e->name, &any, &f))
			continue;
		++*seen;
		is = read_is_resident(&f, f.size / 2) == 1;
		*largest = f.size > *largest ? f.size : *largest;
		read_close(&f);
	}
	if (dir >= 0)
		sys_close(dir);
	return is;
}

/* Some files beside those that the program opened last are in memory, every one: so are all, most likely. That they are still
 * there when it was looked at before says little: the program has read them since. What it has had from disks says more. */
static bool is_warm(const struct job *j, uint64_t *largest)
{
	unsigned seen = 0;
	char path[PATH_MAX], before[PATH_MAX] = "";

	if (settled.root == root_of(j) && blocks_read() - settled.blocks > QUIET_BLOCKS)
		return false;
	for (unsigned i = 0; i < JOB_LAST && seen < WARM_FILES; i += JOB_LAST / 4) {
		const char *slash = strrchr(j->last[i], '/');
		if (!j->last[i][0] ||
			(size_t)snprintf(path, sizeof(path), "%s/%.*s", j->run.root,
							 slash ? (int)(slash - j->last[i]) : 0, j->last[i]) >= sizeof(path))
			continue;
		if (strcmp(path, before) == 0)
			continue;
		strcpy(before, path);
		if (!is_warm_dir(j, path, &seen, largest))
			return false;
	}
	return seen >= WARM_LEAST;
}

/* There is nothing more to do: its files need not be told of, for a time that grows. */
static void settle(const struct job *j, uint64_t largest)
{
	uint64_t root = root_of(j);
	uint32_t ms;

	settled.times = settled.root != root ? 0 : settled.times < QUIET_TIMES ? settled.times + 1 : QUIET_TIMES;
	settled.root = root;
	settled.blocks = blocks_read();
	ms = (uint32_t)QUIET_MS << settled.times;
	log_debug("files: %s is left alone for %u s", j->run.root, ms / 1000);
	quiet_set(&j->run, ms, largest > 0 && largest < SHARD_BYTES);
}

/* ---- the job ---- */

/* As much as is to be read. Another process of the machine may be at it. */
static void read_tree(struct job *j)
{
	struct stat st;
	int held;

	if (sys_stat(AT_FDCWD, j->run.root, &st, 0) != 0)
		return;
	held = node_take(track_hash((const char *)&st.st_ino, sizeof(st.st_ino), st.st_dev));
	if (held == NODE_TAKEN)
		return;
	if (tree_read(&j->tree, &j->run, j->network)) {
		if (decide(j))
			read_all(j);
		tree_free(&j->tree);
	}
	node_leave(held);
}

static void *run_job(void *arg)
{
	uint64_t largest = 0;

	(void)arg;
	guard_enter();
	syscall(SYS_ioprio_set, 1, 0, IOPRIO_LOWEST);
	if (!read_leases())
		atomic_store_explicit(&job.unknown, true, memory_order_relaxed);
	else if (!is_warm(&job, &largest))
		read_tree(&job);
	/* A tree that does not fit is begun anew when the program begins anew. */
	if (job.in_order || atomic_load_explicit(&job.unknown, memory_order_relaxed))
		quiet_release(&job.run);
	else
		settle(&job, largest);
	atomic_store_explicit(&busy, false, memory_order_release);
	return NULL;
}

/* ---- the helper's side ---- */

bool job_is_busy(void)
{
	return is_waiting || atomic_load_explicit(&busy, memory_order_acquire);
}

static void start(const struct track_run *run, bool network)
{
	size_t root = strlen(run->root);

	if (!quiet_hold(run)) /* another process is at it */
		return;
	memset(&job, 0, sizeof(job));
	job.run = *run;
	job.network = network;
	for (unsigned i = 0; i < JOB_LAST; i++)
		if (track_covers(run, last[i]))
			memcpy(job.last[i], last[i] + root + 1, strlen(last[i]) - root);
	atomic_store_explicit(&job.opened, JOB_LAST, memory_order_relaxed);
	atomic_store_explicit(&busy, true, memory_order_relaxed);
	if (!thread_start("turbo-tree", run_job, NULL)) {
		quiet_release(run);
		atomic_store_explicit(&busy, false, memory_order_relaxed);
	}
}

void job_ask(const struct track_run *run, bool network)
{
	if (atomic_load_explicit(&stopped, memory_order_relaxed))
		return;
	if (!atomic_load_explicit(&busy, memory_order_acquire)) {
		start(run, network);
		return;
	}
	if (strcmp(run->root, job.run.root) == 0 && run->depth == job.run.depth)
		return;
	waiting = *run;
	waiting_network = network;
	is_waiting = true;
	/* The new one is above the present one, and has its files, too. */
	size_t n = strlen(run->root);
	if (strncmp(job.run.root, run->root, n) == 0 && (job.run.root[n] == '/' || job.run.root[n] == '\0')) {
		atomic_store_explicit(&job.unknown, true, memory_order_relaxed);
		atomic_store_explicit(&job.stop, true, memory_order_relaxed);
	}
}

bool job_opened(const char *path)
{
	size_t n = strlen(path);

	if (n < sizeof(last[0]))
		memcpy(last[last_at++ % JOB_LAST], path, n + 1);
	if (!job.run.root[0] || !track_covers(&job.run, path))
		return false;
	if (atomic_load_explicit(&busy, memory_order_acquire)) {
		atomic_store_explicit(&job.newest, job_hash(path + strlen(job.run.root) + 1), memory_order_relaxed);
		atomic_fetch_add_explicit(&job.opened, 1, memory_order_relaxed);
	}
	return true;
}

void job_tick(uint64_t now)
{
	struct memory memory;
	bool is_busy = atomic_load_explicit(&busy, memory_order_acquire);

	if (!is_busy && is_waiting) {
		is_waiting = false;
		start(&waiting, waiting_network);
	} else if (is_busy && now >= next_look) {
		next_look = now + MEMORY_CHECK_NS;
		quiet_hold(&job.run);
		(void)read_leases(); /* else the last list stays */
		if (memory_look("", &memory) && memory_is_tight(&memory) &&
			!atomic_exchange_explicit(&job.stop, true, memory_order_relaxed))
			stats_add(STATS_FILES_PRESSED, 1);
	}
}

void job_stop(void)
{
	atomic_store_explicit(&stopped, true, memory_order_relaxed);
}

bool job_is_stopped(const struct job *j)
{
	return atomic_load_explicit(&stopped, memory_order_relaxed) ||
		   atomic_load_explicit(&j->stop, memory_order_relaxed);
}

void job_fork_child(void)
{
	/* The tree's memory is not in the child (MADV_DONTFORK), its descriptor neither. */
	memset(&job, 0, sizeof(job));
	atomic_store_explicit(&busy, false, memory_order_relaxed);
	is_waiting = false;
	last_at = 0;
	memset(last, 0, sizeof(last));
}

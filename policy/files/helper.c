/* helper.c - see helper.h. */
#include "helper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fds.h"
#include "guard.h"
#include "job.h"
#include "log.h"
#include "notes.h"
#include "quiet.h"
#include "shard.h"
#include "thread.h"
#include "track.h"
#include "tune.h"
#include "where.h"

/* Data files that are opened before there is a thread for them. */
#define FIRST 8u
#define COVERED_EVERY 16u

enum { NONE, AWAKE, PARKED, NEVER };
static _Atomic uint32_t
	state; /* futex when PARKED; NONE → AWAKE by compare-and-swap: who starts the thread */
static _Atomic uint32_t early; /* notes put while NONE; relaxed */
static _Atomic bool stopped;   /* relaxed */
static bool network_too;       /* constant after the constructor */
static pid_t pid; /* the process that the memory belongs to; another one is here in vfork() or clone() */

/* The helper's. */
static struct track track;
static struct track_run run;
static unsigned covered;   /* files of the newest tree */
static char cwd[PATH_MAX]; /* "": to be asked for */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Where a link of the program's in /proc leads; false: to no path. /proc/self is the process, whatever table of
 * descriptors this thread has. */
static bool follow(const char *link, char *out, size_t size)
{
	ssize_t n = readlink(link, out, size - 1);

	if (n <= 0 || out[0] != '/' || (size_t)n >= size - 1)
		return false;
	out[n] = '\0';
	return true;
}

/* The note's path as an absolute one. */
static bool absolute(const struct note *note, char *path, size_t size)
{
	char link[64], dir[PATH_MAX];
	const char *base = dir, *name = note->path;

	if (name[0] == '/')
		return (size_t)snprintf(path, size, "%s", name) < size;
	while (name[0] == '.' && name[1] == '/')
		name += 2;
	if (note->dir == AT_FDCWD) {
		if (!cwd[0] && !follow("/proc/self/cwd", cwd, sizeof(cwd)))
			return false;
		base = cwd;
	} else {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", (int)note->dir);
		if (!follow(link, dir, sizeof(dir)))
			return false;
	}
	return (size_t)snprintf(path, size, "%s/%s", base[1] ? base : "", name) < size;
}

static unsigned drain(void)
{
	static struct note note;
	static char path[PATH_MAX];
	unsigned n = 0;

	cwd[0] = '\0';
	for (; n < NOTES && notes_take(&note); n++) {
		if (!absolute(&note, path, sizeof(path)))
			continue;
		quiet_relative(note.dir, note.path, path);
		shard_opened(path, note.fd, network_too);
		/* Of a tree that was looked at only some are counted: it may be asked for again. */
		if (job_opened(path) && ++covered % COVERED_EVERY)
			continue;
		if (track_open(&track, path, &run))
			job_ask(&run, network_too);
	}
	return n;
}

static void nap(uint64_t ns)
{
	const struct timespec t = {0, (long)ns};

	nanosleep(&t, NULL);
}

/* Until the next note. One that was put just before state became PARKED is seen here; one after sees PARKED. */
static void park(void)
{
	uint32_t expected = PARKED;

	atomic_store(&state, PARKED);
	atomic_thread_fence(memory_order_seq_cst);
	if (drain() == 0)
		while (atomic_load(&state) == PARKED)
			syscall(SYS_futex, &state, FUTEX_WAIT_PRIVATE, PARKED, NULL, NULL, 0);
	atomic_compare_exchange_strong(&state, &expected, AWAKE);
}

static void *helper(void *arg)
{
	uint64_t last = now_ns();

	(void)arg;
	guard_enter(); /* never leaves */
	if (!fds_own()) {
		log_info("files: nothing is read ahead: the system allows no descriptors of one's own");
		atomic_store(&state, NEVER);
		return NULL;
	}
	while (!atomic_load_explicit(&stopped, memory_order_relaxed)) {
		unsigned n = drain();
		uint64_t now = now_ns();
		uint64_t pause, shard;
		if (n)
			last = now;
		job_tick(now);
		shard_tick(now);
		shard = shard_nap();
		pause = job_is_busy() || now - last < HELPER_SLOW_AFTER_NS ? HELPER_POLL_NS : HELPER_SLOW_NS;
		if (!shard && !job_is_busy() && now - last > HELPER_PARK_AFTER_NS) {
			park();
			last = now_ns();
		} else if (n < NOTES / 2) {
			nap(shard && shard < pause ? shard : pause);
		}
	}
	return NULL;
}

/* A thread is not made in a signal handler, where malloc's lock may be held below us: while one runs, its signal is blocked. */
static bool may_start(void)
{
	sigset_t blocked;

	if (pthread_sigmask(SIG_BLOCK, NULL, &blocked) != 0)
		return false;
	for (int s = 1; s < 32; s++)
		if (sigismember(&blocked, s) == 1)
			return false;
	return true;
}

/* One large file is enough, and some small ones. */
static bool is_time(const char *path, size_t length)
{
	return atomic_fetch_add_explicit(&early, 1, memory_order_relaxed) + 1 >= FIRST ||
		   where_is_shard_extension(where_extension(path, length));
}

void helper_wake(const char *path, size_t length)
{
	uint32_t now, none = NONE, parked = PARKED;
	int saved;

	atomic_thread_fence(
		memory_order_seq_cst); /* the note, before the look at whether anybody is awake: see park() */
	now = atomic_load_explicit(&state, memory_order_relaxed);
	if (__builtin_expect(now == AWAKE || now == NEVER, 1))
		return;
	saved = errno;
	if (now == PARKED) {
		if (atomic_compare_exchange_strong(&state, &parked, AWAKE))
			syscall(SYS_futex, &state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	} else if (is_time(path, length)) {
		if (!may_start() || !quiet_claim(path, length))
			atomic_store_explicit(&early, 0, memory_order_relaxed); /* once more, but not at every open */
		else if (atomic_compare_exchange_strong(&state, &none, AWAKE) &&
				 !thread_start("turbo-files", helper, NULL))
			atomic_store(&state, NEVER);
	}
	errno = saved;
}

void helper_start(bool network)
{
	network_too = network;
	pid = getpid();
}

void helper_stop(void)
{
	atomic_store_explicit(&stopped, true, memory_order_relaxed);
	job_stop();
}

void helper_fork_child(void)
{
	bool had_helper = atomic_load_explicit(&state, memory_order_relaxed) != NONE;

	pid = getpid();
	atomic_store_explicit(&state, NONE, memory_order_relaxed);
	atomic_store_explicit(&early, 0, memory_order_relaxed);
	notes_fork_child();
	if (!had_helper) /* the rest is the helper's alone, and untouched: each page written here costs every fork */
		return;
	/* What the parent's helper was counting may be half written. */
	memset(&track, 0, sizeof(track));
	job_fork_child();
	shard_fork_child();
}

/* job_read.c - see job_impl.h: the readers. */
#include <time.h>

#include "job_impl.h"
#include "read.h"
#include "stats.h"

#define LOOK_EVERY 32u  /* files between two looks whether they are in memory already */
#define STREAK 4u       /* so many in a row that are: those between two looks are left out */
#define WAIT_NS 4000000 /* between two looks whether the program has come nearer */
#define WINDOW 512u     /* files ahead of a program that is followed */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool may_read(struct job *j, uint32_t file)
{
	if (j->in_order) {
		uint32_t reached = atomic_load_explicit(&j->reached, memory_order_relaxed);
		return file <= reached + WINDOW;
	}
	return file < JOB_LEAD_FILES + JOB_LEAD_PER_OPEN * atomic_load_explicit(&j->opened, memory_order_relaxed);
}

/* Until the program has come near enough; false: it does not. */
static bool wait_for_program(struct job *j, uint32_t file)
{
	const struct timespec pause = {0, WAIT_NS};
	uint64_t opened = 0, since = 0;

	while (!may_read(j, file)) {
		uint64_t now = now_ns(), so_far = atomic_load_explicit(&j->opened, memory_order_relaxed);
		if (since == 0 || so_far != opened) {
			opened = so_far;
			since = now;
			if (j->in_order)
				job_follow(j);
		} else if (now - since > JOB_IDLE_NS) {
			atomic_store_explicit(&j->unknown, true, memory_order_relaxed);
			return false;
		}
		if (job_is_stopped(j))
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

/* Where the program has been already, or another process, there is nothing to do: only every LOOK_EVERY-th file is looked at
 * until one is not in memory. */
static bool is_warm(struct job *j, uint32_t file, const struct read_file *f)
{
	if (file % LOOK_EVERY)
		return false;
	if (read_is_resident(f, f->size / 2) != 1) {
		atomic_store_explicit(&j->streak, 0, memory_order_relaxed);
		return false;
	}
	atomic_fetch_add_explicit(&j->streak, 1, memory_order_relaxed);
	return true;
}

void job_read(struct job *j)
{
	uint64_t flight = 0;
	char path[PATH_MAX];

	while (!job_is_stopped(j)) {
		uint32_t i = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed);
		struct read_file f;
		if (i >= j->tree.files || !wait_for_program(j, i))
			return;
		if ((i % LOOK_EVERY && atomic_load_explicit(&j->streak, memory_order_relaxed) >= STREAK) ||
			(j->in_order && i < atomic_load_explicit(&j->reached, memory_order_relaxed)))
			continue;
		if (!tree_path(&j->tree, i, path, sizeof(path)) || !read_open(j->tree.root, path, &j->where, &f))
			continue;
		if (!is_warm(j, i, &f)) {
			read_ahead(&f, 0, f.size);
			flight += f.size;
			stats_add(STATS_FILES_AHEAD, 1);
			stats_add(STATS_FILES_AHEAD_BYTES, f.size);
		}
		/* The disk's queue is not filled: the program's own reads would stand behind it. */
		if (flight >= JOB_FLIGHT) {
			read_wait(&f, f.size - 1);
			flight = 0;
		}
		read_close(&f);
		if (atomic_fetch_add_explicit(&j->bytes, f.size, memory_order_relaxed) + f.size > j->budget &&
			!j->in_order)
			return;
	}
}

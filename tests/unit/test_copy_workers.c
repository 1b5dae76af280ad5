/* test_copy_workers.c - pieces are moved once, by workers that park and wake, and by nobody after the end. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "policy/copy/workers.h"

#define PIECE ((size_t)12345)
#define SLOTS 4u   /* pieces that the ring memory of a copy holds here */
#define JOBS 32    /* as many as workers.c has */
#define LIMIT_S 30 /* a piece that takes so long is lost */

static unsigned repeat = 1; /* TEST_REPEAT: a longer stress */

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void sleep_us(unsigned us)
{
	struct timespec t = {0, (long)us * 1000};
	nanosleep(&t, NULL);
}

static unsigned char byte_at(size_t i, unsigned seed)
{
	return (unsigned char)(i * 2654435761u >> 8) + (unsigned char)seed;
}

/* One copy of `pieces` pieces through a job, as h2d.c and d2h.c drive it. */
struct drive {
	struct copy_job *job;
	bool to_device;
	unsigned pieces;
	unsigned seed;
	bool help;         /* the caller moves pieces too */
	unsigned pause_us; /* between two pieces: lets the workers park */
	uint64_t first;    /* number of its first piece in the job */
	unsigned char *user;
	unsigned char (*slot)[PIECE];
};

static bool wait_moved(struct drive *d, uint64_t c)
{
	double until = now() + LIMIT_S;
	struct copy_cell *cell = &d->job->cell[(d->first + c) % COPY_CELLS];
	while (atomic_load_explicit(&cell->moved, memory_order_acquire) != d->first + c + 1) {
		if (d->help && workers_job_help(d->job))
			continue;
		if (now() > until)
			return false;
		sched_yield();
	}
	return true;
}

/* Before piece c may be claimed: the cell, and for D2H the bytes that arrived in the ring. */
static void plan(struct drive *d, uint64_t c)
{
	struct copy_cell *cell = &d->job->cell[(d->first + c) % COPY_CELLS];
	cell->ring = d->slot[c % SLOTS];
	cell->offset = c * PIECE;
	cell->bytes = PIECE;
	if (!d->to_device)
		for (size_t i = 0; i < PIECE; i++)
			cell->ring[i] = byte_at(c * PIECE + i, d->seed);
}

static bool slot_right(const struct drive *d, uint64_t c)
{
	for (size_t i = 0; i < PIECE; i++)
		if (d->slot[c % SLOTS][i] != byte_at(c * PIECE + i, d->seed))
			return false;
	return true;
}

static bool run(struct drive *d)
{
	struct copy_job *job = d->job;
	job->to_device = d->to_device;
	job->past_caches = d->seed % 2;
	job->host = d->user;
	d->first = workers_job_start(job);
	bool ok = true;
	uint64_t planned = 0;
	for (uint64_t c = 0; ok && c < d->pieces; c++) {
		while (planned < d->pieces && planned < c + SLOTS)
			plan(d, planned++);
		if (d->pause_us)
			sleep_us(d->pause_us);
		workers_job_allow(job, d->first + planned);
		ok = wait_moved(d, c) && (!d->to_device || slot_right(d, c));
	}
	workers_job_end(job);
	return ok;
}

static unsigned char *user_new(size_t bytes)
{
	unsigned char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

/* A whole copy in fresh pages that are unmapped right after the end: a worker that still
 * touched them would crash. */
static bool copy_once(bool to_device, unsigned pieces, unsigned seed, bool help, unsigned pause_us)
{
	size_t bytes = pieces * PIECE;
	struct drive d = {.to_device = to_device,
					  .pieces = pieces,
					  .seed = seed,
					  .help = help,
					  .pause_us = pause_us,
					  .user = user_new(bytes),
					  .slot = malloc(SLOTS * PIECE)};
	double until = now() + LIMIT_S;
	while (!(d.job = workers_job_get()) && now() < until)
		sleep_us(50);
	bool ok = d.job && d.user && d.slot;
	for (size_t i = 0; ok && to_device && i < bytes; i++)
		d.user[i] = byte_at(i, seed);
	ok = ok && run(&d);
	for (size_t i = 0; ok && !to_device && i < bytes; i++)
		ok = d.user[i] == byte_at(i, seed);
	if (d.user)
		munmap(d.user, bytes);
	free(d.slot);
	return ok;
}

static void both_directions(void **state)
{
	(void)state;
	for (unsigned pieces = 1; pieces <= 3 * SLOTS; pieces++) {
		assert_true(copy_once(true, pieces, pieces, false, 0));
		assert_true(copy_once(false, pieces, pieces, false, 0));
		assert_true(copy_once(true, pieces, pieces, true, 0));
		assert_true(copy_once(false, pieces, pieces, true, 0));
	}
}

/* The caller never helps and rings just when the workers are about to park, or have: a
 * wake-up that is lost leaves a piece unmoved for ever. */
static void no_wake_up_is_lost(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 150 * repeat; i++)
		assert_true(copy_once(i % 2, 5, i, false, COPY_SPIN_US - 20 + i % 60));
}

struct caller {
	pthread_t thread;
	unsigned number;
	bool ok;
};

static void *caller_main(void *arg)
{
	struct caller *c = arg;
	c->ok = true;
	for (unsigned i = 0; c->ok && i < 30 * repeat; i++)
		c->ok = copy_once((c->number + i) % 2, 1 + (c->number * 7 + i) % 11, c->number * 1000 + i,
						  (c->number + i / 2) % 2, i % 5 == 0 ? 80 : 0);
	return NULL;
}

static void many_callers(void **state)
{
	(void)state;
	struct caller callers[40]; /* more than there are jobs */
	for (unsigned i = 0; i < 40; i++) {
		callers[i].number = i;
		assert_int_equal(pthread_create(&callers[i].thread, NULL, caller_main, &callers[i]), 0);
	}
	unsigned bad = 0;
	for (unsigned i = 0; i < 40; i++) {
		pthread_join(callers[i].thread, NULL);
		bad += !callers[i].ok;
	}
	assert_int_equal(bad, 0);
}

static void jobs_run_out_and_come_back(void **state)
{
	(void)state;
	struct copy_job *held[JOBS];
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < JOBS; i++) {
			held[i] = workers_job_get();
			assert_non_null(held[i]);
			for (int k = 0; k < i; k++)
				assert_ptr_not_equal(held[i], held[k]);
		}
		assert_null(workers_job_get());
		for (int i = 0; i < JOBS; i++)
			workers_job_end(held[i]);
	}
}

/* Without this, ThreadSanitizer ends the child of a threaded process that starts a thread. With it
 * the child runs, and is not looked at for races. */
const char *__tsan_default_options(void);
__attribute__((visibility("default"))) const char *__tsan_default_options(void)
{
	return "die_after_fork=0";
}

/* No thread survives a fork and no job is held; the child starts its own workers. */
static void a_child_starts_afresh(void **state)
{
	(void)state;
	struct copy_job *held = workers_job_get();
	assert_non_null(held);
	pid_t pid = fork();
	if (pid == 0) {
		workers_fork_child();
		bool ok = copy_once(true, 9, 1, false, 0) && copy_once(false, 9, 2, false, 100);
		for (int i = 0; ok && i < JOBS; i++)
			ok = workers_job_get() != NULL;
		_exit(ok ? 0 : 1);
	}
	int status = -1;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	workers_job_end(held);
	assert_true(copy_once(true, 9, 3, false, 0));
}

/* The caller of a job whose worker is held up (by a page, or by this caller, which has the
 * higher priority and the same core) sleeps most of the time. */
static void *end_main(void *arg)
{
	struct timespec used;
	workers_job_end(arg);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return (void *)(uintptr_t)(used.tv_sec * 1000000 + used.tv_nsec / 1000);
}

static void the_end_waits_asleep(void **state)
{
	(void)state;
	pthread_t t;
	void *used_us = NULL;
	struct copy_job *job = workers_job_get();
	assert_non_null(job);
	workers_job_start(job);
	atomic_fetch_add(&job->visitors, 1);
	assert_int_equal(pthread_create(&t, NULL, end_main, job), 0);
	for (int i = 0; i < 40; i++)
		sleep_us(10000);
	atomic_fetch_sub(&job->visitors, 1);
	pthread_join(t, &used_us);
	assert_in_range((uintptr_t)used_us, 0, 200000);
}

int main(void)
{
	const char *times = getenv("TEST_REPEAT");
	if (times && atoi(times) > 0)
		repeat = (unsigned)atoi(times);
	workers_wanted = 3;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_directions),       cmocka_unit_test(no_wake_up_is_lost),
		cmocka_unit_test(many_callers),          cmocka_unit_test(jobs_run_out_and_come_back),
		cmocka_unit_test(a_child_starts_afresh), cmocka_unit_test(the_end_waits_asleep),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

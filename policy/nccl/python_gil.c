/*
 * python_gil.c - the disposable thread, and the interpreter's own answers.
 *
 * There is one job of a kind at a time, in static memory: a thread that is left behind finds ABANDONED when it wakes,
 * gives the GIL back and ends; until then nobody starts another. At the interpreter's exit it never wakes, or is ended
 * inside PyGILState_Ensure(), where it holds nothing.
 */
#include "python_gil.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "guard.h"
#include "thread.h"

/* Who stores: the caller FREE -> WAITING, and ABANDONED at its deadline unless the work may be done late; the thread
 * WAITING -> RUNNING -> DONE, and FREE when it finds itself abandoned; the caller DONE -> FREE. */
enum { FREE, WAITING, RUNNING, DONE, ABANDONED };
struct python_job python_asking = {0}, python_testing = {.late = true};

static bool move(struct python_job *job, int from, int to)
{
	return __atomic_compare_exchange_n(&job->state, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static void wake(struct python_job *job)
{
	syscall(SYS_futex, &job->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Also when the interpreter ends the thread while it waits for the GIL. */
static void left(void *arg)
{
	struct python_job *job = arg;
	__atomic_store_n(&job->state, FREE, __ATOMIC_RELEASE);
	wake(job);
}

static void *run(void *arg)
{
	struct python_job *job = arg;
	const struct python *p = job->python;
	guard_enter();
	if (!python_alive(p)) {
		left(job);
		return NULL;
	}
	int held;
	pthread_cleanup_push(left, job);
	held = p->api.ensure();
	pthread_cleanup_pop(0);
	bool mine = move(job, WAITING, RUNNING);
	if (mine) {
		bool collecting = p->api.gc_disable && p->api.gc_enable && p->api.gc_disable();
		job->work(p);
		if (collecting)
			p->api.gc_enable();
	}
	p->api.release(held);
	if (mine && move(job, RUNNING, DONE))
		wake(job);
	else
		left(job);
	return NULL;
}

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* True: the work is done. */
static bool wait_for(struct python_job *job, uint64_t until)
{
	for (;;) {
		int seen = __atomic_load_n(&job->state, __ATOMIC_ACQUIRE);
		uint64_t now = now_ns();
		if (seen == DONE)
			return move(job, DONE, FREE);
		if (seen == FREE)
			return false;
		if (now >= until) {
			if (job->late || move(job, seen, ABANDONED))
				return false;
			continue;
		}
		struct timespec rest = {(time_t)((until - now) / 1000000000u), (long)((until - now) % 1000000000u)};
		syscall(SYS_futex, &job->state, FUTEX_WAIT_PRIVATE, seen, &rest, NULL, 0);
	}
}

bool python_with_gil(struct python_job *job, const struct python *p, void (*work)(const struct python *),
					 unsigned ms)
{
	uint64_t until = now_ns() + ms * UINT64_C(1000000);
	if (!python_alive(p) || !move(job, FREE, WAITING))
		return false;
	job->python = p;
	job->work = work;
	job->caller = pthread_self();
	job->caller_tid = (pid_t)syscall(SYS_gettid);
	if (!thread_start("turbo-python", run, job)) {
		move(job, WAITING, FREE);
		return false;
	}
	return wait_for(job, until);
}

bool python_job_free(struct python_job *job)
{
	return move(job, DONE, FREE) || __atomic_load_n(&job->state, __ATOMIC_ACQUIRE) == FREE;
}

/* ---- the tick ---- */

/* NULL: nothing to store into. The pending call is a promise of ours to the interpreter that cannot be taken back. */
static _Atomic uint64_t *_Atomic tick_to;
static bool tick_asked; /* relaxed; it is in the interpreter's queue */

static int tick(void *arg)
{
	_Atomic uint64_t *to = tick_to;
	(void)arg;
	if (to)
		atomic_store_explicit(to, now_ns(), memory_order_relaxed);
	__atomic_store_n(&tick_asked, false, __ATOMIC_RELAXED);
	return 0;
}

void python_tick(const struct python *p, _Atomic uint64_t *to)
{
	tick_to = to;
	if (!python_alive(p) || __atomic_exchange_n(&tick_asked, true, __ATOMIC_RELAXED))
		return;
	if (p->api.add_pending(tick, NULL) != 0)
		__atomic_store_n(&tick_asked, false, __ATOMIC_RELAXED);
}

/* The thread is not in the child; a pending call may be. */
void python_gil_fork_child(void)
{
	tick_to = NULL;
	__atomic_store_n(&python_asking.state, FREE, __ATOMIC_RELAXED);
	__atomic_store_n(&python_testing.state, FREE, __ATOMIC_RELAXED);
}

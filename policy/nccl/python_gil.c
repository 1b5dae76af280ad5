/*
 * python_gil.c - the disposable thread, and the interpreter's own answers.
 *
 * There is one job at a time, in static memory: a thread that is left behind finds ABANDONED when it wakes, gives
 * the GIL back and ends; until then nobody starts another. At the interpreter's exit it never wakes, or is ended
 * inside PyGILState_Ensure(), where it holds nothing.
 */
#include "python_gil.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "guard.h"
#include "log.h"
#include "peek.h"
#include "thread.h"

/* Who stores: the caller FREE -> WAITING, and ABANDONED at its deadline; the thread WAITING -> RUNNING -> DONE, and
 * FREE when it finds itself abandoned; the caller DONE -> FREE. */
enum { FREE, WAITING, RUNNING, DONE, ABANDONED };
static struct {
	int state;
	void (*work)(const struct python *);
	pthread_t caller;
	pid_t caller_tid;
} job;

enum verdict { UNTESTED, AGREES, DIFFERS };
static int verdict; /* release when AGREES */

bool python_readable(const struct python *p)
{
	return p->layout_known && __atomic_load_n(&verdict, __ATOMIC_ACQUIRE) == AGREES;
}

static bool move(int from, int to)
{
	return __atomic_compare_exchange_n(&job.state, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static void wake(void)
{
	syscall(SYS_futex, &job.state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Also when the interpreter ends the thread while it waits for the GIL. */
static void left(void *arg)
{
	(void)arg;
	__atomic_store_n(&job.state, FREE, __ATOMIC_RELEASE);
	wake();
}

static void *run(void *arg)
{
	const struct python *p = arg;
	guard_enter();
	if (!python_alive(p)) {
		left(NULL);
		return NULL;
	}
	int held;
	pthread_cleanup_push(left, NULL);
	held = p->api.ensure();
	pthread_cleanup_pop(0);
	bool mine = move(WAITING, RUNNING);
	if (mine) {
		bool collecting = p->api.gc_disable && p->api.gc_enable && p->api.gc_disable();
		job.work(p);
		if (collecting)
			p->api.gc_enable();
	}
	p->api.release(held);
	if (mine && move(RUNNING, DONE))
		wake();
	else
		left(NULL);
	return NULL;
}

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

bool python_with_gil(const struct python *p, void (*work)(const struct python *), unsigned ms)
{
	uint64_t until = now_ns() + ms * UINT64_C(1000000);
	if (!python_alive(p) || !move(FREE, WAITING))
		return false;
	job.work = work;
	job.caller = pthread_self();
	job.caller_tid = gettid();
	if (!thread_start("turbo-python", run, (void *)p)) {
		move(WAITING, FREE);
		return false;
	}
	for (;;) {
		int seen = __atomic_load_n(&job.state, __ATOMIC_ACQUIRE);
		uint64_t now = now_ns();
		if (seen == DONE)
			return move(DONE, FREE);
		if (seen == FREE)
			return false;
		if (now >= until) {
			if (move(seen, ABANDONED))
				return false;
			continue;
		}
		struct timespec rest = {(time_t)((until - now) / 1000000000u), (long)((until - now) % 1000000000u)};
		syscall(SYS_futex, &job.state, FUTEX_WAIT_PRIVATE, seen, &rest, NULL, 0);
	}
}

bool python_gil_free(void)
{
	return __atomic_load_n(&job.state, __ATOMIC_ACQUIRE) == FREE;
}

pthread_t python_job_caller(void)
{
	return job.caller;
}

pid_t python_job_caller_tid(void)
{
	return job.caller_tid;
}

bool python_tested(void)
{
	return __atomic_load_n(&verdict, __ATOMIC_RELAXED) != UNTESTED;
}

void python_set_tested(bool agrees)
{
	__atomic_store_n(&verdict, agrees ? AGREES : DIFFERS, __ATOMIC_RELEASE);
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
	__atomic_store_n(&job.state, FREE, __ATOMIC_RELAXED);
}

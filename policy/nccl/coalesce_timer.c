/* coalesce_timer.c - see coalesce_timer.h. */
#define _GNU_SOURCE
#include "coalesce_timer.h"

#include <cuda.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "coalesce_held.h"
#include "guard.h"
#include "launches.h"
#include "real.h"
#include "thread.h"

#define NAP_NS 100000u
#define NAPS 3 /* without anything pending; then it sleeps: a loop wakes it once, for a microsecond or two */
#define SHORTEST_NAP_NS 20000u

static struct {
	_Atomic uint32_t started;
	/* Futex word: 1 while it sleeps until it is woken. seq_cst against coalesce_pending: either it sees that something is
	 * pending, or who has queued it sees that it sleeps. */
	_Atomic uint32_t asleep;
	_Atomic uint32_t hurry; /* relaxed: seen a nap later */
	_Atomic uint32_t quiet; /* read with the batch's lock */
} timer;

static void nap(uint64_t ns)
{
	struct timespec t = {0, (long)ns};

	nanosleep(&t, NULL);
}

static void sleep_till_woken(void)
{
	atomic_store(&timer.asleep, 1);
	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_load(&coalesce_pending))
		syscall(SYS_futex, &timer.asleep, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
	atomic_store(&timer.asleep, 0);
}

/* One look; how long until the next. */
static uint64_t look(void)
{
	uint64_t due = held_due(), now = progress_now();
	bool hurry = due && atomic_exchange_explicit(&timer.hurry, 0, memory_order_relaxed);

	if (!due)
		return NAP_NS;
	if (due > now && !hurry)
		return due - now > SHORTEST_NAP_NS ? due - now : SHORTEST_NAP_NS;
	coalesce_due(hurry);
	return SHORTEST_NAP_NS;
}

static void *run(void *arg)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	unsigned idle = 0;

	(void)arg;
	guard_enter(); /* never leaves: whatever this thread calls is ours */
	prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
	if (REAL_HAS(cuThreadExchangeStreamCaptureMode))
		REAL(cuThreadExchangeStreamCaptureMode)(&mode);
	for (;;) {
		idle = atomic_load_explicit(&coalesce_pending, memory_order_relaxed) ? 0 : idle + 1;
		if (idle > NAPS) {
			sleep_till_woken();
			idle = 0;
		}
		nap(look());
	}
	return NULL;
}

bool coalesce_timer_start(void)
{
	uint32_t none = 0;

	if (__builtin_expect(atomic_load_explicit(&timer.started, memory_order_relaxed) == 1, 1))
		return true;
	if (!atomic_compare_exchange_strong(&timer.started, &none, 1))
		return none == 1;
	if (thread_start("turbo-gather", run, NULL))
		return true;
	atomic_store(&timer.started, 2);
	return false;
}

void coalesce_timer_wake(void)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (__builtin_expect(atomic_load_explicit(&timer.asleep, memory_order_relaxed) != 0, 0) &&
		atomic_exchange(&timer.asleep, 0))
		syscall(SYS_futex, &timer.asleep, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void coalesce_timer_hurry(void)
{
	atomic_store_explicit(&timer.hurry, 1, memory_order_relaxed);
	coalesce_timer_wake();
}

void coalesce_timer_quiet(bool on)
{
	if (on)
		atomic_fetch_add(&timer.quiet, 1);
	else
		atomic_fetch_sub(&timer.quiet, 1);
}

bool coalesce_timer_is_quiet(void)
{
	return atomic_load(&timer.quiet) != 0;
}

void coalesce_timer_fork_child(void)
{
	atomic_store_explicit(&timer.started, 2, memory_order_relaxed);
	atomic_store_explicit(&timer.asleep, 0, memory_order_relaxed);
}

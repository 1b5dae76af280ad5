/* pinned_keeper.c - see pinned_keeper.h. */
#define _GNU_SOURCE
#include "pinned_keeper.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "capture.h"
#include "clock.h"
#include "guard.h"
#include "log.h"
#include "pinned.h"
#include "pinned_keep.h"
#include "real.h"
#include "submitted.h"
#include "thread.h"
#include "../memory.h"

#define TICK_NS 500000000ull
#define PATIENCE_NS 20000000ull /* for the records to pass: an idle device needs microseconds */
#define LOOK_TICKS 4            /* between two looks at the host's memory */
#define QUIET_NS 2000000000ull
#define RESET_PATIENCE_NS 1000000ull

static struct {
	_Atomic int started;     /* 0 no, 1 yes or being started */
	_Atomic uint32_t asleep; /* futex word: 1 while nothing is kept and the thread sleeps */
	/* seq_cst against each other: a thread that is `inside` has seen no `quiet`, or the one that makes it quiet sees
	 * it inside. */
	_Atomic unsigned quiet, inside;
	_Atomic bool tight; /* memory is short: nothing more is kept. Relaxed */
} keeper;

static bool stopped(void)
{
	return capture_live() || atomic_load(&keeper.quiet);
}

/* Everything that was submitted to any device has been done. */
static bool idle(uint64_t patience)
{
	struct pinned_fence *fence;
	uint64_t since = clock_ns();
	enum pinned_elsewhere is = pinned_fence_record(-1, &fence);
	while (is == PINNED_AHEAD) {
		if (stopped() || clock_ns() - since >= patience) {
			pinned_fence_drop(fence);
			return false;
		}
		pause_poll(since);
		is = pinned_fence_look(fence);
	}
	return is == PINNED_IDLE;
}

static void release_idle(uint64_t before, uint64_t patience)
{
	uint64_t work = submitted();
	if (stopped() || !REAL_HAS(cuCtxRecordEvent) || !idle(patience))
		return;
	while (!stopped() && submitted() == work &&
		   (pinned_release_one(-1, before, PINNED_OLD) ||
			(pinned_kept() > pinned_keep_most() && pinned_release_one(-1, UINT64_MAX, PINNED_BOUND))))
		;
}

static uint64_t before_now(void)
{
	uint64_t now = clock_ns();
	return now > PINNED_IDLE_NS ? now - PINNED_IDLE_NS : 0;
}

void pinned_keeper_after_wait(void)
{
	uint64_t before = before_now();
	if (pinned_due(before))
		release_idle(before, 0);
}

void pinned_keeper_release_all(void)
{
	release_idle(clock_ns(), RESET_PATIENCE_NS);
}

/* ---- the thread ---- */

static bool enter(void)
{
	atomic_store(&keeper.inside, 1);
	if (!atomic_load(&keeper.quiet))
		return true;
	atomic_store(&keeper.inside, 0);
	return false;
}

void pinned_keeper_quiet(bool on)
{
	if (!on) {
		atomic_fetch_sub(&keeper.quiet, 1);
		return;
	}
	atomic_fetch_add(&keeper.quiet, 1);
	uint64_t since = clock_ns();
	while (atomic_load(&keeper.inside) && clock_ns() - since < QUIET_NS)
		pause_poll(since);
}

static void sleep_until_kept(void)
{
	atomic_store(&keeper.asleep, 1);
	/* Again: who put something in before we said that we sleep has woken nobody. */
	if (!pinned_kept())
		syscall(SYS_futex, &keeper.asleep, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
	atomic_store(&keeper.asleep, 0);
}

bool pinned_keeper_tight(void)
{
	return atomic_load_explicit(&keeper.tight, memory_order_relaxed);
}

static bool memory_short(void)
{
	struct memory memory;
	bool tight = memory_look("", &memory) && memory_is_tight(&memory);
	atomic_store_explicit(&keeper.tight, tight, memory_order_relaxed);
	return tight;
}

static void *keeper_main(void *arg)
{
	(void)arg;
	guard_enter(); /* never leaves: whatever this thread calls is ours */
	for (unsigned n = 0;; n++) {
		struct timespec tick = {0, TICK_NS};
		if (!pinned_kept()) {
			memory_short(); /* or nothing would ever be kept again */
			sleep_until_kept();
		}
		nanosleep(&tick, NULL);
		uint64_t before = n % LOOK_TICKS == 0 && memory_short() ? clock_ns() : before_now();
		if (!pinned_due(before) || !enter())
			continue;
		release_idle(before, PATIENCE_NS);
		atomic_store(&keeper.inside, 0);
	}
	return NULL;
}

void pinned_keeper_wake(void)
{
	int none = 0;
	if (atomic_load_explicit(&keeper.asleep, memory_order_seq_cst) && atomic_exchange(&keeper.asleep, 0))
		syscall(SYS_futex, &keeper.asleep, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	if (atomic_load_explicit(&keeper.started, memory_order_relaxed))
		return;
	if (!atomic_compare_exchange_strong(&keeper.started, &none, 1))
		return;
	if (!REAL_HAS(cuCtxRecordEvent))
		log_info(
			"hostmem: this driver cannot say when a context is idle; pinned memory goes back in cuMemFreeHost");
	else if (!thread_start("turbo-pinned", keeper_main, NULL))
		log_once(LOG_INFO, "hostmem: no thread to give pinned memory back; cuMemFreeHost does");
}

void pinned_keeper_fork_child(void)
{
	atomic_store(&keeper.started, 0);
	atomic_store(&keeper.asleep, 0);
	atomic_store(&keeper.quiet, 0);
	atomic_store(&keeper.inside, 0);
}

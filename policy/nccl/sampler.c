/* sampler.c - see sampler.h. */
#define _GNU_SOURCE
#include "sampler.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "flight.h"
#include "guard.h"
#include "launches.h"
#include "queues.h"
#include "real.h"
#include "thread.h"

#define QUIET_NS 1000000000ull
#define QUIET_POLL_NS 100000

static struct {
	_Atomic uint32_t asleep; /* futex word: 1 while it sleeps until it is woken */
	/* seq_cst against each other: a sampler that is `inside` the driver has seen no `quiet`, or
	 * sampler_quiet() sees it inside. */
	_Atomic unsigned quiet, inside;
} sampler;

static bool enter(void)
{
	atomic_store(&sampler.inside, 1);
	if (!atomic_load(&sampler.quiet))
		return true;
	atomic_store(&sampler.inside, 0);
	return false;
}

/* The driver has come back, or was not asked. */
static void leave(void)
{
	atomic_store(&sampler.inside, 0);
}

static void nap(long ns)
{
	struct timespec t = {0, ns};
	nanosleep(&t, NULL);
}

void sampler_quiet(bool on)
{
	if (!on) {
		atomic_fetch_sub(&sampler.quiet, 1);
		return;
	}
	atomic_fetch_add(&sampler.quiet, 1);
	uint64_t since = progress_now();
	while (atomic_load(&sampler.inside) && progress_now() - since < QUIET_NS) {
		if (progress_now() - since < QUIET_POLL_NS)
			sched_yield();
		else
			nap(QUIET_POLL_NS);
	}
}

/* Everything by which it could be waited for is gone with the process. */
void sampler_stop(void)
{
	atomic_fetch_add(&sampler.quiet, 1);
}

static void say_back(void)
{
	struct flight_page *page = flight_page();

	if (page)
		atomic_store_explicit(&page->sampled, progress_now(), memory_order_relaxed);
}

void sampler_tick(void)
{
	if (atomic_load(&sampler.asleep))
		say_back();
}

static bool take_pushed(void)
{
	struct launch *l = launch_pushed(), *next;
	bool any = l != NULL;

	for (; l; l = next) {
		next = l->newer;
		queues_add(l);
	}
	return any;
}

/* seq_cst: who has pushed before we say that we sleep is found by another look, who does it later sees us sleep. */
static bool sleep_until_woken(void)
{
	bool any;

	atomic_store(&sampler.asleep, 1);
	any = take_pushed();
	while (!any && atomic_load(&sampler.asleep))
		syscall(SYS_futex, &sampler.asleep, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
	atomic_store(&sampler.asleep, 0);
	return any;
}

void sampler_wake(void)
{
	if (__builtin_expect(atomic_load(&sampler.asleep), 0) && atomic_exchange(&sampler.asleep, 0))
		syscall(SYS_futex, &sampler.asleep, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void relax(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	/* A driver that has no such modes knows no captures that a query breaks. */
	if (enter())
		REAL(cuThreadExchangeStreamCaptureMode)(&mode);
	leave();
}

static void *sampler_main(void *arg)
{
	static const struct queues_driver driver = {enter, leave};
	unsigned open = 0, idle = 0;

	(void)arg;
	guard_enter(); /* never leaves: whatever this thread calls is ours */
	relax();
	for (;;) {
		if (idle >= SAMPLER_IDLE) {
			sleep_until_woken();
			idle = 0;
		}
		nap((open > SAMPLER_MANY ? SAMPLER_FAST_MS : SAMPLER_TICK_MS) * 1000000L);
		bool any = take_pushed();
		open = queues_look(&driver);
		gpus_bury();
		say_back();
		idle = any || open ? 0 : idle + 1;
	}
	return NULL;
}

bool sampler_start(void)
{
	return thread_start("turbo-nccl-gpu", sampler_main, NULL);
}

void sampler_fork_child(void)
{
	atomic_store(&sampler.asleep, 0);
	atomic_store(&sampler.quiet, 0);
	atomic_store(&sampler.inside, 0);
}

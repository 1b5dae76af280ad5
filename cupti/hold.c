/* hold.c - see hold.h. */
#include "cupti/hold.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Holding is a matter of a buffer's records: some milliseconds. */
#define WAIT_NS 1000000000u
#define NAP_NS 20000

/*
 * The holder's thread number in the low half, 0: nobody; how often it changed hands in the high one, so that
 * a hold that was looked at is not mistaken for a later one. Acquire when taken, release when left: the
 * holder sees what the one before did. A holder that ended without leaving (cancelled in a callback) is found
 * by its thread number, which the kernel no longer knows; what it had stored is visible, for its end is
 * ordered by the kernel.
 */
static _Atomic uint64_t hold;
/* A hold that was waited for in vain: while it lasts nobody waits for it again. Relaxed. */
static _Atomic uint64_t stuck;

static bool thread_gone(uint32_t number)
{
	return syscall(SYS_tgkill, getpid(), number, 0) == -1 && errno == ESRCH;
}

static bool try_take(uint64_t *seen, uint32_t me)
{
	uint64_t next = ((*seen >> 32) + 1) << 32 | me;

	return atomic_compare_exchange_strong_explicit(&hold, seen, next, memory_order_acquire,
												   memory_order_relaxed);
}

static uint64_t monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The holder is at work: naps until it has left, or is gone. */
static bool take_from_other(uint32_t me)
{
	const struct timespec nap = {0, NAP_NS};
	uint64_t since = monotonic_ns(), seen;

	do {
		seen = atomic_load_explicit(&hold, memory_order_relaxed);
		uint32_t other = (uint32_t)seen;
		if ((other == 0 || (other != me && thread_gone(other))) && try_take(&seen, me))
			return true;
		/* A signal handler of the holder, or after a longjmp() out of one: it will not leave meanwhile. */
		if (other == me || (other != 0 && seen == atomic_load_explicit(&stuck, memory_order_relaxed)))
			return false;
		syscall(SYS_nanosleep, &nap, NULL); /* no cancellation point: this may be a callback of CUPTI's */
	} while (monotonic_ns() - since < WAIT_NS);
	atomic_store_explicit(&stuck, seen, memory_order_relaxed);
	return false;
}

bool hold_take(void)
{
	uint32_t me = (uint32_t)syscall(SYS_gettid);
	uint64_t seen = atomic_load_explicit(&hold, memory_order_relaxed);
	int saved = errno;
	bool ok = ((uint32_t)seen == 0 && try_take(&seen, me)) || take_from_other(me);

	errno = saved;
	return ok;
}

void hold_leave(void)
{
	uint64_t held = atomic_load_explicit(&hold, memory_order_relaxed);

	atomic_store_explicit(&hold, held & ~(uint64_t)UINT32_MAX, memory_order_release);
}

void hold_fork_child(void)
{
	atomic_store_explicit(&hold, 0, memory_order_relaxed);
}

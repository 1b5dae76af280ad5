/* timed_lock.c - see timed_lock.h. */
#define _GNU_SOURCE
#include "timed_lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPINS 100 /* some microseconds: most who hold it are done by then */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void relax(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

bool timed_lock_wait(struct timed_lock *lock, uint64_t ns)
{
	uint64_t end = now_ns() + ns, now;
	int saved = errno;
	bool taken = false;

	for (unsigned i = 0; i < SPINS && !taken; i++) {
		relax();
		taken = timed_lock_try(lock);
	}
	while (!taken && (now = now_ns()) < end) {
		/* Who takes it this way leaves it as if others slept: a wake too many, none too few. */
		if (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) == 0)
			taken = true;
		else {
			struct timespec t = {(time_t)((end - now) / 1000000000u), (long)((end - now) % 1000000000u)};
			syscall(SYS_futex, &lock->word, FUTEX_WAIT_PRIVATE, 2, &t, NULL, 0);
		}
	}
	errno = saved;
	return taken;
}

void timed_lock_wake(struct timed_lock *lock)
{
	int saved = errno;

	syscall(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	errno = saved;
}

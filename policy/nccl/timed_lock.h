/*
 * timed_lock.h - a lock that nobody waits for without a bound. A futex word; not recursive, no owner. Taking it is acquire,
 * leaving it release.
 */
#ifndef TURBO_TIMED_LOCK_H
#define TURBO_TIMED_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct timed_lock {
	_Atomic uint32_t word; /* 0: free, 1: taken, 2: taken, and somebody may sleep */
};

static inline bool timed_lock_try(struct timed_lock *lock)
{
	uint32_t free = 0;

	return atomic_compare_exchange_strong_explicit(&lock->word, &free, 1, memory_order_acquire,
												   memory_order_relaxed);
}

/* The slow sides. timed_lock.c. */
bool timed_lock_wait(struct timed_lock *lock, uint64_t ns);
void timed_lock_wake(struct timed_lock *lock);

/* False: not in that time. */
static inline bool timed_lock_take(struct timed_lock *lock, uint64_t ns)
{
	return timed_lock_try(lock) || timed_lock_wait(lock, ns);
}

static inline void timed_lock_leave(struct timed_lock *lock)
{
	if (atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2)
		timed_lock_wake(lock);
}

#endif

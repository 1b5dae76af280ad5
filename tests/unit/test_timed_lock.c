/* test_timed_lock.c - one at a time, nobody sleeps for good, and nobody waits beyond the time. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <cmocka.h>

#include "policy/nccl/timed_lock.h"

#define THREADS 8
#define ROUNDS 4000
#define FOR_EVER 60000000000ull

static struct timed_lock lock;
static unsigned long inside, sum; /* the lock */

static void *take_turns(void *arg)
{
	unsigned long got = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		/* Some give up at once or soon, and must not take it with them. */
		uint64_t patience = i % 3 == 0 ? 0 : i % 3 == 1 ? 20000 : FOR_EVER;
		if (!(i % 7 ? timed_lock_take(&lock, patience) : timed_lock_try(&lock)))
			continue;
		*(int *)arg |= inside++ != 0;
		got++;
		sum++;
		if (i % 64 == 0)
			nanosleep(&(struct timespec){0, 50000}, NULL);
		inside--;
		timed_lock_leave(&lock);
	}
	return (void *)got;
}

static void one_at_a_time_and_none_forgotten(void **state)
{
	pthread_t thread[THREADS];
	int crowded[THREADS] = {0};
	unsigned long got = 0;

	(void)state;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, take_turns, &crowded[i]), 0);
	for (int i = 0; i < THREADS; i++) {
		void *n;
		pthread_join(thread[i], &n);
		got += (unsigned long)n;
		assert_false(crowded[i]);
	}
	assert_int_equal(sum, got);
	assert_true(timed_lock_try(&lock));
	timed_lock_leave(&lock);
}

static void who_waits_has_a_bound(void **state)
{
	(void)state;
	assert_true(timed_lock_try(&lock));
	errno = EXDEV;
	assert_false(timed_lock_take(&lock, 0));
	assert_false(timed_lock_take(&lock, 2000000));
	assert_int_equal(errno, EXDEV);
	timed_lock_leave(&lock);
	assert_true(timed_lock_take(&lock, 0));
	timed_lock_leave(&lock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_at_a_time_and_none_forgotten),
		cmocka_unit_test(who_waits_has_a_bound),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

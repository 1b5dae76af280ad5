/* elfsym_fork.c - see elfsym_fork.h. */
#include "elfsym_fork.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "guard.h"
#include "log.h"

/* A walk takes microseconds and a fork milliseconds. Whoever takes longer is not waited for:
 * the lock may be held by the thread that forks. */
#define WALK_WAIT_MS 100
#define FORK_WAIT_MS 500
/* In steps, so that a process that was stopped meanwhile has not used up its time. */
#define TRY_STEPS 10
#define TRY_STEP_MS 100

/*
 * Threads walking, and threads forking. Sequentially consistent both ways: a walker adds
 * itself and then looks for a fork, a fork announces itself and then looks for walkers, so one
 * of them sees the other.
 */
static int walkers, forking;

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Waits until *value is 0, at most `ms`. Not a cancellation point. */
static void wait_for_zero(const int *value, int ms)
{
	int64_t end = now_ns() + ms * INT64_C(1000000);
	struct timespec nap = {0, 20000};

	while (__atomic_load_n(value, __ATOMIC_SEQ_CST) != 0 && now_ns() < end)
		syscall(SYS_nanosleep, &nap, NULL);
}

static void walk_enter(void)
{
	if (turbo_tls.walks++ > 0)
		return;
	__atomic_fetch_add(&walkers, 1, __ATOMIC_SEQ_CST);
	if (__builtin_expect(__atomic_load_n(&forking, __ATOMIC_SEQ_CST) == 0, 1))
		return;
	__atomic_fetch_sub(&walkers, 1, __ATOMIC_SEQ_CST);
	wait_for_zero(&forking, FORK_WAIT_MS);
	__atomic_fetch_add(&walkers, 1, __ATOMIC_SEQ_CST);
}

static void walk_leave(void)
{
	if (--turbo_tls.walks == 0)
		__atomic_fetch_sub(&walkers, 1, __ATOMIC_SEQ_CST);
}

/* ---- a child's first walk ---- */

/*
 * There is no way to ask for the lock, so a bare thread tries it: made by clone() with nothing
 * of its own (no TLS, no allocation: the thread library is not involved) and all signals
 * blocked. If the lock is stuck it stays where it is until the process ends.
 *
 * FREE: walk. UNPROVEN: set at fork, and when no thread could be made. TRYING: one thread is
 * finding out, others wait for its answer. STUCK: never walk.
 */
enum { FREE, UNPROVEN, TRYING, STUCK };
static int list; /* release when it is FREE or STUCK after a try */

/* The try's stack, never used again once it is stuck, and its number: the kernel stores 0 and
 * wakes the futex when the thread has left its stack for good. */
static unsigned char stack[32768] __attribute__((aligned(16)));
static int tid;

/* ThreadSanitizer must not see that thread: it knows no such kind. */
#define UNSEEN __attribute__((no_sanitize("thread")))
/* glibc's other name of clone(), which is not intercepted. */
extern int __clone(int (*fn)(void *), void *stack_top, int flags, void *arg, ...);

static UNSEEN int stop_at_first(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)info;
	(void)size;
	(void)arg;
	return 1;
}

/* It borrows the thread pointer of its maker, which meanwhile makes no call but raw system
 * calls. */
static UNSEEN int try_lock(void *iterate)
{
	((elfsym_iterate *)iterate)(stop_at_first, NULL);
	return 0;
}

/* FREE when the lock was taken and given back in time. */
static int try_in_time(elfsym_iterate *iterate)
{
	int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
				CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
	struct timespec step = {0, TRY_STEP_MS * 1000000L};
	int running;

	if (__clone(try_lock, stack + sizeof(stack), flags, (void *)iterate, &tid, NULL, &tid) < 0)
		return UNPROVEN;
	for (int i = 0; (running = __atomic_load_n(&tid, __ATOMIC_ACQUIRE)) != 0; i++) {
		if (i == TRY_STEPS)
			return STUCK;
		syscall(SYS_futex, &tid, FUTEX_WAIT, running, &step, NULL, 0);
	}
	return FREE;
}

static int try_list(elfsym_iterate *iterate)
{
	sigset_t all, old;
	int found;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	found = try_in_time(iterate);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	__atomic_store_n(&list, found, __ATOMIC_RELEASE);
	if (found == STUCK)
		log_info("the loader's lock did not survive fork: libraries loaded from now on are not seen");
	return found;
}

/* Another thread is trying, with its signals blocked: never the one that waits here. */
static int await_try(void)
{
	int64_t end = now_ns() + 2 * TRY_STEPS * TRY_STEP_MS * INT64_C(1000000);
	struct timespec nap = {0, 20000};
	int seen;

	while ((seen = __atomic_load_n(&list, __ATOMIC_ACQUIRE)) == TRYING && now_ns() < end)
		syscall(SYS_nanosleep, &nap, NULL);
	return seen;
}

bool elfsym_walkable(void)
{
	return __atomic_load_n(&list, __ATOMIC_ACQUIRE) == FREE;
}

static bool list_is_free(elfsym_iterate *iterate)
{
	int seen = __atomic_load_n(&list, __ATOMIC_ACQUIRE);

	if (__builtin_expect(seen == FREE, 1))
		return true;
	if (seen == UNPROVEN &&
		__atomic_compare_exchange_n(&list, &seen, TRYING, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
		return try_list(iterate) == FREE;
	return (seen == TRYING ? await_try() : seen) == FREE;
}

int elfsym_iterate_safely(elfsym_iterate *iterate, elfsym_phdr_visit *visit, void *arg)
{
	int rc = 0, saved = errno;

	walk_enter();
	if (list_is_free(iterate))
		rc = iterate(visit, arg);
	walk_leave();
	errno = saved;
	return rc;
}

/* ---- fork ---- */

void elfsym_fork_prepare(void)
{
	__atomic_fetch_add(&forking, 1, __ATOMIC_SEQ_CST);
	wait_for_zero(&walkers, WALK_WAIT_MS);
}

void elfsym_fork_parent(void)
{
	__atomic_fetch_sub(&forking, 1, __ATOMIC_SEQ_CST);
}

void elfsym_fork_child(void)
{
	turbo_tls.walks = 0;
	walkers = 0;
	forking = 0;
	/* A child of a child whose lock was stuck inherits it stuck. */
	if (list != STUCK)
		list = UNPROVEN;
}

/* test_stats_lanes.c - no two live threads own a lane, and however many come and go, no count is lost. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "stats.h"

/* Two cells to count in: a symbol's and the last counter's. */
#define CALL ((enum hook_id)(HOOK_COUNT / 2))
#define LAST ((enum stats_counter)(STATS_COUNTER_END - 1))
#define OWN_LANES (STATS_LANES - 1)

/* ThreadSanitizer lets children of threaded programs start threads, if it is asked. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "die_after_fork=0";
}

/* ---- threads that count and stay ---- */

struct counter {
	pthread_t thread;
	pid_t number;
	int64_t lane;
	int adds;
	int error;                  /* errno after counting; 4711 before */
	pthread_barrier_t *counted; /* waited for after counting; NULL: the thread ends at once */
	pthread_barrier_t *leave;
};

static void *count(void *arg)
{
	struct counter *c = arg;

	errno = 4711;
	for (int n = 0; n < c->adds; n++) {
		stats_call(CALL);
		stats_add(LAST, 3);
	}
	c->error = errno;
	c->number = (pid_t)syscall(SYS_gettid);
	c->lane = turbo_tls.lane;
	if (c->counted) {
		pthread_barrier_wait(c->counted);
		pthread_barrier_wait(c->leave);
	}
	return NULL;
}

static bool start(struct counter *c)
{
	pthread_attr_t attr;
	bool ok;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 << 10);
	ok = pthread_create(&c->thread, &attr, count, c) == 0;
	pthread_attr_destroy(&attr);
	return ok;
}

/* A joined thread may still be there for a moment, and its lane taken. */
static void join_until_gone(const struct counter *c)
{
	pthread_join(c->thread, NULL);
	while (syscall(SYS_tgkill, getpid(), c->number, 0) == 0)
		usleep(100);
}

/* How many have a lane of their own; -1: two have the same one, one has no lane or lost errno. */
static int owners(const struct counter *c, int threads, int64_t mine)
{
	bool seen[STATS_LANES] = {false};
	int own = 0;

	for (int i = 0; i <= threads; i++) {
		int64_t lane = i < threads ? c[i].lane : mine;
		int64_t offset = lane - (int64_t)(uintptr_t)stats_area.lanes;
		if (i < threads && c[i].error != 4711)
			return -1;
		if (lane == STATS_LANE_SHARED)
			continue;
		if (offset <= 0 || offset % STATS_LANE_BYTES || offset >= (int64_t)sizeof(stats_area.lanes) ||
			seen[offset / STATS_LANE_BYTES])
			return -1;
		seen[offset / STATS_LANE_BYTES] = true;
		own += i < threads;
	}
	return own;
}

/* Threads that all live until all have counted. Returns how many had a lane of their own, or -1
 * for anything wrong: no assertion, because a forked child runs it too. */
static int count_together(int threads, int adds)
{
	struct counter *c = calloc((size_t)threads, sizeof(*c));
	uint64_t call = stats_cell_sum(CALL), last = stats_get(LAST);
	pthread_barrier_t counted, leave;
	int own;

	stats_call(CALL); /* this thread has a lane, too */
	pthread_barrier_init(&counted, NULL, (unsigned)threads + 1);
	pthread_barrier_init(&leave, NULL, (unsigned)threads + 1);
	for (int i = 0; i < threads; i++) {
		c[i] = (struct counter){.adds = adds, .counted = &counted, .leave = &leave};
		if (!start(&c[i]))
			_exit(99);
	}
	pthread_barrier_wait(&counted);
	own = owners(c, threads, turbo_tls.lane);
	if (stats_cell_sum(CALL) - call != 1 + (uint64_t)threads * (uint64_t)adds ||
		stats_get(LAST) - last != 3 * (uint64_t)threads * (uint64_t)adds)
		own = -1;
	pthread_barrier_wait(&leave);
	for (int i = 0; i < threads; i++)
		join_until_gone(&c[i]);
	pthread_barrier_destroy(&counted);
	pthread_barrier_destroy(&leave);
	free(c);
	return own;
}

/* ---- sums and owners ---- */

static void live_threads_share_no_lane(void **state)
{
	(void)state;
	assert_int_equal(count_together(OWN_LANES - 1, 2000), OWN_LANES - 1);
}

static void three_hundred_live_threads_lose_nothing(void **state)
{
	(void)state;
	assert_int_equal(count_together(300, 2000), OWN_LANES - 1);
}

/* Four at a time: there is always a lane whose owner is gone. */
static void short_lived_threads_lose_nothing(void **state)
{
	uint64_t call = stats_cell_sum(CALL), last = stats_get(LAST);

	(void)state;
	for (int round = 0; round < 50; round++) {
		struct counter c[4];
		for (int i = 0; i < 4; i++) {
			c[i] = (struct counter){.adds = 500};
			assert_true(start(&c[i]));
		}
		for (int i = 0; i < 4; i++) {
			join_until_gone(&c[i]);
			assert_true(c[i].lane > 0);
			assert_int_equal(c[i].error, 4711);
		}
	}
	assert_int_equal(stats_cell_sum(CALL) - call, 200 * 500);
	assert_int_equal(stats_get(LAST) - last, 3 * 200 * 500);
}

static void a_lane_is_taken_over_when_its_owner_is_gone(void **state)
{
	static struct counter first, other[OWN_LANES], late, next;
	pthread_barrier_t all, leave, go;

	(void)state;
	stats_call(CALL);
	pthread_barrier_init(&all, NULL, OWN_LANES);
	pthread_barrier_init(&leave, NULL, OWN_LANES);
	pthread_barrier_init(&go, NULL, 2);
	first = (struct counter){.adds = 1, .counted = &go, .leave = &go};
	assert_true(start(&first));
	pthread_barrier_wait(&go);
	/* With this thread and the first, all lanes. */
	for (int i = 0; i < OWN_LANES - 1; i++) {
		other[i] = (struct counter){.adds = 1, .counted = &all, .leave = &leave};
		assert_true(start(&other[i]));
	}
	pthread_barrier_wait(&all);
	late = (struct counter){.adds = 7};
	assert_true(start(&late));
	join_until_gone(&late);
	assert_int_equal(late.lane, STATS_LANE_SHARED);
	pthread_barrier_wait(&go);
	join_until_gone(&first);
	next = (struct counter){.adds = 7};
	assert_true(start(&next));
	join_until_gone(&next);
	assert_int_equal(next.lane, first.lane);
	pthread_barrier_wait(&leave);
	for (int i = 0; i < OWN_LANES - 1; i++)
		join_until_gone(&other[i]);
	pthread_barrier_destroy(&all);
	pthread_barrier_destroy(&leave);
	pthread_barrier_destroy(&go);
}

/* ---- a signal handler that counts in the middle ---- */

static volatile sig_atomic_t handled;

static void count_in_handler(int signal)
{
	(void)signal;
	stats_add(LAST, 5);
	handled++;
}

/* Every so often the lane is taken away, so that handlers also come while one is assigned. */
static void check_signals(int64_t lane)
{
	static const struct itimerval often = {{0, 50}, {0, 50}}, never;
	struct sigaction action = {.sa_handler = count_in_handler, .sa_flags = SA_RESTART};
	uint64_t before = stats_get(LAST), adds = 0;
	int64_t mine = turbo_tls.lane;
	time_t end = time(NULL) + 20;

	handled = 0;
	assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
	for (turbo_tls.lane = lane; handled < 1000 && time(NULL) < end; turbo_tls.lane = lane)
		for (int i = 0; i < 200; i++, adds++)
			stats_add(LAST, 3);
	assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
	signal(SIGALRM, SIG_IGN); /* one may be on its way */
	turbo_tls.lane = mine;
	assert_true(handled >= 1000);
	assert_int_equal(stats_get(LAST) - before, 3 * adds + 5 * (uint64_t)handled);
}

static void handlers_count_in_the_middle(void **state)
{
	(void)state;
	check_signals(0);
	check_signals(STATS_LANE_SHARED);
}

/* ---- fork ---- */

/* Runs `body` in a child, after what the fork handler does; it must return 0. */
static int in_child(int (*body)(void))
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		stats_fork_child();
		_exit(body());
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

static int starts_at_zero(void)
{
	return stats_cell_sum(CALL) == 0 && stats_get(LAST) == 0 ? 0 : 1;
}

/* With the number of threads that fills the lanes, the one that was forked still has its own. */
static int keeps_its_lane(void)
{
	int64_t mine = turbo_tls.lane;

	if (starts_at_zero() != 0)
		return 1;
	if (mine <= 0 || count_together(OWN_LANES - 1, 500) != OWN_LANES - 1 || turbo_tls.lane != mine)
		return 2;
	if (count_together(OWN_LANES + 20, 500) < 0 || turbo_tls.lane != mine)
		return 3;
	return 0;
}

static int child_of_a_child(void)
{
	stats_call(CALL);
	if (in_child(starts_at_zero) != 0)
		return 4;
	return in_child(keeps_its_lane);
}

/* The first lane is not this thread's, so it stays empty in the child. */
static void *fork_from_another_lane(void *arg)
{
	stats_call(CALL);
	*(int *)arg =
		turbo_tls.lane == (int64_t)(uintptr_t)stats_area.lanes[1] ? 101 : in_child(child_of_a_child);
	return NULL;
}

static int leaves_the_shared_lane(void)
{
	stats_add(LAST, 3);
	return turbo_tls.lane > 0 && stats_get(LAST) == 3 ? 0 : 1;
}

static void a_child_owns_its_lane(void **state)
{
	int64_t mine;
	pthread_t thread;
	int rc = 102;

	(void)state;
	stats_call(CALL);
	mine = turbo_tls.lane;
	assert_int_equal(in_child(keeps_its_lane), 0);
	assert_int_equal(in_child(child_of_a_child), 0);
	assert_int_equal(pthread_create(&thread, NULL, fork_from_another_lane, &rc), 0);
	pthread_join(thread, NULL);
	assert_int_equal(rc, 0);
	turbo_tls.lane = STATS_LANE_SHARED;
	assert_int_equal(in_child(leaves_the_shared_lane), 0);
	turbo_tls.lane = mine;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_child_owns_its_lane),
		cmocka_unit_test(live_threads_share_no_lane),
		cmocka_unit_test(three_hundred_live_threads_lose_nothing),
		cmocka_unit_test(short_lived_threads_lose_nothing),
		cmocka_unit_test(a_lane_is_taken_over_when_its_owner_is_gone),
		cmocka_unit_test(handlers_count_in_the_middle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_count_stubs.c - a count stub counts every call, exactly, and changes nothing. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <cmocka.h>

#include <cuda.h>

#include "hooks.h"
#include "real.h"
#include "stats.h"
#include "../policy/nccl/coalesce.h"

#define STUB HOOK_cuLaunchHostFunc

/* Put `fn` behind the stub; returns the stub. */
static void *stub_over(void *fn)
{
	__atomic_store_n(&real_fn[STUB], fn, __ATOMIC_RELEASE);
	return hook_table[STUB].ours;
}

struct big {
	long words[5];
};
struct mixed {
	double real;
	long whole;
};

/* Integers and doubles beyond both register files, narrow types, structures by value. */
static long double many(int a, double b, long c, float d, const void *e, unsigned char f, double g, int64_t h,
						short i, double j, struct big k, double l, double m, struct mixed n, double o,
						double p, double q, long double r, uint64_t s, double t)
{
	assert_int_equal(a, -1);
	assert_true(b == 2.5 && d == 4.25f && g == 7.5 && j == 10.5 && l == 12.5 && m == 13.5);
	assert_true(o == 15.5 && p == 16.5 && q == 17.5 && t == 20.5);
	assert_int_equal(c, -3000000000L);
	assert_ptr_equal(e, &real_fn);
	assert_int_equal(f, 250);
	assert_true(h == INT64_MIN + 8);
	assert_int_equal(i, -9);
	for (int w = 0; w < 5; w++)
		assert_int_equal(k.words[w], 11 + w);
	assert_true(n.real == 14.5 && n.whole == 14);
	assert_true(r == 18.25L);
	assert_true(s == UINT64_MAX - 19);
	return 1.0L / 3;
}

static void call_many(void)
{
	__typeof__(many) *stub = stub_over((void *)many);
	struct big k = {{11, 12, 13, 14, 15}};
	struct mixed n = {14.5, 14};
	long double r = stub(-1, 2.5, -3000000000L, 4.25f, &real_fn, 250, 7.5, INT64_MIN + 8, -9, 10.5, k, 12.5,
						 13.5, n, 15.5, 16.5, 17.5, 18.25L, UINT64_MAX - 19, 20.5);

	assert_true(r == 1.0L / 3);
}

/* A result that is returned through memory whose address is a hidden argument. */
static struct big returns_big(long first, double second)
{
	struct big b = {{first, (long)second, 3, 4, 5}};

	return b;
}

static struct mixed returns_mixed(long whole, double real)
{
	return (struct mixed){real, whole};
}

static void call_structures(void)
{
	__typeof__(returns_big) *stub = stub_over((void *)returns_big);
	struct big b = stub(71, 72.0);

	assert_int_equal(b.words[0], 71);
	assert_int_equal(b.words[1], 72);
	assert_int_equal(b.words[4], 5);
	__typeof__(returns_mixed) *other = stub_over((void *)returns_mixed);
	struct mixed m = other(81, 82.5);

	assert_int_equal(m.whole, 81);
	assert_true(m.real == 82.5);
}

/* Reads its vector arguments only if the caller's count of them arrives (x86-64: %al). */
static double adds(const char *kinds, ...)
{
	double sum = 0;
	va_list list;

	va_start(list, kinds);
	for (; *kinds; kinds++)
		sum += *kinds == 'd'   ? va_arg(list, double)
			   : *kinds == 'p' ? (double)*va_arg(list, int *)
							   : va_arg(list, int);
	va_end(list);
	return sum;
}

static void call_variadic(void)
{
	__typeof__(adds) *stub = stub_over((void *)adds);
	int eight = 8;

	assert_true(stub("") == 0);
	assert_true(stub("id", 1, 2.5) == 3.5);
	assert_true(stub("idididididididididididp", 1, .5, 2, .5, 3, .5, 4, .5, 5, .5, 6, .5, 7, .5, 8, .5, 9, .5,
					 10, .5, 11, .5, &eight) == 79.5);
}

static void *return_address(void)
{
	return __builtin_return_address(0);
}

/* The callee sees the program as its caller, not the stub. */
static void call_return_address(void)
{
	void *(*volatile fn[2])(void) = {return_address, (void *(*)(void))stub_over((void *)return_address)};
	void *seen[2];

	for (volatile int i = 0; i < 2; i++)
		seen[i] = fn[i]();
	assert_ptr_equal(seen[0], seen[1]);
}

/* Each is called twice on a new thread, whose first call goes through hook_count_slow. */
static void *twice_on_new_thread(void *arg)
{
	void (*call)(void) = *(void (**)(void))arg;

	assert_int_equal(turbo_tls.lane, 0);
	call();
	assert_true(turbo_tls.lane != 0);
	call();
	return NULL;
}

static void check_call_once(void (*call)(void), uint64_t counted)
{
	void *saved = real_fn[STUB];
	uint64_t before = stats_cell_sum(STUB);
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, twice_on_new_thread, &call), 0);
	pthread_join(thread, NULL);
	assert_int_equal(stats_cell_sum(STUB) - before, 2 * counted);
	real_fn[STUB] = saved;
}

/* Straight, and through hook_door. */
static void check_call(void (*call)(void), uint64_t counted)
{
	check_call_once(call, counted);
	atomic_store(&coalesce_on, true);
	check_call_once(call, counted);
	atomic_store(&coalesce_on, false);
}

static void stub_keeps_arguments(void **state)
{
	(void)state;
	check_call(call_many, 1);
}

static void stub_keeps_results_in_memory(void **state)
{
	(void)state;
	check_call(call_structures, 2);
}

static void stub_keeps_variadic_calls(void **state)
{
	(void)state;
	check_call(call_variadic, 3);
}

static void stub_keeps_the_return_address(void **state)
{
	(void)state;
	check_call(call_return_address, 1);
}

static long answer(void)
{
	return 42;
}

struct calls {
	long (*stub)(void);
	int count;
	int64_t lane; /* 0: the one that the stub assigns */
	pthread_barrier_t *together;
};

static void *calls_in_a_loop(void *arg)
{
	struct calls *calls = arg;
	long wrong = 0;

	turbo_tls.lane = calls->lane;
	pthread_barrier_wait(calls->together);
	for (int i = 0; i < calls->count; i++)
		wrong += calls->stub() != 42;
	return (void *)wrong;
}

static void check_threads(unsigned threads, int count, int64_t lane)
{
	void *saved = real_fn[STUB];
	pthread_barrier_t together;
	struct calls calls = {(long (*)(void))stub_over((void *)answer), count, lane, &together};
	uint64_t before = stats_cell_sum(STUB), other = stats_cell_sum(STUB + 1);
	pthread_t thread[2 * STATS_LANES];

	assert_true(threads <= 2 * STATS_LANES);
	assert_int_equal(pthread_barrier_init(&together, NULL, threads), 0);
	for (unsigned i = 0; i < threads; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, calls_in_a_loop, &calls), 0);
	for (unsigned i = 0; i < threads; i++) {
		void *wrong;

		pthread_join(thread[i], &wrong);
		assert_null(wrong);
	}
	pthread_barrier_destroy(&together);
	assert_int_equal(stats_cell_sum(STUB) - before, (uint64_t)threads * (uint64_t)count);
	assert_int_equal(stats_cell_sum(STUB + 1), other);
	real_fn[STUB] = saved;
}

static void counts_of_more_threads_than_lanes_are_exact(void **state)
{
	(void)state;
	check_threads(STATS_LANES + 12, 20000, 0);
}

static void counts_in_the_shared_lane_are_exact(void **state)
{
	(void)state;
	check_threads(4, 1000000, STATS_LANE_SHARED);
}

/* ---- a signal handler that counts, in the middle of the stub ---- */

static volatile sig_atomic_t handled;

static void count_in_handler(int signal)
{
	(void)signal;
	((long (*)(void))hook_table[STUB].ours)();
	handled++;
}

/* Every so often the lane is taken away, so that handlers also come while one is assigned. */
static void check_signals(int64_t lane)
{
	static const struct itimerval often = {{0, 50}, {0, 50}}, never;
	struct sigaction action = {.sa_handler = count_in_handler, .sa_flags = SA_RESTART};
	void *saved = real_fn[STUB];
	long (*stub)(void) = (long (*)(void))stub_over((void *)answer);
	uint64_t before = stats_cell_sum(STUB), calls = 0;
	int64_t mine = turbo_tls.lane;
	time_t end = time(NULL) + 20;

	handled = 0;
	assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
	for (turbo_tls.lane = lane; handled < 1000 && time(NULL) < end; turbo_tls.lane = lane)
		for (int i = 0; i < 200; i++, calls++)
			assert_int_equal(stub(), 42);
	assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
	signal(SIGALRM, SIG_IGN); /* one may be on its way */
	turbo_tls.lane = mine;
	assert_true(handled >= 1000);
	assert_int_equal(stats_cell_sum(STUB) - before, calls + (uint64_t)handled);
	real_fn[STUB] = saved;
}

static void handlers_count_in_the_middle(void **state)
{
	(void)state;
	check_signals(0);
	check_signals(STATS_LANE_SHARED);
	atomic_store(&coalesce_on, true);
	check_signals(0);
	atomic_store(&coalesce_on, false);
}

/* Each stub has its own cell and slot: all of them, one after the other. */
static void every_stub_counts_its_own_symbol(void **state)
{
	int stubs = 0;

	(void)state;
	for (int i = 0; i < HOOK_COUNT; i++) {
		if (hook_table[i].how != HOOK_HOW_COUNT)
			continue;
		void *saved = real_fn[i];
		uint64_t before = stats_cell_sum((unsigned)i);

		real_fn[i] = (void *)answer;
		assert_int_equal(((long (*)(void))hook_table[i].ours)(), 42);
		real_fn[i] = saved;
		assert_int_equal(stats_cell_sum((unsigned)i), before + 1);
		stubs++;
	}
	assert_true(stubs > 300);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stub_keeps_arguments),
		cmocka_unit_test(stub_keeps_results_in_memory),
		cmocka_unit_test(stub_keeps_variadic_calls),
		cmocka_unit_test(stub_keeps_the_return_address),
		cmocka_unit_test(counts_of_more_threads_than_lanes_are_exact),
		cmocka_unit_test(counts_in_the_shared_lane_are_exact),
		cmocka_unit_test(handlers_count_in_the_middle),
		cmocka_unit_test(every_stub_counts_its_own_symbol),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

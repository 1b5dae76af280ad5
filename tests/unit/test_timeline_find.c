/*
 * test_timeline_find.c - where libcupti is looked for and in which order, and CUPTI's times when another clock is in it.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cupti/bind.h"
#include "cupti/find.h"
#include "cupti/times.h"

/* ---- find ---- */

static char tried[32][256];
static unsigned tries, stop_at;

static bool try_path(void *arg, const char *path)
{
	(void)arg;
	assert_true(tries < 32);
	snprintf(tried[tries++], sizeof(tried[0]), "%s", path);
	return tries == stop_at;
}

static bool search(const char *cudart, const char *packages, unsigned major)
{
	tries = 0;
	return cupti_candidates(cudart, packages, major, try_path, NULL);
}

static int index_of(const char *path)
{
	for (unsigned i = 0; i < tries; i++)
		if (strcmp(tried[i], path) == 0)
			return (int)i;
	print_error("%s was not tried\n", path);
	return -1000;
}

static void clear_environment(void)
{
	unsetenv("CONDA_PREFIX");
	unsetenv("CUDA_HOME");
	unsetenv("CUDA_PATH");
}

static void nearest_first(void **state)
{
	(void)state;
	setenv("CONDA_PREFIX", "/conda", 1);
	setenv("CUDA_HOME", "/home", 1);
	setenv("CUDA_PATH", "/path", 1);
	stop_at = 0;
	assert_false(search("/w/nvidia/cu13/lib/libcudart.so.13", "/v/site-packages", 13));
	assert_int_equal(index_of("/w/nvidia/cu13/lib/libcupti.so.13"), 0);
	int wheel = index_of("/v/site-packages/nvidia/cu13/lib/libcupti.so.13");
	int conda = index_of("/conda/lib/libcupti.so.13"), loader = index_of("libcupti.so.13");
	int home = index_of("/home/extras/CUPTI/lib64/libcupti.so.13");
	int path = index_of("/path/extras/CUPTI/lib64/libcupti.so.13");
	int system = index_of("/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13");
	assert_true(0 < wheel && wheel < conda && conda < loader && loader < home && home < path &&
				path < system);
	assert_true(index_of("/usr/local/cuda-13/lib64/libcupti.so.13") >= 0);
	clear_environment();
}

static void layouts_of_wheels_and_toolkits(void **state)
{
	(void)state;
	clear_environment();
	search("/s/nvidia/cuda_runtime/lib/libcudart.so.12", "", 12);
	assert_true(index_of("/s/nvidia/cuda_runtime/lib/../../cuda_cupti/lib/libcupti.so.12") >= 0);
	search("/usr/local/cuda-12.4/lib64/libcudart.so.12", "", 12);
	assert_true(index_of("/usr/local/cuda-12.4/lib64/../extras/CUPTI/lib64/libcupti.so.12") >= 0);
	search("/usr/local/cuda-12.4/targets/x86_64-linux/lib/libcudart.so.12", "", 12);
	assert_true(
		index_of(
			"/usr/local/cuda-12.4/targets/x86_64-linux/lib/../../../extras/CUPTI/lib64/libcupti.so.12") >= 0);
	search("", "/s/site-packages", 12);
	assert_int_equal(index_of("/s/site-packages/nvidia/cuda_cupti/lib/libcupti.so.12"), 0);
}

/* Relative paths mean something else after a chdir(), and a name without a version any major. */
static void nothing_relative_nothing_unversioned(void **state)
{
	(void)state;
	setenv("CUDA_HOME", "cuda", 1);
	setenv("CONDA_PREFIX", "", 1);
	search("lib/libcudart.so.13", "site-packages", 13);
	for (unsigned i = 0; i < tries; i++) {
		assert_true(tried[i][0] == '/' || strcmp(tried[i], "libcupti.so.13") == 0);
		assert_string_equal(tried[i] + strlen(tried[i]) - strlen("libcupti.so.13"), "libcupti.so.13");
	}
	clear_environment();
}

static void the_first_that_fits_ends_the_search(void **state)
{
	(void)state;
	stop_at = 2;
	assert_true(search("/a/libcudart.so.13", "", 13));
	assert_int_equal(tries, 2);
	stop_at = 0;
}

static void paths_too_long_are_left_out(void **state)
{
	char path[4096];
	(void)state;
	memset(path, 'x', sizeof(path) - 1);
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	search(path, path, 13);
	for (unsigned i = 0; i < tries; i++)
		assert_true(strlen(tried[i]) < 64);
}

static void majors(void **state)
{
	(void)state;
	assert_int_equal(cupti_major(18), 11);
	assert_int_equal(cupti_major(19), 12);
	assert_int_equal(cupti_major(28), 12);
	assert_int_equal(cupti_major(130001), 13);
	assert_int_equal(cupti_major(140000), 14);
}

/* ---- times ---- */

static uint64_t (*now)(void);

static uint64_t clock_of(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t realtime(void)
{
	return clock_of(CLOCK_REALTIME);
}

/* 2.4 ticks a ns, from 1000 on. */
static uint64_t ticks(void)
{
	return clock_of(CLOCK_MONOTONIC_RAW) * 12 / 5 + 1000;
}

static uint64_t still(void)
{
	return 77;
}

static cupti_result timestamp(uint64_t *ns)
{
	if (!now)
		return 1;
	*ns = now();
	return CUPTI_OK;
}

static enum times look(uint64_t (*clock)(void), struct timeline_clock *c)
{
	now = clock;
	return times_look(c);
}

static void pass_time(void)
{
	struct timespec t = {0, (long)TIMES_APART_NS + 10000000};
	nanosleep(&t, NULL);
}

static void near(uint64_t a, uint64_t b, uint64_t most)
{
	uint64_t off = a > b ? a - b : b - a;
	if (off > most)
		fail_msg("%llu ns apart", (unsigned long long)off);
}

static void cuptis_own_clock(void **state)
{
	struct timeline_clock c;
	(void)state;
	assert_int_equal(look(realtime, &c), TIMES_REAL);
	near(c.cupti, c.realtime, 1000000);
	struct times_map m = times_map();
	assert_int_equal(times_to_ns(&m, 123), 123);
}

static void a_foreign_clock_is_converted(void **state)
{
	struct timeline_clock c;
	uint64_t real, tick;
	(void)state;
	times_forget();
	assert_int_equal(look(ticks, &c), TIMES_UNKNOWN);
	assert_int_equal(look(ticks, &c), TIMES_UNKNOWN); /* too soon */
	pass_time();
	assert_int_equal(look(ticks, &c), TIMES_FOREIGN);
	near(c.cupti, c.realtime, 0);
	tick = ticks();
	real = realtime();
	struct times_map m = times_map();
	near(times_to_ns(&m, tick), real, 1000000);
	/* Durations too, a second before and after. */
	near(times_to_ns(&m, tick + 2400000000u) - times_to_ns(&m, tick), 1000000000u, 100000);
	near(times_to_ns(&m, tick) - times_to_ns(&m, tick - 2400000000u), 1000000000u, 100000);
	/* The clock is CUPTI's again. */
	assert_int_equal(look(realtime, &c), TIMES_REAL);
	m = times_map();
	assert_true(m.identity);
}

static void a_clock_that_is_none(void **state)
{
	struct timeline_clock c;
	(void)state;
	times_forget();
	assert_int_equal(look(still, &c), TIMES_UNKNOWN);
	pass_time();
	assert_int_equal(look(still, &c), TIMES_USELESS);
	assert_int_equal(look(NULL, &c), TIMES_USELESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nearest_first),
		cmocka_unit_test(layouts_of_wheels_and_toolkits),
		cmocka_unit_test(nothing_relative_nothing_unversioned),
		cmocka_unit_test(the_first_that_fits_ends_the_search),
		cmocka_unit_test(paths_too_long_are_left_out),
		cmocka_unit_test(majors),
		cmocka_unit_test(cuptis_own_clock),
		cmocka_unit_test(a_foreign_clock_is_converted),
		cmocka_unit_test(a_clock_that_is_none),
	};
	cupti.GetTimestamp = timestamp;
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_copy_cpus.c - how many cores we may count on: quota text, affinity, ranks of one node. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "policy/copy/cpus.h"

static void quota_rounds_up(void **state)
{
	(void)state;
	assert_int_equal(cpus_quota_v2("200000 100000\n"), 2);
	assert_int_equal(cpus_quota_v2("150000 100000\n"), 2);
	assert_int_equal(cpus_quota_v2("50000 100000"), 1);
	assert_int_equal(cpus_quota_v2("1 1000000"), 1);
	assert_int_equal(cpus_quota_v2("12800000 100000"), 128);
}

static void no_quota_is_zero(void **state)
{
	(void)state;
	static const char *const texts[] = {"max 100000\n", "",    "max",        "100000", "0 100000",
										"100000 0",     "x y", "100000 max", "\n"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_int_equal(cpus_quota_v2(texts[i]), 0);
}

struct counted {
	bool widen;
	int cpus;
};

static void *count_cpus(void *arg)
{
	struct counted *c = arg;
	cpu_set_t set;
	if (c->widen)
		cpus_widen();
	c->cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : -1;
	return NULL;
}

/* CPUs that a new thread may use, as it is made or after cpus_widen(). */
static int cpus_of_a_thread(bool widen)
{
	pthread_t t;
	struct counted c = {widen, 0};
	assert_int_equal(pthread_create(&t, NULL, count_cpus, &c), 0);
	pthread_join(t, NULL);
	return c.cpus;
}

/* The mask of the start counts, whatever the main thread is bound to later. */
static void the_first_affinity_is_obeyed(void **state)
{
	(void)state;
	cpu_set_t old, one;
	unsetenv("LOCAL_WORLD_SIZE");
	cpus_start();
	assert_int_equal(sched_getaffinity(0, sizeof(old), &old), 0);
	int cpu = 0;
	while (!CPU_ISSET(cpu, &old))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	unsigned all = cpus_share();
	assert_true(all >= 1 && all <= (unsigned)CPU_COUNT(&old));
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	unsigned later = cpus_share();
	int narrow = cpus_of_a_thread(false), wide = cpus_of_a_thread(true);
	cpus_start();
	unsigned alone = cpus_share();
	assert_int_equal(sched_setaffinity(0, sizeof(old), &old), 0);
	cpus_start();
	assert_int_equal(later, all);
	assert_int_equal(narrow, 1);
	assert_int_equal(wide, CPU_COUNT(&old));
	assert_int_equal(alone, 1);
}

static void ranks_share(void **state)
{
	(void)state;
	unsetenv("LOCAL_WORLD_SIZE");
	unsigned all = cpus_share();
	setenv("LOCAL_WORLD_SIZE", "2", 1);
	assert_int_equal(cpus_share(), all / 2 ? all / 2 : 1);
	setenv("LOCAL_WORLD_SIZE", "100000", 1);
	assert_int_equal(cpus_share(), 1);
	static const char *const senseless[] = {"", "0", "1", "many", "-"};
	for (size_t i = 0; i < sizeof(senseless) / sizeof(senseless[0]); i++) {
		setenv("LOCAL_WORLD_SIZE", senseless[i], 1);
		assert_int_equal(cpus_share(), all);
	}
	unsetenv("LOCAL_WORLD_SIZE");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quota_rounds_up),
		cmocka_unit_test(no_quota_is_zero),
		cmocka_unit_test(the_first_affinity_is_obeyed),
		cmocka_unit_test(ranks_share),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

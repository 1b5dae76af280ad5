/* test_life.c - how far a process has come: engaged, CUDA ready once, and what a fork keeps. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "life.h"
#include "options.h"
#include "policy.h"
#include "stats.h"

/* In place of the library's own policy; see test_policy.c. */
static int readied;

static void on_cuda_ready(void)
{
	__atomic_fetch_add(&readied, 1, __ATOMIC_RELAXED);
	usleep(1000); /* the others come while we are at it */
}

const struct policy copy_policy = {.name = "fake", .cuda_ready = on_cuda_ready};

/* The state is the process's: each test runs in a child of its own and returns 0. */
static void run(int (*body)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		int rc;
		alarm(60);
		rc = body();
		stats_unpublish();
		_exit(rc);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define CHECK(condition)               \
	do {                               \
		if (!(condition))              \
			return __LINE__ % 255 + 1; \
	} while (0)

static void *ready_thread(void *arg)
{
	(void)arg;
	life_cuda_ready();
	return NULL;
}

static int ready_once(void)
{
	pthread_t threads[8];

	life_start(true, false);
	CHECK(life_active() && !life_engaged() && !life_cuda());
	for (int i = 0; i < 8; i++)
		CHECK(pthread_create(&threads[i], NULL, ready_thread, NULL) == 0);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	CHECK(readied == 1);
	CHECK(life_engaged() && life_cuda() && !life_is_forked_child());
	life_cuda_ready();
	CHECK(readied == 1);
	return 0;
}

static int never_when_off(void)
{
	life_start(false, true);
	life_cuda_ready();
	CHECK(readied == 0);
	CHECK(!life_active() && !life_engaged() && !life_cuda());
	return 0;
}

static int child_of_cuda(void)
{
	life_start(true, false);
	life_cuda_ready();
	CHECK(readied == 1);
	life_fork_child();
	CHECK(life_is_forked_child() && !life_cuda() && life_engaged());
	life_cuda_ready();
	CHECK(readied == 1 && !life_cuda());
	return 0;
}

static int child_of_a_parent_without_cuda(void)
{
	life_start(true, false);
	life_fork_child();
	CHECK(!life_is_forked_child());
	life_cuda_ready();
	CHECK(readied == 1 && life_cuda());
	return 0;
}

static int deepbind(const char *preset, bool engaged)
{
	char *env[] = {(char *)(uintptr_t)preset, NULL};

	options_parse(env, NULL, NULL);
	life_start(option_get(OPT_PRESET) != 0, engaged);
	return life_clear_deepbind();
}

static int deepbind_goes_in_engaged_processes_only(void)
{
	CHECK(deepbind("TURBO=safe", true) == 1);
	CHECK(deepbind("TURBO=safe", false) == 0);
	CHECK(deepbind("TURBO=off", true) == 0);
	CHECK(deepbind("TURBO_DEEPBIND=keep", true) == 0);
	return 0;
}

#define TEST(body)                        \
	static void test_##body(void **state) \
	{                                     \
		(void)state;                      \
		run(body);                        \
	}
TEST(ready_once)
TEST(never_when_off)
TEST(child_of_cuda)
TEST(child_of_a_parent_without_cuda)
TEST(deepbind_goes_in_engaged_processes_only)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ready_once),
		cmocka_unit_test(test_never_when_off),
		cmocka_unit_test(test_child_of_cuda),
		cmocka_unit_test(test_child_of_a_parent_without_cuda),
		cmocka_unit_test(test_deepbind_goes_in_engaged_processes_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

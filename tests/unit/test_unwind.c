/* test_unwind.c - stacks of a thread, of many at once, and of a forked child. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "unwind.h"

/* Exit status of a skipped test. */
#define SKIP 77

static void *frames[64];

/* A function must be known by its range, since a return address lies inside it: `outer` and
 * `inner` stand in a section of their own, and the linker gives its limits. */
#define MARKED __attribute__((noinline, section("marked_code")))
extern char __start_marked_code[], __stop_marked_code[];

static bool is_marked(const void *address)
{
	return (const char *)address > __start_marked_code && (const char *)address < __stop_marked_code;
}

static MARKED int inner(void **out, int max)
{
	int n = unwind_stack(out, max);

	__asm__ volatile("" ::: "memory");
	return n;
}

static MARKED int outer(void **out, int max)
{
	int n = inner(out, max);

	__asm__ volatile("" ::: "memory");
	return n;
}

static void the_caller_comes_first(void **state)
{
	int n = outer(frames, 64);

	(void)state;
	assert_in_range(n, 3, 63);
	assert_true(is_marked(frames[0]));
	assert_true(is_marked(frames[1]));
	assert_false(is_marked(frames[2]));
	for (int i = 0; i < n; i++)
		assert_non_null(frames[i]);
}

static void no_more_than_asked_for(void **state)
{
	(void)state;
	for (int max = 0; max < 4; max++) {
		memset(frames, 0, sizeof(frames));
		assert_int_equal(outer(frames, max), max);
		assert_null(frames[max]);
	}
	assert_int_equal(outer(frames, -1), 0);
}

static void errno_is_kept(void **state)
{
	(void)state;
	errno = ERANGE;
	outer(frames, 64);
	assert_int_equal(errno, ERANGE);
}

static void *unwind_often(void *arg)
{
	void *mine[32];

	for (int i = 0; i < 200; i++) {
		int n = outer(mine, 32);
		if (n < 2 || !is_marked(mine[0]) || !is_marked(mine[1]))
			*(int *)arg += 1;
	}
	return NULL;
}

static void many_threads_at_once(void **state)
{
	pthread_t threads[4];
	int wrong[4] = {0};

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, unwind_often, &wrong[i]), 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(wrong[i], 0);
	}
}

static void *unwind_until_told(void *stop)
{
	void *mine[32];

	while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED))
		outer(mine, 32);
	return NULL;
}

/* A child forked while another thread is inside libunwind answers or declines, and returns. */
static void a_forked_child_does_not_hang(void **state)
{
	pthread_t thread;
	int stop = 0, status;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, unwind_until_told, &stop), 0);
	for (int i = 0; i < 20; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			int n;
			alarm(20);
			unwind_fork_child();
			n = outer(frames, 64);
			_exit(n == 0 || (n > 2 && is_marked(frames[0])) ? 0 : 1);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_caller_comes_first),
		cmocka_unit_test(no_more_than_asked_for),
		cmocka_unit_test(errno_is_kept),
		cmocka_unit_test(many_threads_at_once),
		cmocka_unit_test(a_forked_child_does_not_hang),
	};
	void *handle = dlopen("libunwind.so.8", RTLD_NOW);

	if (!handle) {
		print_message("no libunwind.so.8 on this machine\n");
		return SKIP;
	}
	dlclose(handle);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_files_quiet.c - which opens need not be told of, for how long, and to whom. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "policy/files/quiet.h"
#include "policy/files/track.h"
#include "policy/files/tune.h"

#define LONG_MS 600000

static bool is(const char *path)
{
	return quiet_is(AT_FDCWD, path, strlen(path));
}

static bool claim(const char *path)
{
	return quiet_claim(path, strlen(path));
}

static struct track_run run_of(const char *root, unsigned depth)
{
	struct track_run run = {.depth = depth};

	strcpy(run.root, root);
	return run;
}

/* In a forked child. */
static bool child(bool (*question)(const char *), const char *path)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		quiet_fork_child();
		_exit(question(path));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status != 0;
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* What a child says while what this process has begun with `begin` is not `ms` old: a machine may not run us for that long. */
static bool child_within(int64_t ms, bool (*begin)(const char *), const char *mine,
						 bool (*question)(const char *), const char *path)
{
	for (int i = 0; i < 1000; i++) {
		int64_t since = now_ms();
		assert_true(begin(mine));
		bool answer = child(question, path);
		if (now_ms() - since < ms)
			return answer;
	}
	fail_msg("the machine is too slow");
	return false;
}

static bool hold_path(const char *path)
{
	struct track_run run = run_of(path, 0);

	return quiet_hold(&run);
}

static void nothing_is_quiet_without_a_table(void **state)
{
	struct track_run run = run_of("/data/none", 0);

	(void)state;
	quiet_set(&run, LONG_MS, true);
	assert_false(is("/data/none/a.jpg"));
	assert_true(quiet_hold(&run) && claim("/data/none/a.jpg"));
	quiet_release(&run);
	quiet_relative(AT_FDCWD, "a.jpg", "/data/none/a.jpg");
	assert_false(is("a.jpg"));
	quiet_start();
	assert_false(is("/data/none/a.jpg"));
}

static void a_run_is_quiet_down_to_its_depth(void **state)
{
	struct track_run flat = run_of("/data/flat", 0), deep = run_of("/data/deep", 1);

	(void)state;
	quiet_set(&flat, LONG_MS, true);
	quiet_set(&deep, LONG_MS, true);
	assert_true(is("/data/flat/a.jpg"));
	assert_false(is("/data/flat/sub/a.jpg") || is("/data/flatter/a.jpg") || is("/data/a.jpg") ||
				 is("/data/flat"));
	assert_true(is("/data/deep/a.jpg") && is("/data/deep/sub/a.jpg"));
	assert_false(is("/data/deep/sub/sub/a.jpg") || is("/a") || is("") || is("a"));
	quiet_set(&flat, 0, true);
	assert_false(is("/data/flat/a.jpg"));
}

static void for_a_time(void **state)
{
	const struct timespec nap = {0, 10000000};
	struct track_run run = run_of("/data/time", 0);
	int64_t since = now_ms();

	(void)state;
	quiet_set(&run, 200, true);
	while (is("/data/time/a.jpg"))
		nanosleep(&nap, NULL);
	/* The clock that is asked may be a tick of 10 ms behind. */
	assert_true(now_ms() - since >= 180);
}

static void streams_are_told_of_where_files_may_be_large(void **state)
{
	struct track_run run = run_of("/data/shards", 0);

	(void)state;
	quiet_set(&run, LONG_MS, false);
	assert_true(is("/data/shards/a.jpg"));
	assert_false(is("/data/shards/a-0001.tar"));
	quiet_set(&run, LONG_MS, true);
	assert_true(is("/data/shards/a-0001.tar"));
}

static void one_process_of_a_family_tells(void **state)
{
	struct track_run run = run_of("/data/held", 0);

	(void)state;
	for (int i = 0; i < 3; i++) { /* again and again */
		assert_true(child_within(QUIET_HOLD_MS - 20, hold_path, "/data/held", is, "/data/held/a.jpg"));
		assert_false(is("/data/held/a.jpg"));
	}
	assert_false(child_within(QUIET_HOLD_MS - 20, hold_path, "/data/held", hold_path, "/data/held"));
	quiet_release(&run);
	assert_false(child(is, "/data/held/a.jpg"));
	/* The verdict is for all; a process that has nothing to do with it takes nothing back. */
	quiet_set(&run, LONG_MS, true);
	quiet_release(&run);
	assert_true(is("/data/held/a.jpg") && child(is, "/data/held/a.jpg"));
}

static void one_process_of_a_family_begins(void **state)
{
	static const char mine[] = "/data/new/class/a.jpg";

	(void)state;
	assert_true(claim("/data/new/class/b.jpg"));
	assert_false(is("/data/new/class/b.jpg"));
	assert_false(child_within(QUIET_CLAIM_MS - 20, claim, mine, claim, "/data/new/class/c.jpg"));
	/* Most likely of the same tree. */
	assert_false(child_within(QUIET_CLAIM_MS - 20, claim, mine, claim, "/data/new/other/c.jpg"));
	assert_true(child(claim, "/elsewhere/x/c.jpg"));
}

static void relative_names(void **state)
{
	struct track_run run = run_of("/data/relative", 0);

	(void)state;
	quiet_relative(AT_FDCWD, "sub/a.jpg", "/data/relative/a.jpg");
	assert_false(is("sub/a.jpg"));
	quiet_set(&run, LONG_MS, true);
	quiet_relative(AT_FDCWD, "sub/a.jpg", "/data/relative/a.jpg");
	assert_true(is("sub/b.jpg"));
	assert_false(is("b.jpg") || quiet_is(7, "sub/b.jpg", 9));
	assert_false(child(is, "sub/b.jpg")); /* whose working directory may be another */
}

/* More directories than there are places: those that are quiet longest stay, and nothing else becomes quiet. */
static void a_full_table(void **state)
{
	char name[64];
	unsigned quiet = 0;

	(void)state;
	for (unsigned i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "/many/d%05u", i);
		struct track_run run = run_of(name, 0);
		quiet_set(&run, LONG_MS, true);
		strcat(name, "/f.jpg");
		assert_true(is(name));
	}
	for (unsigned i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "/many/d%05u/f.jpg", i);
		quiet += is(name);
		snprintf(name, sizeof(name), "/many/e%05u/f.jpg", i);
		assert_false(is(name));
	}
	assert_true(quiet >= 512 && quiet <= 1024);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_quiet_without_a_table),
		cmocka_unit_test(a_run_is_quiet_down_to_its_depth),
		cmocka_unit_test(for_a_time),
		cmocka_unit_test(streams_are_told_of_where_files_may_be_large),
		cmocka_unit_test(one_process_of_a_family_tells),
		cmocka_unit_test(one_process_of_a_family_begins),
		cmocka_unit_test(relative_names),
		cmocka_unit_test(a_full_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

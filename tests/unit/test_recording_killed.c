/* test_recording_killed.c - what killed writers leave can be read, and a forked child leaves its parent's file alone. */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/unit/recording_fixture.h"

#define MB (UINT64_C(1) << 20)

/* ---- killed ---- */

static void write_for_ever(int ready)
{
	uint64_t n = 0;

	if (!fixture_open(MB / 2) || write(ready, recording_path(), strlen(recording_path()) + 1) < 0)
		_exit(1);
	for (;; n += 5000)
		fixture_put(0, n, n + 5000);
}

static void test_killed(void **state)
{
	(void)state;
	unsigned seed = (unsigned)time(NULL), wrapped = 0;
	uint64_t most = 0;

	print_message("seed %u\n", seed);
	for (int round = 0; round < 40 || (!wrapped && round < 300); round++) {
		char path[512] = "";
		int ready[2], status;
		assert_int_equal(pipe(ready), 0);
		pid_t pid = fork();
		if (pid == 0)
			write_for_ever(ready[1]);
		close(ready[1]);
		assert_true(read(ready[0], path, sizeof(path) - 1) > 0);
		close(ready[0]);
		/* A slow machine gets ever longer to come around. */
		unsigned more = round < 40 ? 0 : (unsigned)(round - 40);
		unsigned nap_us = (unsigned)rand_r(&seed) % (8000 + 200 * (unsigned)round + 50 * more * more);
		const struct timespec nap = {nap_us / 1000000, (long)(nap_us % 1000000) * 1000};
		nanosleep(&nap, NULL);
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		assert_true(WIFSIGNALED(status));
		struct trace *t = fixture_read(path);
		assert_false(trace_live(t));
		uint64_t n = fixture_check(t);
		const struct timeline_header *h = trace_header(t);
		most = n > most ? n : most;
		wrapped += h->count[TIMELINE_COUNT_OVERWRITTEN] != 0;
		/* Counts may be a record behind what they count, and a chunk before it. */
		assert_true(h->count[TIMELINE_COUNT_RECORDS] <= n + h->count[TIMELINE_COUNT_OVERWRITTEN] + 1);
		assert_true(n + h->count[TIMELINE_COUNT_OVERWRITTEN] <=
					h->count[TIMELINE_COUNT_RECORDS] + TIMELINE_CHUNK_RECORDS + 1);
		trace_close(t);
		unlink(path);
	}
	assert_true(most > 1000 && wrapped > 0);
}

static void open_and_close(void)
{
	for (uint64_t n = 0;; n++)
		if (fixture_open(MB))
			fixture_put(0, 0, n % 100);
}

/* Whatever has a name is a whole file, where the file system can do that. */
static void test_killed_at_the_start(void **state)
{
	(void)state;
	unsigned seed = (unsigned)time(NULL), files = 0;

	print_message("seed %u\n", seed);
	for (int round = 0; round < 40 || (files < 20 && round < 2000); round++) {
		const struct timespec nap = {0, (long)(rand_r(&seed) % (3000 + 100 * round)) * 1000};
		char path[512];
		struct dirent *entry;
		int status;
		pid_t pid = fork();
		if (pid == 0)
			open_and_close();
		nanosleep(&nap, NULL);
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		DIR *d = opendir(fixture_dir);
		while ((entry = readdir(d))) {
			if (entry->d_name[0] == '.')
				continue;
			snprintf(path, sizeof(path), "%s/%s", fixture_dir, entry->d_name);
			struct trace *t = fixture_read(path);
			fixture_check(t);
			trace_close(t);
			unlink(path);
			files++;
		}
		closedir(d);
	}
	assert_true(files >= 20);
}

/* ---- fork ---- */

static int child(void)
{
	recording_fork_child();
	recording_count(TIMELINE_COUNT_CUPTI_LOST, 1000);
	if (recording_begin() || recording_is_open() || fixture_open(MB))
		return 2;
	recording_close();
	return 0;
}

static void test_forked_child(void **state)
{
	(void)state;
	int status;

	assert_true(fixture_open(MB));
	/* In the middle of a bracket: the other threads of a parent are. */
	assert_true(recording_begin());
	pid_t pid = fork();
	if (pid == 0)
		_exit(child());
	recording_end();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	fixture_put(0, 0, 100);
	recording_close();
	struct trace *t = fixture_read(recording_path());
	assert_int_equal(fixture_check(t), 100);
	assert_int_equal(trace_header(t)->count[TIMELINE_COUNT_CUPTI_LOST], 0);
	trace_close(t);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_make, fixture_remove)
	const struct CMUnitTest tests[] = {
		TEST(test_killed),
		TEST(test_killed_at_the_start),
		TEST(test_forked_child),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

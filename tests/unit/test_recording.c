/* test_recording.c - what is put is found again: whole, the newest last, the lost counted, one writer at a time. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "cupti/gap.h"
#include "cupti/times.h"
#include "tests/unit/recording_fixture.h"

#define MB (UINT64_C(1) << 20)

/* ---- one writer ---- */

static void test_round_trip(void **state)
{
	(void)state;
	struct timeline_clock clock = {.cupti = FIXTURE_BASE, .realtime = FIXTURE_BASE + 500, .monotonic_raw = 1};

	assert_true(fixture_open(MB));
	assert_true(recording_is_open());
	fixture_put(0, 0, 5000);
	recording_count(TIMELINE_COUNT_ZERO_TIME, 3);
	errno = 4711;
	assert_true(recording_begin());
	recording_clock(&clock);
	recording_end();
	recording_save();
	assert_int_equal(errno, 4711);
	struct trace *t = fixture_read(recording_path());
	assert_true(trace_live(t));
	assert_int_equal(fixture_check(t), 5000);
	assert_int_equal(trace_header(t)->count[TIMELINE_COUNT_RECORDS], 5000);
	assert_int_equal(trace_header(t)->count[TIMELINE_COUNT_OVERWRITTEN], 0);
	assert_int_equal(trace_header(t)->count[TIMELINE_COUNT_ZERO_TIME], 3);
	assert_int_equal(trace_clock_offset(t, FIXTURE_BASE), 500);
	trace_close(t);
	recording_close();
	assert_false(recording_is_open());
	assert_false(recording_begin());
	t = fixture_read(recording_path());
	assert_false(trace_live(t));
	assert_int_equal(fixture_check(t), 5000);
	assert_int_equal(trace_header(t)->end_ns / UINT64_C(86400000000000), (uint64_t)time(NULL) / 86400);
	trace_close(t);
}

static void test_wraps(void **state)
{
	(void)state;
	uint64_t all = 5 * MB / sizeof(struct timeline_record) + 1234, present;

	assert_true(fixture_open(MB));
	fixture_put(0, 0, all);
	struct trace *t = fixture_read(recording_path());
	present = fixture_check(t);
	/* The newest, without a gap, and all but the chunk that is being filled. */
	uint64_t first, last;
	assert_true(trace_span(t, &first, &last));
	assert_int_equal(first, FIXTURE_BASE + (all - present) * 1000);
	assert_in_range(present, MB / sizeof(struct timeline_record) * 15 / 16 - 32,
					MB / sizeof(struct timeline_record));
	assert_int_equal(trace_header(t)->count[TIMELINE_COUNT_RECORDS], all);
	assert_int_equal(trace_header(t)->count[TIMELINE_COUNT_OVERWRITTEN], all - present);
	trace_close(t);
}

static void test_clocks_wrap(void **state)
{
	(void)state;

	assert_true(fixture_open(MB));
	fixture_put(0, 0, 1);
	assert_true(recording_begin());
	for (uint64_t i = 1; i <= 100000; i++) {
		struct timeline_clock clock = {.cupti = i * 1000, .realtime = i * 1000 + i, .monotonic_raw = i};
		recording_clock(&clock);
	}
	recording_end();
	recording_save();
	struct trace *t = fixture_read(recording_path());
	assert_int_equal(trace_header(t)->clocks.used, 100000);
	assert_int_equal(trace_clock_offset(t, 100000 * 1000), 100000);
	assert_int_equal(trace_clock_offset(t, 99000 * 1000), 99000);
	trace_close(t);
}

/* ---- files ---- */

static void test_each_has_its_own(void **state)
{
	(void)state;
	char first[512];

	assert_true(fixture_open(MB));
	strcpy(first, recording_path());
	fixture_put(0, 0, 10);
	/* What is open is ended. */
	assert_true(fixture_open(MB));
	assert_string_not_equal(first, recording_path());
	fixture_put(0, 0, 20);
	recording_close();
	recording_close();
	struct trace *t = fixture_read(first);
	assert_int_equal(fixture_check(t), 10);
	assert_true(trace_header(t)->end_ns != 0);
	trace_close(t);
	t = fixture_read(recording_path());
	assert_int_equal(fixture_check(t), 20);
	trace_close(t);
}

static void test_end_cuts_off(void **state)
{
	(void)state;
	struct stat st;

	assert_true(fixture_open(16 * MB));
	fixture_put(0, 0, 5000);
	recording_close();
	assert_int_equal(stat(recording_path(), &st), 0);
	assert_in_range(st.st_size, 0, 4 * MB);
	struct trace *t = fixture_read(recording_path());
	assert_int_equal(trace_header(t)->file_bytes, st.st_size);
	assert_int_equal(fixture_check(t), 5000);
	trace_close(t);
	/* Nothing recorded. */
	assert_true(fixture_open(MB));
	recording_close();
	t = fixture_read(recording_path());
	assert_int_equal(fixture_check(t), 0);
	trace_close(t);
	/* Not what has taken its name meanwhile. */
	assert_true(fixture_open(MB));
	assert_int_equal(unlink(recording_path()), 0);
	int fd = open(recording_path(), O_CREAT | O_RDWR, 0600);
	assert_int_equal(ftruncate(fd, 3 << 20), 0);
	close(fd);
	recording_close();
	assert_int_equal(stat(recording_path(), &st), 0);
	assert_int_equal(st.st_size, 3 << 20);
}

/* ---- writers among each other ---- */

#define WRITERS 4
#define EACH 20000u

static void *write_some(void *arg)
{
	fixture_put((uint32_t)(uintptr_t)arg, 0, EACH);
	recording_count(TIMELINE_COUNT_CUPTI_LOST, 5);
	return NULL;
}

static void test_writers(void **state)
{
	(void)state;
	pthread_t thread[WRITERS];
	uint64_t next[WRITERS] = {0}, n = 0;
	struct trace_event e;

	assert_true(fixture_open(4 * MB));
	for (uintptr_t i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, write_some, (void *)i), 0);
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(thread[i], NULL);
	recording_close();
	struct trace *t = fixture_read(recording_path());
	assert_true(trace_rewind(t));
	for (; trace_next(t, &e); n++) {
		assert_true(fixture_whole(&e) && fixture_writer(&e) < WRITERS);
		assert_int_equal(fixture_number(&e), next[fixture_writer(&e)]++);
	}
	assert_int_equal(n, WRITERS * EACH);
	assert_int_equal(trace_header(t)->count[TIMELINE_COUNT_RECORDS], n);
	assert_int_equal(trace_header(t)->count[TIMELINE_COUNT_CUPTI_LOST], WRITERS * 5);
	trace_close(t);
}

static void *enter_and_end(void *arg)
{
	*(bool *)arg = recording_begin();
	return NULL;
}

static void test_writer_that_vanished(void **state)
{
	(void)state;
	pthread_t thread;
	bool entered;

	assert_true(fixture_open(MB));
	assert_int_equal(pthread_create(&thread, NULL, enter_and_end, &entered), 0);
	pthread_join(thread, NULL);
	assert_true(entered);
	fixture_put(0, 0, 100);
	recording_close();
	struct trace *t = fixture_read(recording_path());
	assert_int_equal(fixture_check(t), 100);
	assert_true(trace_header(t)->end_ns != 0);
	trace_close(t);
}

static volatile bool entered_in_handler;

static void enter(int sig)
{
	(void)sig;
	entered_in_handler = recording_begin();
}

static void test_handler_of_the_writer(void **state)
{
	(void)state;

	signal(SIGUSR1, enter);
	assert_true(fixture_open(MB));
	assert_true(recording_begin());
	entered_in_handler = true;
	raise(SIGUSR1);
	assert_false(entered_in_handler);
	recording_end();
	fixture_put(0, 0, 10);
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* It stays and does not leave: others wait for it once, then go without; the end does as well. */
static void test_writer_that_stays(void **state)
{
	(void)state;
	pthread_t thread;
	uint64_t since = now_ms();
	bool entered;

	assert_true(fixture_open(MB));
	assert_true(recording_begin());
	for (int i = 0; i < 3; i++) {
		assert_int_equal(pthread_create(&thread, NULL, enter_and_end, &entered), 0);
		pthread_join(thread, NULL);
		assert_false(entered);
	}
	assert_in_range(now_ms() - since, 900, 5000);
	since = now_ms();
	recording_close();
	assert_in_range(now_ms() - since, 0, 900);
	recording_end();
	/* It has left after all. */
	assert_true(fixture_open(MB));
	fixture_put(0, 0, 10);
}

/* ---- a reader of a live file ---- */

/* A profiler may be at work for hours. */
static void test_long_gap(void **state)
{
	(void)state;
	const uint64_t hours = 3 * UINT64_C(3600000000000);
	struct trace_event e;

	assert_true(fixture_open(MB / 4));
	gap_begin_at(GAP_CLIENT, times_now() - hours);
	gap_end(GAP_CLIENT);
	recording_close();
	struct trace *t = fixture_read(recording_path());
	assert_true(trace_next(t, &e));
	assert_int_equal(e.duration, 0);
	assert_true(trace_next(t, &e));
	assert_in_range(e.duration, hours, hours + UINT64_C(60000000000));
	assert_false(trace_next(t, &e));
	trace_close(t);
}

/* Reads again and again while records are written over: only whole ones, and each time some. */
static int read_live(const char *path, int go_on)
{
	char byte;
	unsigned rounds = 0;

	for (; read(go_on, &byte, 1) == 1; rounds++) {
		struct trace *t = trace_open(path, fixture_why, sizeof(fixture_why));
		struct trace_event e;
		if (!t)
			return 2;
		if (!trace_rewind(t))
			return 3;
		while (trace_next(t, &e))
			if (!fixture_whole(&e))
				return 4;
		trace_close(t);
	}
	return rounds > 20 ? 0 : 5;
}

static void test_reader_of_live_file(void **state)
{
	(void)state;
	int go_on[2], status;
	uint64_t n = 0;

	assert_true(fixture_open(MB / 4));
	assert_int_equal(pipe(go_on), 0);
	pid_t pid = fork();
	if (pid == 0) {
		close(go_on[1]);
		recording_fork_child();
		_exit(read_live(recording_path(), go_on[0]));
	}
	close(go_on[0]);
	for (int round = 0; round < 40; round++) {
		assert_int_equal(write(go_on[1], "", 1), 1);
		fixture_put(0, n, n + 50000);
		n += 50000;
	}
	close(go_on[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_make, fixture_remove)
	const struct CMUnitTest tests[] = {
		TEST(test_round_trip),
		TEST(test_wraps),
		TEST(test_clocks_wrap),
		TEST(test_each_has_its_own),
		TEST(test_end_cuts_off),
		TEST(test_writers),
		TEST(test_writer_that_vanished),
		TEST(test_handler_of_the_writer),
		TEST(test_writer_that_stays),
		TEST(test_reader_of_live_file),
		TEST(test_long_gap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

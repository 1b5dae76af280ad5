/* NATIVE: valgrind has the descriptors from 512 on for itself. */
/*
 * test_recording_taken.c - what others may do to the file of a recording while it is written, and to the descriptor
 * that is kept of it: the program goes on, the recording ends with a reason or goes on, too.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/unit/recording_fixture.h"

#define MB (UINT64_C(1) << 20)

/* ---- the file ---- */

static void shorten(const char *path, off_t bytes)
{
	assert_int_equal(truncate(path, bytes), 0);
}

static void punch(const char *path, off_t from, off_t bytes)
{
	int fd = open(path, O_RDWR);

	assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, bytes), 0);
	close(fd);
}

static off_t size_of(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? st.st_size : -1;
}

static void to_nothing(const char *path)
{
	shorten(path, 0);
}
static void to_half(const char *path)
{
	shorten(path, size_of(path) / 2);
}
static void by_a_byte(const char *path)
{
	shorten(path, size_of(path) - 1);
}
static void all_punched(const char *path)
{
	punch(path, 0, size_of(path));
}
static void removed(const char *path)
{
	assert_int_equal(unlink(path), 0);
}

static void grown_again(const char *path)
{
	off_t bytes = size_of(path);

	shorten(path, 0);
	shorten(path, bytes);
}

static void replaced(const char *path)
{
	char other[600];

	snprintf(other, sizeof(other), "%s.other", path);
	int fd = open(other, O_CREAT | O_RDWR, 0600);
	assert_int_equal(ftruncate(fd, size_of(path)), 0);
	close(fd);
	assert_int_equal(rename(other, path), 0);
}

static const struct {
	void (*taken)(const char *path);
	const char *because;
} cases[] = {
	{to_nothing, "shortened"},   {to_half, "shortened"}, {by_a_byte, "shortened"},
	{all_punched, "written to"}, {removed, "removed"},   {replaced, "removed"},
	{grown_again, "written to"},
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

/* What is there now is somebody else's: not a byte of it changes. */
static void expect_left_alone(const char *path, off_t bytes, const struct stat *before)
{
	struct stat st;

	if (bytes < 0) {
		assert_int_equal(stat(path, &st), -1);
		return;
	}
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, bytes);
	assert_int_equal(st.st_mtim.tv_sec, before->st_mtim.tv_sec);
	assert_int_equal(st.st_mtim.tv_nsec, before->st_mtim.tv_nsec);
}

static void test_taken(void **state)
{
	(void)state;
	char why[128], path[512];
	struct stat st = {0};

	for (unsigned i = 0; i < CASES; i++) {
		assert_true(fixture_open(MB));
		assert_null(recording_trouble(why, sizeof(why)));
		strcpy(path, recording_path());
		fixture_put(0, 0, 5000);
		cases[i].taken(path);
		off_t left = size_of(path);
		stat(path, &st);
		/* Found when a chunk is full, or at the next save, whatever comes first. */
		assert_true(recording_begin());
		for (uint64_t n = 5000; n < 5000 + (i % 2 ? 3 * TIMELINE_CHUNK_RECORDS : 10); n++) {
			struct timeline_record r = fixture_record(0, n);
			recording_put(&r);
		}
		recording_end();
		errno = 4711;
		recording_save();
		assert_int_equal(errno, 4711);
		assert_false(recording_is_open());
		assert_false(recording_begin());
		assert_non_null(recording_trouble(why, sizeof(why)));
		if (!strstr(why, cases[i].because))
			fail_msg("case %u: %s", i, why);
		recording_count(TIMELINE_COUNT_DROPPED, 1);
		recording_close();
		assert_non_null(recording_trouble(why, sizeof(why)));
		expect_left_alone(path, left, &st);
		unlink(path);
	}
	assert_true(fixture_open(MB));
	assert_null(recording_trouble(why, sizeof(why)));
	fixture_put(0, 0, 10);
}

/* Only the end finds it. */
static void test_taken_at_the_end(void **state)
{
	(void)state;
	char why[128];
	struct stat st;

	assert_true(fixture_open(MB));
	fixture_put(0, 0, 100);
	to_nothing(recording_path());
	assert_int_equal(stat(recording_path(), &st), 0);
	recording_close();
	assert_non_null(recording_trouble(why, sizeof(why)));
	expect_left_alone(recording_path(), 0, &st);
}

/* A hole in the ring costs the records in it, a new name nothing. */
static void test_goes_on(void **state)
{
	(void)state;
	char why[128], moved[600];
	const uint64_t all = 5 * TIMELINE_CHUNK_RECORDS;

	assert_true(fixture_open(MB));
	fixture_put(0, 0, all - 100);
	struct trace *t = fixture_read(recording_path());
	off_t ring = (off_t)trace_header(t)->ring_offset;
	trace_close(t);
	punch(recording_path(), ring + 65536, 65536);
	snprintf(moved, sizeof(moved), "%s/moved", fixture_dir);
	assert_int_equal(rename(recording_path(), moved), 0);
	fixture_put(0, all - 100, all);
	recording_close();
	assert_null(recording_trouble(why, sizeof(why)));
	t = fixture_read(moved);
	assert_int_equal(fixture_check(t), all - TIMELINE_CHUNK_RECORDS);
	assert_true(trace_header(t)->end_ns != 0);
	trace_close(t);
}

/* ---- under load ---- */

static _Atomic bool enough;
static _Atomic uint64_t rounds;

static void *write_and_write(void *arg)
{
	struct timeline_record r = {.start = FIXTURE_BASE, .kind = TIMELINE_KERNEL};
	char name[32];

	(void)arg;
	for (unsigned n = 0; !enough; n++) {
		struct timeline_entry e = {.kind = TIMELINE_KERNEL};
		if (!recording_begin())
			continue;
		snprintf(name, sizeof(name), "kernel%u", n % 5000);
		r.entry = recording_entry(&e, name);
		for (int i = 0; i < 500; i++)
			recording_put(&r);
		recording_end();
		rounds++;
	}
	return NULL;
}

/* At any moment of a save. SIGBUS would end the test. */
static void test_taken_under_load(void **state)
{
	(void)state;
	pthread_t writer;
	char why[128], path[512];

	enough = false;
	assert_int_equal(pthread_create(&writer, NULL, write_and_write, NULL), 0);
	for (unsigned round = 0; round < 20 * CASES; round++) {
		unsigned i = round % CASES;
		assert_true(fixture_open(MB / 4));
		strcpy(path, recording_path());
		for (uint64_t until = rounds + 3 + round % 7; rounds < until;)
			sched_yield();
		cases[i].taken(path);
		recording_save();
		/* A part of the ring may have been written again by a store that was under way. */
		if (cases[i].taken != to_half && cases[i].taken != by_a_byte)
			assert_non_null(recording_trouble(why, sizeof(why)));
		recording_close();
		unlink(path);
	}
	enough = true;
	pthread_join(writer, NULL);
}

/* ---- limits ---- */

/* The program lowers its own limit: no SIGXFSZ reaches it, and one that is its own does. */
static int limited(void)
{
	const struct rlimit limit = {MB, MB};
	sigset_t pending;
	char why[128];

	if (!fixture_open(2 * MB) || setrlimit(RLIMIT_FSIZE, &limit) != 0)
		return 2;
	for (uint64_t n = 0; n < 200000 && recording_begin(); recording_end(), recording_save())
		for (uint64_t end = n + 300; n < end; n++) {
			struct timeline_record r = fixture_record(0, n);
			recording_put(&r);
		}
	if (recording_is_open() || !recording_trouble(why, sizeof(why)) || !strstr(why, "too large"))
		return 3;
	recording_close();
	if (sigpending(&pending) != 0 || sigismember(&pending, SIGXFSZ))
		return 4;
	struct trace *t = trace_open(recording_path(), why, sizeof(why));
	if (!t || trace_header(t)->end_ns == 0 || trace_header(t)->count[TIMELINE_COUNT_DROPPED] == 0)
		return 5;
	uint64_t n = fixture_check(t);
	if (n < 2000 || n != trace_header(t)->count[TIMELINE_COUNT_RECORDS])
		return 6;
	raise(SIGXFSZ);
	return 7;
}

static void test_limit_lowered(void **state)
{
	(void)state;
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(limited());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGXFSZ);
}

/* ---- the descriptor ---- */

/* Of the file at `path`: its number, -1: none is open. */
static int descriptor_of(const char *path)
{
	struct stat file, st;
	int found = -1;

	assert_int_equal(stat(path, &file), 0);
	for (int fd = 0; fd < 1024; fd++)
		if (fstat(fd, &st) == 0 && st.st_dev == file.st_dev && st.st_ino == file.st_ino) {
			assert_int_equal(found, -1);
			found = fd;
		}
	return found;
}

static void test_descriptor(void **state)
{
	(void)state;
	int status, fd;

	assert_true(fixture_open(MB));
	fd = descriptor_of(recording_path());
	assert_in_range(fd, 512, 1023);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	pid_t pid = fork();
	if (pid == 0) {
		recording_fork_child();
		_exit(fcntl(fd, F_GETFD) != -1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	fixture_put(0, 0, 10);
	recording_close();
	assert_int_equal(descriptor_of(recording_path()), -1);
}

/* A daemon closes everything, and its own files get the numbers: nothing is written there. */
static void test_descriptor_taken(void **state)
{
	(void)state;
	char other[600], byte;
	int fd, mine;

	assert_true(fixture_open(MB));
	fixture_put(0, 0, 5000);
	fd = descriptor_of(recording_path());
	snprintf(other, sizeof(other), "%s/other", fixture_dir);
	mine = open(other, O_CREAT | O_RDWR, 0600);
	assert_int_equal(dup2(mine, fd), fd);
	fixture_put(0, 5000, 10000);
	assert_int_equal(pread(fd, &byte, 1, 0), 0);
	close(descriptor_of(recording_path()));
	fixture_put(0, 10000, 15000);
	close(descriptor_of(recording_path()));
	recording_close();
	assert_int_equal(descriptor_of(recording_path()), -1);
	assert_int_equal(size_of(other), 0);
	assert_true(fcntl(fd, F_GETFD) != -1);
	close(fd);
	close(mine);
	struct trace *t = fixture_read(recording_path());
	assert_int_equal(fixture_check(t), 15000);
	trace_close(t);
}

/* Closed, and no descriptor is left for it: nobody has removed the file. */
static void test_descriptor_lost(void **state)
{
	(void)state;
	struct rlimit was, none;
	char why[128];

	assert_true(fixture_open(MB));
	close(descriptor_of(recording_path()));
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = (struct rlimit){0, was.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	fixture_put(0, 0, 10);
	recording_save();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_non_null(recording_trouble(why, sizeof(why)));
	assert_string_equal(why, strerror(EMFILE));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_make, fixture_remove)
	const struct CMUnitTest tests[] = {
		TEST(test_taken),           TEST(test_taken_at_the_end),
		TEST(test_goes_on),         TEST(test_taken_under_load),
		TEST(test_descriptor),      TEST(test_descriptor_taken),
		TEST(test_descriptor_lost), TEST(test_limit_lowered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

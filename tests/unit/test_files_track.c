/* test_files_track.c - what is a run of reads, and which files belong to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "policy/files/track.h"
#include "policy/files/where.h"

static struct track track;
static struct track_run run;

static bool opened(const char *format, unsigned a, unsigned b)
{
	char path[256];

	snprintf(path, sizeof(path), format, a, b);
	return track_open(&track, path, &run);
}

static int setup(void **state)
{
	(void)state;
	memset(&track, 0, sizeof(track));
	return 0;
}

static void test_a_directory_is_a_run_after_some_files(void **state)
{
	(void)state;
	for (unsigned i = 1; i < TRACK_FILES; i++)
		assert_false(opened("/data/train/%u.jpg", i, 0));
	assert_true(opened("/data/train/%u.jpg", TRACK_FILES, 0));
	assert_string_equal(run.root, "/data/train");
	assert_int_equal(run.depth, 0);
	/* Again only when as many more were opened, and ever more rarely. */
	unsigned again = 0;
	for (unsigned i = 100; i < 1100; i++)
		again += opened("/data/train/%u.jpg", i, 0);
	assert_in_range(again, 1, 8);
}

static void test_the_same_file_again_and_again_is_none(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		assert_false(opened("/data/config/model.json", 0, 0));
}

static void test_files_all_over_one_directory(void **state)
{
	bool found = false;

	(void)state;
	for (unsigned i = 0; i < 4 * TRACK_CHILD_FILES && !found; i++)
		found = opened("/data/train/n%03u/%u.jpg", i * 7 % 100, i);
	assert_true(found);
	assert_string_equal(run.root, "/data/train");
	assert_int_equal(run.depth, 1);
	assert_true(track_covers(&run, "/data/train/x.jpg"));
	assert_true(track_covers(&run, "/data/train/n1/x.jpg"));
	assert_false(track_covers(&run, "/data/train/n1/y/x.jpg"));
	assert_false(track_covers(&run, "/data/trainer/x.jpg"));
}

static void test_names_that_are_hashes_two_levels_deep(void **state)
{
	bool found = false;

	(void)state;
	for (unsigned i = 0; i < 1000 && !found; i++)
		found = opened("/data/set/%02x/%02x/x.bin", i * 37 % 256, i * 91 % 256);
	assert_true(found);
	assert_string_equal(run.root, "/data/set");
	assert_int_equal(run.depth, 2);
}

static void test_never_the_whole_of_a_home_or_a_system(void **state)
{
	static const char *const never[] = {"/home/user/d%u/f%u.txt", "/tmp/d%u/f%u.txt",
										"/usr/share/d%u/f%u.txt", "/d%u/f%u.txt",
										"/etc/d%u/f%u",           "/home/d%u/f%u.txt"};

	(void)state;
	for (unsigned n = 0; n < sizeof(never) / sizeof(never[0]); n++)
		for (unsigned i = 0; i < 500; i++)
			if (opened(never[n], i, i))
				assert_true(strlen(run.root) > strlen("/home/user"));
	for (unsigned i = 0; i < 100; i++) {
		assert_false(opened("/usr/share/misc/f%u.txt", i, 0));
		assert_false(opened("/opt/venv/lib/python3/site-packages/pkg/f%u.txt", i, 0));
		assert_false(opened("/f%u.txt", i, 0));
	}
}

static void test_a_run_is_of_the_extensions_that_were_opened(void **state)
{
	(void)state;
	for (unsigned i = 0; i < TRACK_FILES / 2; i++) {
		opened("/data/pairs/%u.jpg", i, 0);
		opened("/data/pairs/%u.txt", i, 0);
	}
	assert_string_equal(run.root, "/data/pairs");
	assert_true(track_wants(&run, "a.jpg"));
	assert_true(track_wants(&run, "a.b.txt"));
	assert_false(track_wants(&run, "checkpoint.pt"));
	assert_false(track_wants(&run, "jpg"));
}

static void test_many_kinds_are_any_kind(void **state)
{
	(void)state;
	memset(&run, 0, sizeof(run));
	for (unsigned i = 0; i < 3 * TRACK_FILES; i++)
		opened("/data/parts/x.%03u", i, 0);
	assert_true(track_wants(&run, "other"));
}

static void test_more_directories_than_the_table_holds(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 100000; i++)
		opened("/a%u/b%u/c", i % 5000, i);
	memset(&run, 0, sizeof(run));
	bool found = false;
	for (unsigned i = 0; i < TRACK_FILES; i++)
		found = opened("/data/train/%u.jpg", i, 0);
	assert_true(found);
}

static void test_extensions(void **state)
{
#define EXTENSION(name) where_extension(name, strlen(name))
	(void)state;
	assert_int_equal(EXTENSION("a.JPG"), EXTENSION("/x.y/b.jpg"));
	assert_int_not_equal(EXTENSION("a.jpg"), EXTENSION("a.jpeg"));
	assert_int_equal(EXTENSION("/a.b/c"), 0);
	assert_int_equal(EXTENSION("noextension"), 0);
	assert_int_equal(EXTENSION("averyveryverylongnamewithout"), 0);
	assert_int_equal(EXTENSION(""), 0);
	assert_true(where_is_shard_extension(EXTENSION("m.safetensors")));
	assert_true(where_is_shard_extension(EXTENSION("m.tar")));
	assert_false(where_is_shard_extension(EXTENSION("m.jpg")));
}

static void test_what_is_no_data(void **state)
{
#define DATA(path) where_may_be_data(path, strlen(path))
	(void)state;
	assert_true(DATA("/data/x.jpg") && DATA("x") && DATA("/u/x") && DATA("/library/x"));
	assert_false(DATA("") || DATA("/proc/self/maps") || DATA("/sys/x") || DATA("/dev/null") ||
				 DATA("/usr/x") || DATA("/etc/passwd") || DATA("/lib/x") || DATA("a.py") ||
				 DATA("/x/b.pyc") || DATA("/x/c.so"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_a_directory_is_a_run_after_some_files, setup),
		cmocka_unit_test_setup(test_the_same_file_again_and_again_is_none, setup),
		cmocka_unit_test_setup(test_files_all_over_one_directory, setup),
		cmocka_unit_test_setup(test_names_that_are_hashes_two_levels_deep, setup),
		cmocka_unit_test_setup(test_never_the_whole_of_a_home_or_a_system, setup),
		cmocka_unit_test_setup(test_a_run_is_of_the_extensions_that_were_opened, setup),
		cmocka_unit_test_setup(test_many_kinds_are_any_kind, setup),
		cmocka_unit_test_setup(test_more_directories_than_the_table_holds, setup),
		cmocka_unit_test_setup(test_extensions, setup),
		cmocka_unit_test_setup(test_what_is_no_data, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

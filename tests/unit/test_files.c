/* test_files.c - which opens are a run, which files are listed, how much memory they may take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/files/budget.h"
#include "policy/files/list.h"
#include "policy/files/seen.h"

static char folder[256];

static void put(const char *name, const char *text)
{
	char path[512];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
		*slash = 0;
		mkdir(path, 0700);
	}
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st, (void)kind, (void)at;
	return remove(path);
}

static int setup(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/test-files-XXXXXX");
	return mkdtemp(folder) ? 0 : 1;
}

static int teardown(void **state)
{
	(void)state;
	budget_root = "";
	return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- runs ---- */

static struct seen_folder *open_numbered(const char *format, int i, size_t *length, int *tree)
{
	char path[256];
	snprintf(path, sizeof(path), format, i, i);
	return seen_file(path, length, tree);
}

static void a_run_in_one_folder_is_noticed_once(void **state)
{
	(void)state;
	size_t length = 0;
	int tree = -1;
	struct seen_folder *f = NULL;
	for (int i = 0; i < (int)SEEN_RUN - 1; i++)
		assert_null(open_numbered("/data/one/f%04d.bin", i, &length, &tree));
	f = open_numbered("/data/one/f%04d.bin", 99, &length, &tree);
	assert_non_null(f);
	assert_int_equal(length, strlen("/data/one/"));
	assert_int_equal(tree, 0);
	assert_true(atomic_load(&f->ups) + 2 >= atomic_load(&f->runs)); /* in order */
	for (int i = 200; i < 400; i++)
		assert_null(open_numbered("/data/one/f%04d.bin", i, &length, &tree));
}

static void the_same_file_again_is_no_run(void **state)
{
	(void)state;
	size_t length;
	int tree;
	for (int i = 0; i < 100; i++)
		assert_null(seen_file("/data/same/file", &length, &tree));
	assert_null(seen_file("no folder", &length, &tree));
	assert_null(seen_file("", &length, &tree));
	assert_null(seen_file("/data/", &length, &tree));
}

static void any_order_is_seen_as_such(void **state)
{
	(void)state;
	size_t length;
	int tree;
	struct seen_folder *f = NULL;
	for (int i = 0; i < (int)SEEN_RUN; i++)
		f = open_numbered("/data/mixed/f%04d.bin", i * 7 % 12, &length, &tree);
	assert_non_null(f);
	assert_false(atomic_load(&f->ups) + 2 >= atomic_load(&f->runs));
}

static void folders_of_one_folder_are_a_tree(void **state)
{
	(void)state;
	size_t length = 0;
	int tree = 0, noticed = 0;
	for (int i = 0; i < 400; i++) {
		char path[256];
		snprintf(path, sizeof(path), "/data/classes/c%03d/f%d.jpg", i * 37 % 100, i);
		if (seen_file(path, &length, &tree)) {
			noticed++;
			assert_int_equal(tree, 1);
			assert_int_equal(length, strlen("/data/classes/"));
		}
	}
	assert_int_equal(noticed, 1);
	/* Never all of a file system. */
	for (int i = 0; i < 400; i++)
		assert_null(open_numbered("/x%03d/f%d", i, &length, &tree));
}

/* ---- lists ---- */

static void only_what_ends_alike_is_listed(void **state)
{
	(void)state;
	struct list list;
	char root[300], path[512];
	put("b.jpg", "2");
	put("a.jpg", "1");
	put("notes.txt", "3");
	put("sub/c.jpg", "4");
	put(".hidden/d.jpg", "5");
	snprintf(path, sizeof(path), "%s/link.jpg", folder);
	assert_int_equal(symlink("a.jpg", path), 0);
	snprintf(root, sizeof(root), "%s/", folder);
	assert_true(list_read(&list, root, false, "x.jpg"));
	assert_int_equal(list.files, 2);
	list_by_name(&list);
	assert_true(list_path(&list, 0, path, sizeof(path)));
	assert_string_equal(path + strlen(folder), "/a.jpg");
	assert_int_equal(list.file[1].hash, seen_hash("b.jpg", 5));
	list_free(&list);
	assert_true(list_read(&list, root, true, "x.jpg"));
	assert_int_equal(list.files, 3);
	list_by_name(&list);
	assert_true(list_path(&list, 2, path, sizeof(path)));
	assert_string_equal(path + strlen(folder), "/sub/c.jpg");
	list_by_inode(&list);
	for (size_t i = 1; i < list.files; i++)
		assert_true(list.file[i - 1].inode <= list.file[i].inode);
	assert_false(list_path(&list, 0, path, 5));
	list_free(&list);
	assert_false(list_read(&list, root, true, "x.png"));
	assert_false(list_read(&list, "/nowhere/", true, "x"));
}

static void many_files_are_listed(void **state)
{
	(void)state;
	struct list list;
	char root[300], name[32];
	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "f%05d", i);
		put(name, "");
	}
	snprintf(root, sizeof(root), "%s/", folder);
	assert_true(list_read(&list, root, false, "f00001"));
	assert_int_equal(list.files, 3000);
	list_free(&list);
}

/* ---- memory ---- */

#define MIB (UINT64_C(1) << 20)

static void half_of_what_is_free(void **state)
{
	(void)state;
	budget_root = folder;
	assert_int_equal(budget_bytes(), 0); /* nothing is known */
	put("proc/meminfo", "MemTotal: 9000000 kB\nMemAvailable: 4194304 kB\n");
	assert_int_equal(budget_bytes(), (4096 - 256) / 2 * MIB);
	assert_false(budget_pressed());
	put("proc/meminfo", "MemTotal: 9000000 kB\nMemAvailable: 200000 kB\n");
	assert_int_equal(budget_bytes(), 0);
	assert_true(budget_pressed());
}

static void the_cgroup_counts(void **state)
{
	(void)state;
	budget_root = folder;
	put("proc/meminfo", "MemAvailable: 8388608 kB\n");
	put("proc/self/cgroup", "0::/job/step\n");
	put("sys/fs/cgroup/job/step/memory.max", "max\n");
	put("sys/fs/cgroup/job/memory.max", "1073741824\n");
	put("sys/fs/cgroup/job/memory.current", "536870912\n");
	put("sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 268435456\n");
	assert_int_equal(budget_bytes(), (768 - 256) / 2 * MIB);
	put("sys/fs/cgroup/job/memory.current", "1073741824\n");
	assert_int_equal(budget_bytes(), 0);
}

static void tasks_that_wait_for_memory_are_pressure(void **state)
{
	(void)state;
	budget_root = folder;
	put("proc/meminfo", "MemAvailable: 8388608 kB\n");
	put("proc/pressure/memory", "some avg10=0.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00\n");
	assert_false(budget_pressed());
	put("proc/pressure/memory", "some avg10=31.22 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00\n");
	assert_true(budget_pressed());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_in_one_folder_is_noticed_once),
		cmocka_unit_test(the_same_file_again_is_no_run),
		cmocka_unit_test(any_order_is_seen_as_such),
		cmocka_unit_test(folders_of_one_folder_are_a_tree),
		cmocka_unit_test_setup_teardown(only_what_ends_alike_is_listed, setup, teardown),
		cmocka_unit_test_setup_teardown(many_files_are_listed, setup, teardown),
		cmocka_unit_test_setup_teardown(half_of_what_is_free, setup, teardown),
		cmocka_unit_test_setup_teardown(the_cgroup_counts, setup, teardown),
		cmocka_unit_test_setup_teardown(tasks_that_wait_for_memory_are_pressure, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

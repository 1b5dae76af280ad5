/* test_files.c - which files are listed, how much memory they may take, how one is opened, who reads for all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "policy/files/limits.h"
#include "policy/memory.h"
#include "policy/files/node.h"
#include "policy/files/notes.h"
#include "policy/files/read.h"
#include "policy/files/tree.h"
#include "policy/files/where.h"

#define MIB (UINT64_C(1) << 20)

static char folder[256];

static const char *below(const char *name)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void put(const char *name, const char *text)
{
	char path[512];

	strcpy(path, below(name));
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

/* A file system that is read ahead, as /tmp is not everywhere. */
static int setup(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "%s/test-files-XXXXXX", getenv("BUILD") ? getenv("BUILD") : "/var/tmp");
	return mkdtemp(folder) ? 0 : 1;
}

static int teardown(void **state)
{
	(void)state;
	return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- trees ---- */

static struct track_run run_of(unsigned depth, const char *name)
{
	struct track_run run = {
		.depth = depth, .extension = {where_extension(name, strlen(name))}, .extensions = 1};

	strcpy(run.root, folder);
	return run;
}

static bool local(void)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY);
	bool is = where_kind(fd) == WHERE_LOCAL;

	close(fd);
	if (!is)
		puts("the folder is on no local file system that is known");
	return is;
}

static void only_what_ends_alike_is_listed(void **state)
{
	struct track_run run = run_of(0, "x.jpg");
	struct tree tree;
	char path[512];

	(void)state;
	if (!local())
		skip();
	put("b.jpg", "2");
	put("a.jpg", "1");
	put("notes.txt", "3");
	put("sub/c.jpg", "4");
	put("sub/deeper/e.jpg", "4");
	put(".hidden/d.jpg", "5");
	put(".e.jpg", "5");
	assert_int_equal(mkfifo(below("fifo.jpg"), 0600), 0);
	assert_int_equal(symlink(".", below("loop")), 0);
	assert_true(tree_read(&tree, &run, false));
	assert_int_equal(tree.files, 2);
	tree_sort_names(&tree);
	assert_true(tree_path(&tree, 0, path, sizeof(path)));
	assert_string_equal(path, "a.jpg");
	assert_false(tree_path(&tree, 0, path, 5));
	tree_free(&tree);
	run.depth = 1;
	assert_true(tree_read(&tree, &run, false));
	assert_int_equal(tree.files, 3);
	tree_sort_names(&tree);
	assert_true(tree_path(&tree, 2, path, sizeof(path)));
	assert_string_equal(path, "sub/c.jpg");
	tree_sort_inodes(&tree);
	for (size_t i = 1; i < tree.files; i++)
		assert_true(tree.file[i - 1].inode <= tree.file[i].inode);
	tree_free(&tree);
	run.depth = 2;
	assert_true(tree_read(&tree, &run, false));
	assert_int_equal(tree.files, 4);
	tree_free(&tree);
	run = run_of(2, "x.png");
	assert_false(tree_read(&tree, &run, false));
	strcpy(run.root, "/nowhere");
	assert_false(tree_read(&tree, &run, false));
	strcpy(run.root, "/proc/self");
	run.extension[0] = 0;
	assert_false(tree_read(&tree, &run, true));
}

static void many_files_are_listed_and_sorted(void **state)
{
	struct track_run run = run_of(0, "f00001");
	struct tree tree;
	char name[32], path[512];

	(void)state;
	if (!local())
		skip();
	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "f%05d", i * 7 % 3000);
		put(name, "");
	}
	assert_true(tree_read(&tree, &run, false));
	assert_int_equal(tree.files, 3000);
	tree_sort_names(&tree);
	for (unsigned i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "f%05u", i);
		assert_true(tree_path(&tree, i, path, sizeof(path)));
		assert_string_equal(path, name);
	}
	tree_free(&tree);
}

/* ---- one file ---- */

static struct read_where here = {.most = 1000};

static bool opens(const char *name)
{
	struct read_file f;
	struct stat st;

	assert_int_equal(stat(folder, &st), 0);
	here.device = st.st_dev;
	if (!read_open(AT_FDCWD, below(name), &here, &f))
		return false;
	read_ahead(&f, 0, f.size);
	read_close(&f);
	return true;
}

static void nothing_but_a_file_is_opened(void **state)
{
	int fd;

	(void)state;
	put("file", "text");
	put("empty", "");
	put("sgid", "text");
	put("leased", "text");
	chmod(below("sgid"), S_ISGID | 0600);
	assert_int_equal(mkfifo(below("fifo"), 0600), 0);
	assert_int_equal(symlink("loop", below("loop")), 0);
	assert_int_equal(symlink("fifo", below("to-fifo")), 0);
	assert_int_equal(symlink("file", below("to-file")), 0);
	assert_true(opens("file") && opens("to-file"));
	assert_false(opens("empty") || opens("sgid") || opens("fifo") || opens("loop") || opens("to-fifo") ||
				 opens("."));
	put("large", "");
	assert_int_equal(truncate(below("large"), 1001), 0);
	assert_false(opens("large"));
	fd = open(below("leased"), O_RDWR);
	if (fcntl(fd, F_SETLEASE, F_WRLCK) == 0) {
		read_leases();
		assert_false(opens("leased"));
		assert_int_equal(fcntl(fd, F_GETLEASE), F_WRLCK);
		fcntl(fd, F_SETLEASE, F_UNLCK);
	}
	close(fd);
	read_leases();
	assert_true(opens("leased"));
}

static void the_time_of_access_stays(void **state)
{
	const struct timespec old[2] = {{1000000, 0}, {1000001, 0}};
	struct read_file f;
	struct stat st;

	(void)state;
	put("file", "text");
	assert_int_equal(utimensat(AT_FDCWD, below("file"), old, 0), 0);
	assert_true(read_open(AT_FDCWD, below("file"), &here, &f));
	read_is_resident(&f, 0);
	read_ahead(&f, 0, f.size);
	read_wait(&f, 0);
	read_close(&f);
	assert_int_equal(stat(below("file"), &st), 0);
	assert_int_equal(st.st_atim.tv_sec, 1000000);
}

static void what_was_written_is_resident(void **state)
{
	struct read_file f;

	(void)state;
	put("file", "text");
	assert_true(read_open(AT_FDCWD, below("file"), &here, &f));
	assert_int_not_equal(read_is_resident(&f, 0), 0);
	read_close(&f);
}

/* By another way than read.c's. 1 in memory, 0 not, -1 cannot be told. */
static int in_core(int fd)
{
	unsigned char is;
	void *m = mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0);
	int r = m == MAP_FAILED ? -1 : mincore(m, 1, &is);

	if (m != MAP_FAILED)
		munmap(m, 1);
	return r == 0 ? is & 1 : -1;
}

static void asking_brings_nothing_into_memory(void **state)
{
	const struct timespec nap = {0, 20000000};
	struct read_file f;
	int fd, out = 0;

	(void)state;
	put("file", "text");
	fd = open(below("file"), O_RDONLY);
	for (int i = 0; i < 500 && !out; i++) {
		fsync(fd);
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		out = in_core(fd) == 0;
		if (!out)
			nanosleep(&nap, NULL);
	}
	if (!out) {
		close(fd);
		puts("files stay in memory here");
		skip();
	}
	assert_true(read_open(AT_FDCWD, below("file"), &here, &f));
	for (int i = 0; i < 20; i++)
		assert_int_not_equal(read_is_resident(&f, 0), 1);
	nanosleep(&nap, NULL);
	assert_int_equal(in_core(fd), 0);
	read_ahead(&f, 0, f.size);
	for (int i = 0; i < 1000 && in_core(fd) == 0; i++)
		nanosleep(&nap, NULL);
	assert_int_not_equal(read_is_resident(&f, 0), 0);
	read_close(&f);
	close(fd);
}

/* ---- memory ---- */

static struct memory look(void)
{
	struct memory m;

	assert_true(memory_look(folder, &m));
	return m;
}

static void half_of_what_is_free_beyond_a_tenth(void **state)
{
	struct memory m;

	(void)state;
	assert_false(memory_look(folder, &m)); /* nothing is known */
	put("proc/meminfo", "MemTotal: 10485760 kB\nMemFree: 1 kB\nMemAvailable: 5242880 kB\n");
	m = look();
	assert_int_equal(m.total, 10240 * MIB);
	assert_false(memory_is_tight(&m));
	assert_int_equal(memory_budget(&m), (5120 - 1024) / 2 * MIB);
	put("proc/meminfo", "MemTotal: 10485760 kB\nMemAvailable: 1000000 kB\n");
	m = look();
	assert_true(memory_is_tight(&m));
	assert_int_equal(memory_budget(&m), 0);
}

static void cgroups_count(void **state)
{
	struct memory m;

	(void)state;
	put("proc/meminfo", "MemTotal: 10485760 kB\nMemAvailable: 8388608 kB\n");
	put("proc/self/cgroup", "0::/job/step\n");
	put("sys/fs/cgroup/job/step/memory.max", "max\n");
	put("sys/fs/cgroup/job/memory.max", "1073741824\n");
	put("sys/fs/cgroup/job/memory.current", "536870912\n");
	put("sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 268435456\nactive_file 0\n");
	m = look();
	assert_int_equal(m.total, 1024 * MIB);
	assert_int_equal(m.available, 768 * MIB);
	put("sys/fs/cgroup/job/memory.current", "1342177280\n");
	m = look();
	assert_int_equal(m.available, 0);
	assert_true(memory_is_tight(&m));
}

static void cgroups_of_the_first_version_count(void **state)
{
	(void)state;
	put("proc/meminfo", "MemTotal: 10485760 kB\nMemAvailable: 8388608 kB\n");
	put("proc/self/cgroup", "5:cpu:/x\n4:memory:/docker/abc\n0::/\n");
	put("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
	put("sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "5\n");
	put("sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "2147483648\n");
	put("sys/fs/cgroup/memory/docker/memory.usage_in_bytes", "1073741824\n");
	assert_int_equal(look().available, 1024 * MIB);
	/* In a container the path is not there: its own limit is at the root. */
	put("proc/self/cgroup", "4:memory:/elsewhere\n");
	put("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
	put("sys/fs/cgroup/memory/memory.usage_in_bytes", "0\n");
	assert_int_equal(look().available, 512 * MIB);
}

static void tasks_that_wait_for_memory_are_pressure(void **state)
{
	struct memory m;

	(void)state;
	put("proc/meminfo", "MemTotal: 10485760 kB\nMemAvailable: 8388608 kB\n");
	put("proc/pressure/memory", "some avg10=0.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00\n");
	m = look();
	assert_false(memory_is_tight(&m));
	put("proc/pressure/memory", "some avg10=31.22 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00\n");
	m = look();
	assert_true(memory_is_tight(&m));
	put("proc/pressure/memory", "some avg10=0.00");
	put("proc/self/cgroup", "0::/job\n");
	put("sys/fs/cgroup/job/memory.pressure", "some avg10=12.00 avg60=0.00\n");
	m = look();
	assert_true(memory_is_tight(&m));
}

/* ---- the rest ---- */

static void one_process_has_a_name(void **state)
{
	uint64_t what = (uint64_t)getpid() << 20 | 4711;
	int held = node_take(what), status;

	(void)state;
	if (held == NODE_ALONE) {
		puts("no sockets here");
		skip();
	}
	assert_int_equal(node_take(what), NODE_TAKEN);
	pid_t pid = fork();
	if (pid == 0)
		_exit(node_take(what) == NODE_TAKEN ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	node_leave(held);
	held = node_take(what);
	assert_true(held >= 0);
	node_leave(held);
}

static void limits(void **state)
{
	char text[400];
	struct rlimit low = {1024, 4096}, most = {1024, 1 << 20}, there = {1 << 20, 1 << 20},
				  none = {1024, RLIM_INFINITY};

	(void)state;
	assert_int_equal(limits_wanted(&low), 4096);
	assert_int_equal(limits_wanted(&most), 65536);
	assert_int_equal(limits_wanted(&there), 1 << 20);
	assert_int_equal(limits_wanted(&none), 65536);
	assert_true(limits_shared_text(64 * MIB, 64 * MIB, text, sizeof(text)));
	assert_non_null(strstr(text, "/dev/shm holds 64 MiB"));
	assert_true(limits_shared_text(8192 * MIB, 10 * MIB, text, sizeof(text)));
	assert_false(limits_shared_text(8192 * MIB, 4096 * MIB, text, sizeof(text)));
	assert_false(limits_shared_text(0, 0, text, sizeof(text)));
}

static void notes_come_in_order_and_are_dropped_when_too_many(void **state)
{
	struct note note;
	char name[300];

	(void)state;
	for (unsigned round = 0; round < 5; round++) {
		for (unsigned i = 0; i < NOTES; i++) {
			int n = snprintf(name, sizeof(name), "/d/%u", i);
			assert_true(notes_put(name, (size_t)n, -1, (int)i));
		}
		assert_false(notes_put("/x", 2, -1, 0));
		for (unsigned i = 0; i < NOTES - round * 7; i++) {
			snprintf(name, sizeof(name), "/d/%u", i);
			assert_true(notes_take(&note));
			assert_string_equal(note.path, name);
			assert_int_equal(note.fd, i);
		}
		while (notes_take(&note))
			;
	}
	memset(name, 'x', sizeof(name));
	assert_false(notes_put(name, sizeof(name), -1, 0));
	assert_true(notes_put("/x", 2, -1, 0));
	notes_fork_child();
	assert_false(notes_take(&note));
	assert_true(notes_put("/y", 2, -1, 0));
	assert_true(notes_take(&note));
	assert_string_equal(note.path, "/y");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(only_what_ends_alike_is_listed, setup, teardown),
		cmocka_unit_test_setup_teardown(many_files_are_listed_and_sorted, setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_but_a_file_is_opened, setup, teardown),
		cmocka_unit_test_setup_teardown(the_time_of_access_stays, setup, teardown),
		cmocka_unit_test_setup_teardown(what_was_written_is_resident, setup, teardown),
		cmocka_unit_test_setup_teardown(asking_brings_nothing_into_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(half_of_what_is_free_beyond_a_tenth, setup, teardown),
		cmocka_unit_test_setup_teardown(cgroups_count, setup, teardown),
		cmocka_unit_test_setup_teardown(cgroups_of_the_first_version_count, setup, teardown),
		cmocka_unit_test_setup_teardown(tasks_that_wait_for_memory_are_pressure, setup, teardown),
		cmocka_unit_test(one_process_has_a_name),
		cmocka_unit_test(limits),
		cmocka_unit_test(notes_come_in_order_and_are_dropped_when_too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

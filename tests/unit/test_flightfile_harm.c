/* test_flightfile_harm.c - what others do to the file, to its name and to its folder; what dead processes leave. */
#define _GNU_SOURCE
#include "flightfile_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

static char other_path[PATH_MAX];

static void what_is_done_to_it_is_undone(void **state)
{
	(void)state;
	struct stat before, after;

	for (unsigned what = 0; what < 6; what++) {
		assert_int_equal(stat(path, &before), 0);
		switch (what) {
		case 0: assert_int_equal(unlink(path), 0); break;
		case 1: assert_int_equal(truncate(path, 0), 0); break;
		case 2: assert_int_equal(truncate(path, 5000), 0); break;
		case 3: assert_int_equal(truncate(path, before.st_size * 2), 0); break;
		case 4: /* another in its place */
			assert_int_equal(unlink(path), 0);
			assert_true((close(open(path, O_CREAT | O_WRONLY, 0644)), true));
			break;
		default: /* zeros of the same size */
			assert_int_equal(truncate(path, 0), 0);
			assert_int_equal(truncate(path, before.st_size), 0);
		}
		copy();
		assert_int_equal(stat(path, &after), 0);
		assert_whole(path);
	}
}

static void a_link_under_its_name_is_not_followed(void **state)
{
	(void)state;
	char target[PATH_MAX];
	struct stat st;

	snprintf(target, sizeof(target), "%s/target", tmp_dir);
	int fd = open(target, O_CREAT | O_WRONLY, 0600);
	assert_int_equal(write(fd, "mine", 4), 4);
	close(fd);
	unlink(path);
	assert_int_equal(symlink(target, path), 0);
	copy();
	path_in(other_path, tmp_dir, getpid());
	assert_whole(other_path);
	assert_int_equal(lstat(path, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(stat(target, &st), 0);
	assert_int_equal(st.st_size, 4);
	unlink(path);
	/* It stays where it is; only when that one is gone, too, is the first folder tried again. */
	copy();
	assert_int_equal(access(path, F_OK), -1);
	unlink(other_path);
	copy();
	assert_whole(path);
	unlink(target);
}

static void another_users_file_is_left_alone(void **state)
{
	(void)state;
	struct stat st;

	if (geteuid() != 0) {
		print_message("needs root: the file of another user\n");
		skip();
	}
	unlink(path);
	assert_true((close(open(path, O_CREAT | O_WRONLY, 0644)), true));
	assert_int_equal(chown(path, 12345, 12345), 0);
	copy();
	path_in(other_path, tmp_dir, getpid());
	assert_whole(other_path);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_uid, 12345);
	assert_int_equal(st.st_size, 0);
	unlink(path);
	unlink(other_path);
	copy();
	assert_whole(path);
}

static void without_room_nothing_breaks(void **state)
{
	(void)state;
	struct rlimit old, little;
	char taken[3][PATH_MAX];
	const char *dirs[] = {"/dev/shm", tmp_dir, "/tmp"};
	void *comm;

	/* A limit that would raise SIGXFSZ, which ends a process. */
	unlink(path);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	little = old;
	little.rlim_cur = 4096;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
	assert_false(flight_file_copy());
	assert_false(flight_file_copy());
	comm = comm_new();
	reduce(comm, 1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	copy();
	assert_whole(path);
	/* No folder takes it. */
	for (unsigned i = 0; i < 3; i++) {
		path_in(taken[i], dirs[i], getpid());
		unlink(taken[i]);
		assert_int_equal(mkdir(taken[i], 0700), 0);
	}
	assert_false(flight_file_copy());
	assert_false(flight_file_copy());
	reduce(comm, 2);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(rmdir(taken[i]), 0);
	copy();
	assert_whole(path);
}

/* ---- leftovers ---- */

/* A file as process `pid`, of this pid namespace or another, left it `age` seconds ago. */
static void leave(char *name, int pid, uint64_t ns, bool magic, long age)
{
	static struct flight_page old;
	struct timespec times[2];

	path_in(name, tmp_dir, pid);
	memcpy(&old, page, sizeof(old));
	old.pid = (uint32_t)pid;
	old.start_ticks = page->start_ticks + (pid == getppid() ? 0 : 1);
	old.pid_ns = ns;
	if (!magic)
		memset(old.magic, 0, sizeof(old.magic));
	int fd = open(name, O_CREAT | O_WRONLY, 0600);
	assert_int_equal(write(fd, &old, sizeof(old)), sizeof(old));
	clock_gettime(CLOCK_REALTIME, &times[0]);
	times[0].tv_sec -= age;
	times[1] = times[0];
	assert_int_equal(futimens(fd, times), 0);
	close(fd);
}

static void leftovers_go_after_a_while(void **state)
{
	(void)state;
	struct {
		int pid;
		uint64_t ns;
		bool magic;
		long age;
		bool goes;
	} file[] = {
		{99999001, page->pid_ns, true, FLIGHT_FILE_KEPT_S + 5, true},
		{99999002, page->pid_ns, true, FLIGHT_FILE_KEPT_S - 60, false}, /* somebody may want to read it */
		{99999003, page->pid_ns + 1, true, FLIGHT_FILE_KEPT_S + 5, false},
		{99999004, page->pid_ns + 1, true, FLIGHT_FILE_FORGOTTEN_S + 5, true},
		{99999005, page->pid_ns, false, FLIGHT_FILE_KEPT_S + 5, true},
		{99999006, page->pid_ns, false, 5, false},             /* just being made */
		{1, page->pid_ns, true, FLIGHT_FILE_KEPT_S + 5, true}, /* the number is another one's */
	};
	char name[sizeof(file) / sizeof(file[0])][PATH_MAX], odd[3][PATH_MAX];

	for (unsigned i = 0; i < sizeof(file) / sizeof(file[0]); i++)
		leave(name[i], file[i].pid, file[i].ns, file[i].magic, file[i].age);
	/* Names that are not ours, and a link. */
	snprintf(odd[0], PATH_MAX, "%s/" FLIGHT_FILE_FORMAT ".old", tmp_dir, geteuid(), 99999001);
	snprintf(odd[1], PATH_MAX, "%s/turbo-%u-99999007.flight", tmp_dir, geteuid() + 1);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(link(name[0], odd[i]), 0);
	path_in(odd[2], tmp_dir, 99999008);
	assert_int_equal(symlink(odd[0], odd[2]), 0);
	flight_file_sweep(tmp_dir);
	for (unsigned i = 0; i < sizeof(file) / sizeof(file[0]); i++) {
		assert_int_equal(access(name[i], F_OK) != 0, file[i].goes);
		unlink(name[i]);
	}
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(unlink(odd[i]), 0);
	flight_file_sweep("/no/such/folder");
}

/* Of this process before exec(), or of one that had its number. */
static void a_predecessors_file_is_replaced(void **state)
{
	(void)state;
	char name[PATH_MAX];

	unlink(path);
	leave(name, getpid(), page->pid_ns, true, 0);
	assert_int_equal(link(name, path) == 0 || errno == EXDEV, 1);
	unlink(name);
	int fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_int_equal(write(fd, page, sizeof(*page)), sizeof(*page));
	close(fd);
	copy();
	assert_whole(path);
}

int harm_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(what_is_done_to_it_is_undone, rig_setup),
		cmocka_unit_test_setup(a_link_under_its_name_is_not_followed, rig_setup),
		cmocka_unit_test_setup(another_users_file_is_left_alone, rig_setup),
		cmocka_unit_test_setup(without_room_nothing_breaks, rig_setup),
		cmocka_unit_test_setup(leftovers_go_after_a_while, rig_setup),
		cmocka_unit_test_setup(a_predecessors_file_is_replaced, rig_setup),
	};

	return cmocka_run_group_tests_name("harm", tests, NULL, NULL);
}

/* test_stats_leftovers.c - files of the dead are removed, those of the living are not, and bad
 * surroundings leave the counters private. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "stats.h"
#include "stats_leftovers.h"

#define LAST ((enum stats_counter)(STATS_COUNTER_END - 1))

static const char *path_of(const char *dir, pid_t pid)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/" STATS_FILE_FORMAT, dir, (unsigned)geteuid(), (int)pid);
	return path;
}

static bool exists(const char *path)
{
	return access(path, F_OK) == 0;
}

/* Runs `body` in a child as the fork handler would; it must return 0. */
static pid_t in_child(int (*body)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		stats_fork_child();
		_exit(body());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	return pid;
}

/* ---- leftovers ---- */

static int die_with_file(void)
{
	stats_publish();
	return 0;
}

/* Changes one header of the file at `path` by hand. */
static void edit_header(const char *path, void (*edit)(struct stats_header *))
{
	struct stats_header h;
	int fd = open(path, O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &h, sizeof(h), 0), sizeof(h));
	edit(&h);
	assert_int_equal(pwrite(fd, &h, sizeof(h), 0), sizeof(h));
	close(fd);
}

static void other_namespace(struct stats_header *h)
{
	h->pid_ns++;
}

static void other_start(struct stats_header *h)
{
	h->start_ticks++;
}

static void the_dead_are_swept_by_the_next(void **state)
{
	char dead[256], foreign[256];

	(void)state;
	snprintf(dead, sizeof(dead), "%s", path_of("/dev/shm", in_child(die_with_file)));
	snprintf(foreign, sizeof(foreign), "%s", path_of("/dev/shm", in_child(die_with_file)));
	assert_true(exists(foreign));
	edit_header(foreign, other_namespace);
	stats_publish();
	assert_false(exists(dead));
	assert_true(exists(foreign));
	unlink(foreign);
	stats_unpublish();
}

static void the_living_are_not_swept(void **state)
{
	char path[256];
	pid_t pid = fork();
	int status;

	(void)state;
	if (pid == 0) {
		stats_fork_child();
		stats_publish();
		raise(SIGSTOP);
		stats_unpublish();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	snprintf(path, sizeof(path), "%s", path_of("/dev/shm", pid));
	stats_publish();
	assert_true(exists(path));
	stats_unpublish();
	/* The same number, but started at another time: the writer is dead. */
	edit_header(path, other_start);
	stats_publish();
	assert_false(exists(path));
	stats_unpublish();
	kill(pid, SIGCONT);
	waitpid(pid, &status, 0);
}

/* ---- bad surroundings ---- */

static void a_link_in_our_place_is_not_followed(void **state)
{
	char dir[] = "/tmp/test_stats.XXXXXX", target[64], link[256];
	struct stat st;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(target, sizeof(target), "%s/target", dir);
	snprintf(link, sizeof(link), "%s", path_of("/dev/shm", getpid()));
	close(open(target, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	assert_int_equal(symlink(target, link), 0);
	setenv("TMPDIR", dir, 1);
	stats_publish();
	assert_int_equal(stat(target, &st), 0);
	assert_int_equal(st.st_size, 0);
	assert_true(exists(path_of(dir, getpid())));
	stats_unpublish();
	assert_false(exists(path_of(dir, getpid())));
	assert_int_equal(lstat(link, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	unsetenv("TMPDIR");
	unlink(link);
	unlink(target);
	rmdir(dir);
}

static void without_room_the_counters_stay_private(void **state)
{
	struct rlimit old, tiny;
	uint64_t before = stats_get(LAST);

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	tiny = old;
	tiny.rlim_cur = 8192;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &tiny), 0);
	errno = 0;
	stats_publish();
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(errno, 0);
	assert_false(exists(path_of("/dev/shm", getpid())));
	assert_false(exists(path_of("/tmp", getpid())));
	stats_add(LAST, 2);
	assert_int_equal(stats_get(LAST), before + 2);
	stats_unpublish();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_dead_are_swept_by_the_next),
		cmocka_unit_test(the_living_are_not_swept),
		cmocka_unit_test(a_link_in_our_place_is_not_followed),
		cmocka_unit_test(without_room_the_counters_stay_private),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

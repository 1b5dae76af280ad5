/* test_devmem_bound.c - the file in which processes say what they keep. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "policy/devmem/bound_file.h"

static char uuid[16], path[128];

/* A name that no device has. */
static void name_it(void)
{
	memset(uuid, 0xee, sizeof(uuid));
	memcpy(uuid, &(int){getpid()}, 4);
	int at = snprintf(path, sizeof(path), "/dev/shm/turbo-%u-", (unsigned)geteuid());
	for (int i = 0; i < 16; i++)
		at += snprintf(path + at, sizeof(path) - (size_t)at, "%02x", (unsigned char)uuid[i]);
	snprintf(path + at, sizeof(path) - (size_t)at, ".kept");
}

static struct bound_file *open_file(void)
{
	return bound_file_open(uuid, sizeof(uuid));
}

/* Another process that keeps so many bytes, until it is killed. */
static pid_t other(size_t bytes)
{
	int ready[2];
	char c;
	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();
	if (pid == 0) {
		bound_file_fork_child();
		struct bound_file *f = open_file();
		if (f)
			bound_file_set(f, bytes);
		if (write(ready[1], f ? "y" : "n", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	assert_int_equal(c, 'y');
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void others_are_counted_until_they_die(void **state)
{
	(void)state;
	struct stat st;
	struct bound_file *f = open_file();
	assert_non_null(f);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	bound_file_set(f, 1000);
	assert_int_equal(bound_file_others(f), 0);
	pid_t a = other(7), b = other(50);
	assert_int_equal(bound_file_others(f), 57);
	end(a);
	for (int i = 0; i < 40 && bound_file_others(f) != 50; i++)
		usleep(100000);
	assert_int_equal(bound_file_others(f), 50);
	bound_file_leave(f);
	assert_int_equal(stat(path, &st), 0); /* another one is there still */
	end(b);
	f = open_file();
	assert_non_null(f);
	assert_int_equal(bound_file_others(f), 0);
	bound_file_leave(f);
	assert_int_equal(stat(path, &st), -1); /* the last one puts out the light */
}

static void only_our_own_file_is_used(void **state)
{
	(void)state;
	char target[160];
	/* A symbolic link. */
	snprintf(target, sizeof(target), "%s.target", path);
	int fd = open(target, O_CREAT | O_RDWR, 0600);
	assert_int_equal(ftruncate(fd, 4096), 0);
	close(fd);
	assert_int_equal(symlink(target, path), 0);
	assert_null(open_file());
	unlink(path);
	unlink(target);
	/* Wrong sizes, modes and contents. */
	static const struct {
		mode_t mode;
		off_t size;
	} wrong[] = {{0600, 0}, {0600, 100}, {0600, 4096}, {0600, 8192}, {0666, 4096}};
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		fd = open(path, O_CREAT | O_RDWR, 0600);
		assert_int_equal(fchmod(fd, wrong[i].mode), 0);
		assert_int_equal(ftruncate(fd, wrong[i].size), 0);
		close(fd);
		assert_null(open_file());
		unlink(path);
	}
	/* A directory. */
	assert_int_equal(mkdir(path, 0700), 0);
	assert_null(open_file());
	rmdir(path);
}

/* Garbage in it costs room, never more. */
static void nonsense_in_the_file_does_no_harm(void **state)
{
	(void)state;
	unsigned char junk[4096 - 64];
	struct bound_file *f = open_file();
	assert_non_null(f);
	uint32_t x = 1;
	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < sizeof(junk); i++)
			junk[i] = (unsigned char)((x = x * 1664525 + 1013904223) >> 24);
		int fd = open(path, O_RDWR);
		assert_true(fd >= 0);
		assert_int_equal(pwrite(fd, junk, sizeof(junk), 64), sizeof(junk));
		close(fd);
		bound_file_others(f);
		bound_file_set(f, 1);
	}
	bound_file_leave(f);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(others_are_counted_until_they_die),
		cmocka_unit_test(only_our_own_file_is_used),
		cmocka_unit_test(nonsense_in_the_file_does_no_harm),
	};
	name_it();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

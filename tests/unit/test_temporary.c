/* test_temporary.c - a file that is there whole or not at all, whenever a signal comes. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

/* Where the signal comes: right before or after what changes the folder. */
enum place { NOWHERE, BEFORE_OPEN, AFTER_OPEN, WRITING, BEFORE_RENAME, AFTER_RENAME, PLACES };
static enum place place;
static int signal_number;

static void come(enum place here)
{
	if (place == here)
		raise(signal_number);
}

static int open_signalled(const char *path, int flags, ...)
{
	va_list ap;
	va_start(ap, flags);
	mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
	va_end(ap);
	come(BEFORE_OPEN);
	int fd = open(path, flags, mode), error = errno;
	come(AFTER_OPEN);
	errno = error;
	return fd;
}

static int rename_signalled(const char *from, const char *to)
{
	come(BEFORE_RENAME);
	int code = rename(from, to);
	come(AFTER_RENAME);
	return code;
}

#define open open_signalled
#define rename rename_signalled
#include "tools/timeline/temporary.c"
#undef open
#undef rename

static char dir[] = "/tmp/test_temporary.XXXXXX";

static const char *target(void)
{
	static char path[64];
	snprintf(path, sizeof(path), "%s/out", dir);
	return path;
}

/* What a child that writes a file of two parts ends with. */
static int write_in_child(void)
{
	pid_t pid = fork();
	if (pid == 0) {
		struct temporary t;
		int fd = temporary_open(&t, target());
		if (fd < 0 || write(fd, "new ", 4) != 4)
			_exit(1);
		come(WRITING);
		if (write(fd, "file", 4) != 4 || close(fd) != 0)
			_exit(2);
		_exit(temporary_place(&t) == 0 ? 0 : 3);
	}
	int status = -1;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void put(const char *text)
{
	FILE *f = fopen(target(), "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static void holds(const char *text)
{
	char have[64] = "";
	FILE *f = fopen(target(), "r");
	assert_non_null(f);
	assert_int_equal(fread(have, 1, sizeof(have) - 1, f), strlen(text));
	assert_string_equal(have, text);
	fclose(f);
}

/* How many names the folder has. */
static int names(void)
{
	char command[128];
	int n = -1;
	snprintf(command, sizeof(command), "ls -A %s | wc -l", dir);
	FILE *f = popen(command, "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%d", &n), 1);
	pclose(f);
	return n;
}

static void a_signal_at_any_time_leaves_old_or_new(void **state)
{
	static const int number[] = {SIGINT, SIGTERM, SIGHUP};
	(void)state;
	for (size_t i = 0; i < sizeof(number) / sizeof(number[0]); i++)
		for (int p = NOWHERE; p < PLACES; p++) {
			bool ends_early = p != NOWHERE && p != AFTER_RENAME;
			put("old");
			place = (enum place)p;
			signal_number = number[i];
			int status = write_in_child();
			if (p == NOWHERE)
				assert_int_equal(status, 0);
			else
				assert_true(WIFSIGNALED(status) && WTERMSIG(status) == number[i]);
			holds(ends_early ? "old" : "new file");
			assert_int_equal(names(), 1);
		}
	place = NOWHERE;
}

/* nohup, and commands that end in their own way. */
static void a_signal_that_is_not_free_stays(void **state)
{
	(void)state;
	put("old");
	signal(SIGHUP, SIG_IGN);
	place = WRITING;
	signal_number = SIGHUP;
	assert_int_equal(write_in_child(), 0);
	signal(SIGHUP, SIG_DFL);
	place = NOWHERE;
	holds("new file");
	assert_int_equal(names(), 1);
}

/* A file of the temporary name that somebody else has made is not removed. */
static void another_s_file_stays(void **state)
{
	char name[96];
	struct temporary t;
	(void)state;
	put("old");
	snprintf(name, sizeof(name), "%s.%d.tmp", target(), (int)getpid());
	FILE *f = fopen(name, "w");
	assert_non_null(f);
	fclose(f);
	assert_int_equal(temporary_open(&t, target()), -1);
	assert_int_equal(errno, EEXIST);
	temporary_remove(&t);
	assert_int_equal(access(name, F_OK), 0);
	unlink(name);
	holds("old");
}

static void what_is_no_file_is_written_to(void **state)
{
	struct temporary t;
	(void)state;
	int fd = temporary_open(&t, "/dev/null");
	assert_true(fd >= 0);
	assert_null(t.name);
	close(fd);
	assert_int_equal(temporary_place(&t), 0);
	temporary_remove(&t);
	assert_int_equal(access("/dev/null", W_OK), 0);
	assert_int_equal(temporary_open(&t, "/nowhere/at/all"), -1);
	assert_int_equal(errno, ENOENT);
}

/* As /dev/stdout, which is the system's. */
static void what_a_link_names_is_replaced(void **state)
{
	char link[96];
	struct stat st;
	struct temporary t;
	(void)state;
	put("old");
	snprintf(link, sizeof(link), "%s/link", dir);
	assert_int_equal(symlink("out", link), 0);
	int fd = temporary_open(&t, link);
	assert_true(fd >= 0 && write(fd, "new", 3) == 3 && close(fd) == 0);
	assert_int_equal(temporary_place(&t), 0);
	holds("new");
	assert_true(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
	unlink(link);
}

static void our_own_output_is_written_to(void **state)
{
	char name[40];
	struct temporary t;
	(void)state;
	put("");
	int before = dup(STDERR_FILENO), out = open(target(), O_WRONLY);
	assert_true(before >= 0 && out >= 0 && dup2(out, STDERR_FILENO) >= 0);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", STDERR_FILENO);
	int fd = temporary_open(&t, name);
	bool written = fd >= 0 && !t.name && write(fd, "page", 4) == 4 && close(fd) == 0 &&
				   temporary_place(&t) == 0 && write(STDERR_FILENO, ", more", 6) == 6;
	dup2(before, STDERR_FILENO);
	close(before);
	close(out);
	assert_true(written);
	holds("page, more");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_signal_at_any_time_leaves_old_or_new),
		cmocka_unit_test(a_signal_that_is_not_free_stays),
		cmocka_unit_test(another_s_file_stays),
		cmocka_unit_test(what_is_no_file_is_written_to),
		cmocka_unit_test(what_a_link_names_is_replaced),
		cmocka_unit_test(our_own_output_is_written_to),
	};
	if (!mkdtemp(dir))
		return 1;
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(target());
	return rmdir(dir) != 0 || failed;
}

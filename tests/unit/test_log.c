/* test_log.c - a line is a line, goes where it should, and never harms the program. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "log.h"
#include "options.h"

static char dir[] = "/tmp/test_log.XXXXXX";
static int real_stderr;

/* ---- capturing descriptor 2 ---- */

static int pipe_read;

static void capture_start(void)
{
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	assert_int_equal(dup2(ends[1], 2), 2);
	close(ends[1]);
	pipe_read = ends[0];
}

/* What came since; descriptor 2 is the test's own again. */
static const char *capture_end(void)
{
	static char text[8192];
	ssize_t n = read(pipe_read, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	close(pipe_read);
	assert_int_equal(dup2(real_stderr, 2), 2);
	return text;
}

static void start(const char *level, const char *file)
{
	static char level_entry[64], file_entry[512];
	char *env[] = {level_entry, file_entry, NULL};

	snprintf(level_entry, sizeof(level_entry), "TURBO_LOG=%s", level);
	snprintf(file_entry, sizeof(file_entry), "TURBO_LOG_FILE=%s", file);
	options_parse(env, NULL, NULL);
	log_start();
}

static const char *in_dir(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static const char *contents(const char *path)
{
	static char text[8192];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	return text;
}

static const char *line_of(const char *level, const char *text)
{
	static char line[2048];

	snprintf(line, sizeof(line), "libturbo[%d]: %s: %s\n", (int)getpid(), level, text);
	return line;
}

/* ---- lines ---- */

static void a_line_names_process_and_level(void **state)
{
	(void)state;
	start("debug", "");
	capture_start();
	log_error("n=%d", 7);
	assert_string_equal(capture_end(), line_of("error", "n=7"));
	capture_start();
	log_debug("%s", "x");
	assert_string_equal(capture_end(), line_of("debug", "x"));
}

static void lines_below_the_level_are_dropped(void **state)
{
	static const char *const levels[] = {"none", "error", "warn", "info", "debug"};

	(void)state;
	for (int i = 0; i < 5; i++) {
		int lines = 0;
		start(levels[i], "");
		capture_start();
		log_error("e");
		log_warn("w");
		log_info("i");
		log_debug("d");
		for (const char *p = capture_end(); (p = strchr(p, '\n')); p++)
			lines++;
		assert_int_equal(lines, i);
	}
}

static void a_long_line_is_cut_and_says_so(void **state)
{
	static char text[5000];
	const char *got;

	(void)state;
	memset(text, 'y', sizeof(text) - 1);
	start("warn", "");
	capture_start();
	log_warn("%s", text);
	got = capture_end();
	assert_in_range(strlen(got), 500, 1024);
	assert_string_equal(got + strlen(got) - 5, "y\xe2\x80\xa6\n");
	assert_ptr_equal(strchr(got, '\n'), got + strlen(got) - 1);
}

static void lengths_around_the_limit_keep_one_newline(void **state)
{
	char text[1100];

	(void)state;
	start("warn", "");
	for (int len = 940; len < 1060; len++) {
		const char *got;
		memset(text, 'z', (size_t)len);
		text[len] = '\0';
		capture_start();
		log_warn("%s", text);
		got = capture_end();
		assert_in_range(strlen(got), 900, 1024);
		assert_ptr_equal(strchr(got, '\n'), got + strlen(got) - 1);
		assert_true(strstr(got, "\xe2\x80\xa6") || strstr(got, text));
	}
}

static void control_characters_cannot_forge_a_line(void **state)
{
	(void)state;
	start("warn", "");
	capture_start();
	log_warn("a\nb\tc\033d\x7f");
	assert_string_equal(capture_end(), line_of("warn", "a?b?c?d?"));
}

static void errno_is_kept_and_printable(void **state)
{
	(void)state;
	start("warn", "");
	capture_start();
	errno = ENOENT;
	log_warn("%m");
	assert_int_equal(errno, ENOENT);
	assert_string_equal(capture_end(), line_of("warn", "No such file or directory"));
}

static void once_is_once(void **state)
{
	(void)state;
	start("warn", "");
	capture_start();
	for (int i = 0; i < 3; i++)
		log_once(LOG_WARN, "again");
	assert_string_equal(capture_end(), line_of("warn", "again"));
}

static void a_forked_child_logs_under_its_own_number(void **state)
{
	char expected[64];
	pid_t pid;

	(void)state;
	start("warn", "");
	capture_start();
	pid = fork();
	if (pid == 0) {
		log_warn("child");
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	snprintf(expected, sizeof(expected), "libturbo[%d]: warn: child\n", (int)pid);
	assert_string_equal(capture_end(), expected);
}

/* ---- files ---- */

static void a_file_is_appended_to_and_private(void **state)
{
	const char *path = in_dir("log");
	char expected[256];
	struct stat st;

	(void)state;
	start("warn", path);
	capture_start();
	log_warn("one");
	log_warn("two");
	assert_string_equal(capture_end(), "");
	snprintf(expected, sizeof(expected), "libturbo[%d]: warn: one\nlibturbo[%d]: warn: two\n", (int)getpid(),
			 (int)getpid());
	assert_string_equal(contents(path), expected);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
}

static void no_descriptor_is_kept(void **state)
{
	int before, after;

	(void)state;
	start("warn", in_dir("fds"));
	before = dup(2);
	close(before);
	log_warn("x");
	after = dup(2);
	close(after);
	assert_int_equal(before, after);
}

/* In a child, because the complaint comes once a process. */
static void an_unusable_file_is_said_once_and_stderr_used(void **state)
{
	char link[256], expected[1024];
	pid_t pid;
	int status;

	(void)state;
	snprintf(link, sizeof(link), "%s", in_dir("link"));
	assert_int_equal(symlink(in_dir("target"), link), 0);
	capture_start();
	pid = fork();
	if (pid == 0) {
		start("warn", link);
		errno = ERANGE;
		log_warn("one");
		log_warn("two");
		_exit(errno != ERANGE);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	snprintf(expected, sizeof(expected),
			 "libturbo[%d]: warn: TURBO_LOG_FILE=%s cannot be written (error %d); using stderr\n"
			 "libturbo[%d]: warn: one\nlibturbo[%d]: warn: two\n",
			 (int)pid, link, ELOOP, (int)pid, (int)pid);
	assert_string_equal(capture_end(), expected);
	assert_int_equal(access(in_dir("target"), F_OK), -1);
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void a_fifo_without_reader_does_not_block(void **state)
{
	double t0 = seconds();

	(void)state;
	assert_int_equal(mkfifo(in_dir("fifo"), 0600), 0);
	start("warn", in_dir("fifo"));
	capture_start();
	log_warn("x");
	assert_non_null(strstr(capture_end(), "warn: x\n"));
	assert_true(seconds() - t0 < 5);
}

/* ---- harm ---- */

static void a_pipe_without_reader_does_not_kill(void **state)
{
	int ends[2];
	sigset_t pending;

	(void)state;
	start("warn", "");
	signal(SIGPIPE, SIG_DFL);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(dup2(ends[1], 2), 2);
	close(ends[1]);
	close(ends[0]);
	errno = 0;
	log_warn("nobody");
	assert_int_equal(dup2(real_stderr, 2), 2);
	assert_int_equal(errno, 0);
	sigpending(&pending);
	assert_false(sigismember(&pending, SIGPIPE));
}

static void a_full_pipe_does_not_block(void **state)
{
	int ends[2];
	char block[4096] = "";
	double t0;

	(void)state;
	start("warn", "");
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	while (write(ends[1], block, sizeof(block)) > 0)
		;
	fcntl(ends[1], F_SETFL, 0);
	assert_int_equal(dup2(ends[1], 2), 2);
	t0 = seconds();
	log_warn("no room");
	assert_int_equal(dup2(real_stderr, 2), 2);
	assert_true(seconds() - t0 < 5);
	close(ends[0]);
	close(ends[1]);
}

static void a_file_at_its_limit_does_not_kill(void **state)
{
	struct rlimit old, tiny;

	(void)state;
	start("warn", in_dir("limited"));
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	tiny = old;
	tiny.rlim_cur = 0;
	signal(SIGXFSZ, SIG_DFL);
	capture_start();
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &tiny), 0);
	log_warn("x");
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_non_null(strstr(capture_end(), "warn: x\n"));
}

static void a_data_file_that_took_the_number_is_not_written_to(void **state)
{
	struct stat st;
	int fd;

	(void)state;
	start("warn", "");
	fd = open(in_dir("data"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(dup2(fd, 2), 2);
	log_warn("in your data");
	assert_int_equal(dup2(real_stderr, 2), 2);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 0);
	close(fd);

	fd = open(in_dir("appended"), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	assert_int_equal(dup2(fd, 2), 2);
	log_warn("a log");
	assert_int_equal(dup2(real_stderr, 2), 2);
	close(fd);
	assert_string_equal(contents(in_dir("appended")), line_of("warn", "a log"));
}

static void a_closed_stderr_is_silence(void **state)
{
	(void)state;
	start("warn", "");
	close(2);
	errno = 0;
	log_warn("x");
	assert_int_equal(errno, 0);
	assert_int_equal(dup2(real_stderr, 2), 2);
}

static int set_up(void **state)
{
	(void)state;
	real_stderr = fcntl(2, F_DUPFD_CLOEXEC, 100);
	return real_stderr < 0 || !mkdtemp(dir);
}

static int clean_up(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_names_process_and_level),
		cmocka_unit_test(lines_below_the_level_are_dropped),
		cmocka_unit_test(a_long_line_is_cut_and_says_so),
		cmocka_unit_test(lengths_around_the_limit_keep_one_newline),
		cmocka_unit_test(control_characters_cannot_forge_a_line),
		cmocka_unit_test(errno_is_kept_and_printable),
		cmocka_unit_test(once_is_once),
		cmocka_unit_test(a_forked_child_logs_under_its_own_number),
		cmocka_unit_test(a_file_is_appended_to_and_private),
		cmocka_unit_test(no_descriptor_is_kept),
		cmocka_unit_test(an_unusable_file_is_said_once_and_stderr_used),
		cmocka_unit_test(a_fifo_without_reader_does_not_block),
		cmocka_unit_test(a_pipe_without_reader_does_not_kill),
		cmocka_unit_test(a_full_pipe_does_not_block),
		cmocka_unit_test(a_file_at_its_limit_does_not_kill),
		cmocka_unit_test(a_data_file_that_took_the_number_is_not_written_to),
		cmocka_unit_test(a_closed_stderr_is_silence),
	};

	return cmocka_run_group_tests(tests, set_up, clean_up);
}

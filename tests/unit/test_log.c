/* test_log.c - a line is a line, and goes where it should. */
#include "log_fixture.h"

#include <sys/stat.h>
#include <sys/wait.h>

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
			 "libturbo[%d]: warn: TURBO_LOG_FILE=%s is a symbolic link; using stderr\n"
			 "libturbo[%d]: warn: one\nlibturbo[%d]: warn: two\n",
			 (int)pid, link, (int)pid, (int)pid);
	assert_string_equal(capture_end(), expected);
	assert_int_equal(access(in_dir("target"), F_OK), -1);
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
	};

	return cmocka_run_group_tests(tests, log_set_up, log_clean_up);
}

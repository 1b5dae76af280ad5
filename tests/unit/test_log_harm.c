/* test_log_harm.c - whatever descriptor 2 has become, a log line does no harm. */
#include "log_fixture.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pipe_without_reader_does_not_kill),
		cmocka_unit_test(a_full_pipe_does_not_block),
		cmocka_unit_test(a_file_at_its_limit_does_not_kill),
		cmocka_unit_test(a_data_file_that_took_the_number_is_not_written_to),
		cmocka_unit_test(a_closed_stderr_is_silence),
	};

	return cmocka_run_group_tests(tests, log_set_up, log_clean_up);
}

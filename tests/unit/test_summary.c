/* test_summary.c - what is printed at exit: nothing, or a heading and tidy lines. */
#include "log_fixture.h"

#include <sys/wait.h>

#include "life.h"
#include "policy.h"
#include "stats.h"
#include "summary.h"

/* In place of the library's own policy; see test_policy.c. */
static const char *lines = "";

static int say_lines(char *buf, int size)
{
	int n = snprintf(buf, (size_t)size, "%s", lines);

	return n < size ? n : size - 1;
}

const struct policy copy_policy = {.name = "copy", .summary = say_lines};
const struct policy devmem_policy = {.name = "devmem"};

static bool always;

/* What a process prints that used CUDA (or not), with TURBO_SUMMARY as given. */
static const char *summary_of(const char *setting, bool cuda, const char *text)
{
	char *env[] = {(char *)(uintptr_t)setting, NULL};
	int status;
	pid_t pid;

	lines = text;
	capture_start();
	pid = fork();
	if (pid == 0) {
		options_parse(env, NULL, NULL);
		log_start();
		life_start(true, false);
		if (cuda)
			life_cuda_ready();
		summary_print(always);
		stats_unpublish();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	return capture_end();
}

static void silence_is_the_rule(void **state)
{
	(void)state;
	assert_string_equal(summary_of("TURBO_SUMMARY=off", true, "did much"), "");
	assert_string_equal(summary_of("TURBO_SUMMARY=on", false, "did much"), "");
	assert_string_equal(summary_of("TURBO_SUMMARY=on", true, ""), "");
	assert_string_equal(summary_of("TURBO=safe", true, "did much"), "");
}

static void one_line_says_that_nothing_was_done(void **state)
{
	const char *got, *body;

	(void)state;
	always = true;
	got = summary_of("TURBO_SUMMARY=on", true, "");
	body = strchr(got, '\n');
	assert_non_null(body);
	assert_int_equal(strncmp(body + 1, "  nothing was sped up", 21), 0);
	assert_string_equal(strchr(body + 1, '\n'), "\n");
	assert_string_equal(summary_of("TURBO_SUMMARY=on", false, ""), "");
	assert_string_equal(summary_of("TURBO_SUMMARY=off", true, ""), "");
	assert_null(strstr(summary_of("TURBO_SUMMARY=on", true, "did much"), "nothing"));
	always = false;
}

static void lines_stand_under_a_heading(void **state)
{
	const char *got = summary_of("TURBO_SUMMARY=on", true, "3 copies\n\n1 GiB\n");
	const char *body = strchr(got, '\n');

	(void)state;
	assert_int_equal(strncmp(got, "libturbo[", 9), 0);
	assert_non_null(strstr(got, "test_summary"));
	assert_non_null(body);
	assert_string_equal(body + 1, "  copy     3 copies\n           1 GiB\n");
}

static void lines_are_at_most_80_columns(void **state)
{
	static char much[2000];
	const char *line, *next;

	(void)state;
	memset(much, 'w', sizeof(much) - 1);
	for (int i = 150; i < 1900; i += 150)
		much[i] = '\n';
	for (line = summary_of("TURBO_SUMMARY=on", true, much); (next = strchr(line, '\n')); line = next + 1)
		assert_in_range(next - line, 1, 80);
	assert_string_equal(line, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(silence_is_the_rule),
		cmocka_unit_test(one_line_says_that_nothing_was_done),
		cmocka_unit_test(lines_stand_under_a_heading),
		cmocka_unit_test(lines_are_at_most_80_columns),
	};

	return cmocka_run_group_tests(tests, log_set_up, log_clean_up);
}

/*
 * skipping.c - three cases in two groups that pass, skip or fail as the argument says, e.g. "psp".
 * test_run_counts.sh looks at how tests/run.sh counts them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const char *wish; /* a letter a case: p(ass), s(kip) or f(ail) */

static void play(int number)
{
	if (wish[number] == 's')
		skip();
	assert_int_equal(wish[number], 'p');
}

/* Says its reason on a line of its own. */
static void first(void **state)
{
	(void)state;
	print_message("asked to, 1\n");
	play(0);
}

/* Says it without the end of the line. */
static void second(void **state)
{
	(void)state;
	print_message("a line before\nasked to, 2");
	play(1);
}

/* Says nothing. */
static void third(void **state)
{
	(void)state;
	play(2);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest one[] = {cmocka_unit_test(first), cmocka_unit_test(second)};
	const struct CMUnitTest two[] = {cmocka_unit_test(third)};
	if (argc != 2 || strlen(argv[1]) != 3)
		return 2;
	wish = argv[1];
	int failed = cmocka_run_group_tests_name("one", one, NULL, NULL);
	return failed + cmocka_run_group_tests_name("two", two, NULL, NULL);
}

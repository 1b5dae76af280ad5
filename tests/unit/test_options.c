/* test_options.c - what the environment may say, and what is said about the rest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "options.h"

/* The complaints of one parse, "NAME=VALUE: allowed" each. */
static char said[16][512];
static int said_count;

static void hear(void *arg, const char *name, const char *value, const char *allowed)
{
	assert_ptr_equal(arg, said);
	assert_in_range(said_count, 0, 15);
	snprintf(said[said_count++], sizeof(said[0]), "%s=%s: %s", name, value, allowed);
}

#define PARSE(...)                         \
	do {                                   \
		char *env[] = {__VA_ARGS__, NULL}; \
		said_count = 0;                    \
		options_parse(env, hear, said);    \
	} while (0)

static void nothing_set_gives_safe(void **state)
{
	(void)state;
	PARSE("HOME=/", "PATH=/bin");
	assert_int_equal(said_count, 0);
	for (int i = 0; i < OPT_COUNT; i++) {
		assert_string_equal(option_text(i), option_table[i].safe);
		assert_false(option_is_set(i));
	}
	assert_string_equal(option_text(OPT_COPY), "on");
	assert_int_equal(option_get(OPT_COPY), 1);
	assert_int_equal(option_get(OPT_COPY_THREADS), OPTION_AUTO);
	assert_int_equal(option_get(OPT_VERIFY), 0);
}

static void presets_give_their_column(void **state)
{
	(void)state;
	PARSE("TURBO=off");
	for (int i = 1; i < OPT_COUNT; i++)
		assert_string_equal(option_text(i), option_table[i].off);
	PARSE("TURBO=observe");
	for (int i = 1; i < OPT_COUNT; i++)
		assert_string_equal(option_text(i), option_table[i].off);
	assert_int_equal(option_get(OPT_COPY), 0);
	PARSE("TURBO=max");
	for (int i = 0; i < OPT_COUNT; i++)
		assert_string_equal(option_text(i), option_table[i].max);
	assert_int_equal(said_count, 0);
}

static void an_option_overrides_the_preset_wherever_it_stands(void **state)
{
	(void)state;
	PARSE("TURBO_COPY=on", "TURBO=off");
	assert_string_equal(option_text(OPT_COPY), "on");
	assert_true(option_is_set(OPT_COPY));
	assert_int_equal(option_get(OPT_PRESET), 0);
	PARSE("TURBO=max", "TURBO_COPY=off");
	assert_int_equal(option_get(OPT_COPY), 0);
	assert_int_equal(said_count, 0);
}

static void the_table_allows_its_own_defaults(void **state)
{
	(void)state;
	for (int i = 0; i < OPT_COUNT; i++) {
		const struct option_row *row = &option_table[i];
		const char *const defaults[] = {row->safe, row->max, row->off};
		for (int d = 0; d < 3; d++) {
			char entry[128];
			if (row->kind == OPTION_PATH) {
				assert_string_equal(defaults[d], "");
				continue;
			}
			snprintf(entry, sizeof(entry), "%s=%s", row->name, defaults[d]);
			PARSE(entry);
			assert_int_equal(said_count, 0);
			assert_true(option_is_set(i));
		}
	}
}

static void numbers_in_range_are_taken(void **state)
{
	(void)state;
	PARSE("TURBO_COPY_THREADS=0", "TURBO_COPY_RING_MB=1024", "TURBO_COPY_MIN_KB=64", "TURBO_VERIFY=1000000");
	assert_int_equal(said_count, 0);
	assert_int_equal(option_get(OPT_COPY_THREADS), 0);
	assert_int_equal(option_get(OPT_COPY_RING_MB), 1024);
	assert_int_equal(option_get(OPT_COPY_MIN_KB), 64);
	assert_int_equal(option_get(OPT_VERIFY), 1000000);
	PARSE("TURBO_COPY_THREADS=auto", "TURBO_VERIFY=off");
	assert_int_equal(option_get(OPT_COPY_THREADS), OPTION_AUTO);
	assert_int_equal(option_get(OPT_VERIFY), 0);
	assert_true(option_is_set(OPT_VERIFY));
}

static void malformed_numbers_are_refused_with_the_range(void **state)
{
	static const char *const bad[] = {"65",
									  "-1",
									  "+1",
									  " 1",
									  "1 ",
									  "1k",
									  "0x10",
									  "1.0",
									  "1e1",
									  "AUTO",
									  "on",
									  "0..64",
									  "99999999999999999999",
									  "18446744073709551617",
									  "..",
									  "auto|0..64",
									  "|"};
	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char entry[128], expected[256];
		snprintf(entry, sizeof(entry), "TURBO_COPY_THREADS=%s", bad[i]);
		snprintf(expected, sizeof(expected), "%s: allowed is auto|0..64", entry);
		PARSE(entry);
		assert_int_equal(said_count, 1);
		assert_string_equal(said[0], expected);
		assert_int_equal(option_get(OPT_COPY_THREADS), OPTION_AUTO);
		assert_false(option_is_set(OPT_COPY_THREADS));
	}
}

static void words_match_exactly(void **state)
{
	static const char *const bad[] = {"ON", "On", "o", "onn", " on", "on ", "1", "off|on", "true", "\xff"};

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char entry[128];
		snprintf(entry, sizeof(entry), "TURBO_COPY=%s", bad[i]);
		PARSE(entry);
		assert_int_equal(said_count, 1);
		assert_int_equal(option_get(OPT_COPY), 1);
	}
}

static void a_bad_value_gives_the_default_of_the_preset(void **state)
{
	(void)state;
	PARSE("TURBO=off", "TURBO_COPY=maybe");
	assert_int_equal(said_count, 1);
	assert_int_equal(option_get(OPT_COPY), 0);
	PARSE("TURBO=fast");
	assert_int_equal(said_count, 1);
	assert_string_equal(said[0], "TURBO=fast: allowed is off|observe|safe|max");
	assert_string_equal(option_text(OPT_PRESET), "safe");
}

static void an_unknown_name_is_said_with_the_nearest(void **state)
{
	(void)state;
	PARSE("TURBO_COPPY=on");
	assert_int_equal(said_count, 1);
	assert_string_equal(said[0],
						"TURBO_COPPY=on: unknown option; did you mean TURBO_COPY? see `turbo options`");
	PARSE("TURBO_COPY_THRAEDS=4");
	assert_non_null(strstr(said[0], "did you mean TURBO_COPY_THREADS?"));
	PARSE("TURBO_GRANDMOTHER=1");
	assert_int_equal(said_count, 1);
	assert_string_equal(said[0], "TURBO_GRANDMOTHER=1: unknown option; see `turbo options`");
	PARSE("TURBO_=1");
	assert_int_equal(said_count, 1);
}

static void an_unknown_name_of_any_length_is_survived(void **state)
{
	static char entry[100000];

	(void)state;
	memset(entry, 'A', sizeof(entry) - 1);
	memcpy(entry, "TURBO_", 6);
	entry[sizeof(entry) - 10] = '=';
	said_count = 0;
	char *env[] = {entry, NULL};
	options_parse(env, NULL, NULL);
	options_parse(env, hear, said);
	assert_int_equal(said_count, 1);
	assert_in_range(strlen(said[0]), 1, 300);
}

static void each_unknown_name_is_said_once(void **state)
{
	(void)state;
	PARSE("TURBO_A_B_C=1", "TURBO_A_B_C=2", "TURBO_A_B_CD=3");
	assert_int_equal(said_count, 2);
}

static void other_programs_names_and_marks_are_left_alone(void **state)
{
	(void)state;
	PARSE("TURBOJPEG=1", "TURBO_RUN=1", "TURBO_ENGAGED=1", "TURBO_WARNED=1", "turbo_copy=off",
		  "XTURBO_COPY=off", "TURBO_NOVALUE", "TURBO_COPY", "");
	assert_int_equal(said_count, 0);
	assert_int_equal(option_get(OPT_COPY), 1);
}

static void an_empty_value_is_no_value(void **state)
{
	(void)state;
	PARSE("TURBO=", "TURBO_COPY=", "TURBO_VERIFY=", "TURBO_LOG_FILE=");
	assert_int_equal(said_count, 0);
	for (int i = 0; i < OPT_COUNT; i++)
		assert_false(option_is_set(i));
	assert_string_equal(option_text(OPT_LOG_FILE), "");
}

static void the_first_of_two_entries_counts(void **state)
{
	(void)state;
	PARSE("TURBO_COPY=off", "TURBO_COPY=early");
	assert_int_equal(option_get(OPT_COPY), 0);
	PARSE("TURBO_COPY=", "TURBO_COPY=off");
	assert_false(option_is_set(OPT_COPY));
	assert_int_equal(option_get(OPT_COPY), 1);
}

static void a_path_points_into_the_environment(void **state)
{
	char entry[] = "TURBO_LOG_FILE=/tmp/a b=c";

	(void)state;
	PARSE(entry);
	assert_ptr_equal(option_text(OPT_LOG_FILE), entry + strlen("TURBO_LOG_FILE="));
}

static void parsing_again_forgets_the_first_time(void **state)
{
	(void)state;
	PARSE("TURBO_COPY=early", "TURBO_VERIFY=7");
	assert_int_equal(option_get(OPT_COPY), 2);
	PARSE("X=1");
	assert_int_equal(option_get(OPT_COPY), 1);
	assert_int_equal(option_get(OPT_VERIFY), 0);
	assert_false(option_is_set(OPT_VERIFY));
	options_parse(NULL, hear, said);
	assert_int_equal(option_get(OPT_COPY), 1);
}

static void rows_are_fit_to_print(void **state)
{
	(void)state;
	for (int i = 0; i < OPT_COUNT; i++) {
		const struct option_row *row = &option_table[i];
		size_t len = strlen(row->text);
		assert_true(i == 0 ? strcmp(row->name, "TURBO") == 0 : strncmp(row->name, "TURBO_", 6) == 0);
		assert_true(len > 10 && row->text[len - 1] == '.');
		assert_null(strchr(row->text, '|')); /* Markdown's table would break */
		for (int j = 0; j < i; j++)
			assert_string_not_equal(row->name, option_table[j].name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_set_gives_safe),
		cmocka_unit_test(presets_give_their_column),
		cmocka_unit_test(an_option_overrides_the_preset_wherever_it_stands),
		cmocka_unit_test(the_table_allows_its_own_defaults),
		cmocka_unit_test(numbers_in_range_are_taken),
		cmocka_unit_test(malformed_numbers_are_refused_with_the_range),
		cmocka_unit_test(words_match_exactly),
		cmocka_unit_test(a_bad_value_gives_the_default_of_the_preset),
		cmocka_unit_test(an_unknown_name_is_said_with_the_nearest),
		cmocka_unit_test(an_unknown_name_of_any_length_is_survived),
		cmocka_unit_test(each_unknown_name_is_said_once),
		cmocka_unit_test(other_programs_names_and_marks_are_left_alone),
		cmocka_unit_test(an_empty_value_is_no_value),
		cmocka_unit_test(the_first_of_two_entries_counts),
		cmocka_unit_test(a_path_points_into_the_environment),
		cmocka_unit_test(parsing_again_forgets_the_first_time),
		cmocka_unit_test(rows_are_fit_to_print),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

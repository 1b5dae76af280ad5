/* test_nccl_report_words.c - figures, dates, ranks and names in words, and what does not fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "policy/nccl/report_parts.h"

/* ---- figures ---- */

static void test_figures(void **state)
{
	static const struct {
		uint64_t ns;
		const char *age, *brief;
	} ages[] = {
		{0, "0 ms", "0 ms"},
		{99999999, "99 ms", "99 ms"},
		{400000000, "0.4 s", "0.4 s"},
		{12900000000u, "12 s", "12 s"},
		{252000000000u, "4 min 12 s", "4m12s"},
		{11100000000000u, "3 h 5 min", "3h05m"},
		{400000000000000u, "4 d 15 h", "4d15h"},
		{999999999000000000u, "999 d 1 h", "999d01h"},
		{UINT64_MAX, "", ""},
	};
	static const struct {
		uint64_t bytes;
		const char *size;
	} sizes[] = {{0, "0 B"},           {1023, "1023 B"},       {16384, "16.0 KiB"},     {1048575, "1023 KiB"},
				 {1572864, "1.5 MiB"}, {134217728, "128 MiB"}, {UINT64_MAX, "15.9 EiB"}};
	char buf[64];
	struct out o;
	(void)state;
	for (size_t i = 0; i < sizeof(ages) / sizeof(ages[0]); i++) {
		out_begin(&o, buf, sizeof(buf));
		out_age(&o, ages[i].ns);
		if (i + 1 < sizeof(ages) / sizeof(ages[0]))
			assert_string_equal(buf, ages[i].age);
		out_begin(&o, buf, sizeof(buf));
		out_age_short(&o, ages[i].ns);
		assert_true(i + 1 == sizeof(ages) / sizeof(ages[0]) || !strcmp(buf, ages[i].brief));
	}
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		out_begin(&o, buf, sizeof(buf));
		out_size(&o, sizes[i].bytes);
		assert_string_equal(buf, sizes[i].size);
	}
}

static void test_times(void **state)
{
	static const struct {
		uint64_t s;
		const char *text;
	} t[] = {{0, "1970-01-01T00:00:00Z"},
			 {951782400, "2000-02-29T00:00:00Z"},
			 {1709251199, "2024-02-29T23:59:59Z"},
			 {1735689599, "2024-12-31T23:59:59Z"},
			 {4107542400, "2100-03-01T00:00:00Z"}};
	char buf[64];
	struct out o;
	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		out_begin(&o, buf, sizeof(buf));
		report_time(&o, t[i].s * 1000000000u);
		assert_string_equal(buf, t[i].text);
	}
}

/* ---- what does not fit ---- */

static void test_fit(void **state)
{
	char buf[32];
	struct out o;
	(void)state;
	out_begin(&o, buf, sizeof(buf));
	out_name_fit(&o, "/a/long/path/train.py", SIZE_MAX, 10, OUT_LAST);
	assert_string_equal(buf, "..train.py");
	out_begin(&o, buf, sizeof(buf));
	out_name_fit(&o, "gr\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc", SIZE_MAX, 5, OUT_FIRST);
	assert_string_equal(buf, "gr\xc3\xbc..");
	out_begin(&o, buf, 8);
	out_string(&o, "12345");
	out_string(&o, "678");
	out_string(&o, "9"); /* after something was left out nothing follows */
	assert_true(o.cut);
	out_end_cut(&o);
	assert_string_equal(buf, "12345..");
}

static void test_ranks(void **state)
{
	int32_t some[] = {7, 0, 2, 3, 4}, many[] = {1, 3, 5, 7, 9, 11, 13}, two[] = {4, 3};
	char buf[64];
	struct out o;
	(void)state;
	out_begin(&o, buf, sizeof(buf));
	report_ranks(&o, some, 5);
	assert_string_equal(buf, "ranks 0, 2-4 and 7");
	out_begin(&o, buf, sizeof(buf));
	report_ranks(&o, many, 7);
	assert_string_equal(buf, "ranks 1, 3, 5, 7 and 3 more");
	out_begin(&o, buf, sizeof(buf));
	report_ranks(&o, two, 2);
	assert_string_equal(buf, "ranks 3 and 4");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_figures),
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_fit),
		cmocka_unit_test(test_ranks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test_report_html.c - the page of `turbo report --html`: the JSON arrives in it whole, and cannot leave its place.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tools/timeline/report.h"

/* In place of the real one: what this test wants to see in the page. */
static const char *document;

void report_json(const struct report *r, FILE *to)
{
	(void)r;
	fputs(document, to);
}

static char *page_of(const char *json)
{
	char *text = NULL;
	size_t size = 0;
	FILE *to = open_memstream(&text, &size);
	struct report r = {0};
	document = json;
	assert_non_null(to);
	assert_true(report_html(&r, to));
	fclose(to);
	assert_int_equal(strlen(text), size);
	return text;
}

#define OPENING "<script type=\"application/json\" id=\"report\">"

/* The text of the element that holds the report. */
static char *embedded(const char *page)
{
	const char *start = strstr(page, OPENING);
	assert_non_null(start);
	start += strlen(OPENING);
	const char *end = strchr(start, '<');
	assert_non_null(end);
	assert_memory_equal(end, "</script>", strlen("</script>"));
	return strndup(start, (size_t)(end - start));
}

static void whole_page(void **state)
{
	(void)state;
	char *page = page_of("{\"version\": 1}");
	assert_memory_equal(page, "<!DOCTYPE html>", strlen("<!DOCTYPE html>"));
	assert_null(strstr(page, "@REPORT@"));
	assert_null(strstr(page, "@SCRIPT"));
	assert_null(strstr(page, "@STYLE"));
	assert_string_equal(page + strlen(page) - strlen("</html>\n"), "</html>\n");
	char *json = embedded(page);
	assert_string_equal(json, "{\"version\": 1}");
	free(json);
	free(page);
}

static void hostile_names(void **state)
{
	(void)state;
	char *page =
		page_of("{\"a\": \"</script><script>x</script>\", \"b\": \"<!--<script>\", \"c\": \"@REPORT@\"}");
	char *json = embedded(page);
	assert_string_equal(json, "{\"a\": \"\\u003c/script>\\u003cscript>x\\u003c/script>\", "
							  "\"b\": \"\\u003c!--\\u003cscript>\", \"c\": \"@REPORT@\"}");
	free(json);
	free(page);
}

/* More than stdio buffers at once, with a '<' at every distance from the buffers' ends. */
static void long_report(void **state)
{
	(void)state;
	size_t size = 300001;
	char *json = malloc(size + 1);
	assert_non_null(json);
	for (size_t i = 0; i < size; i++)
		json[i] = i % 7 ? 'x' : '<';
	json[size] = '\0';
	char *page = page_of(json);
	char *got = embedded(page);
	const char *at = got;
	for (size_t i = 0; i < size; i++) {
		const char *want = i % 7 ? "x" : "\\u003c";
		assert_memory_equal(at, want, strlen(want));
		at += strlen(want);
	}
	assert_int_equal(*at, '\0');
	free(got);
	free(page);
	free(json);
}

/* Nothing is fetched: no address but the namespace of SVG, which names and does not load. */
static void no_address(void **state)
{
	(void)state;
	char *page = page_of("{}");
	const char *at = page;
	while ((at = strstr(at, "://"))) {
		assert_true(at - page > 4);
		assert_memory_equal(at - 4, "http://www.w3.org/2000/svg", strlen("http://www.w3.org/2000/svg"));
		at += 3;
	}
	assert_null(strstr(page, " src="));
	assert_null(strstr(page, "url("));
	assert_null(strstr(page, "@import"));
	free(page);
}

static void full_disk(void **state)
{
	(void)state;
	struct report r = {0};
	FILE *to = fopen("/dev/full", "w");
	if (!to) {
		print_message("no /dev/full here\n");
		skip();
	}
	document = "{}";
	errno = 0;
	assert_false(report_html(&r, to));
	assert_int_equal(errno, ENOSPC);
	fclose(to);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_page), cmocka_unit_test(hostile_names), cmocka_unit_test(long_report),
		cmocka_unit_test(no_address), cmocka_unit_test(full_disk),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

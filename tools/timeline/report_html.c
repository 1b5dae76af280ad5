/*
 * report_html.c - the report as one page: the page that the build has put together, with the JSON in it.
 *
 * The JSON stands in a <script type="application/json">, which only "</script" and "<!--" could end: every
 * '<' in it is written as \u003c. In JSON a '<' occurs inside strings only.
 */
#include <errno.h>
#include <string.h>

#include "report.h"

#define PLACE "@REPORT@"

/* Made by page/assemble.sh; the Makefile rebuilds this file when it changes. */
__asm__(".pushsection .rodata\n"
		"report_page: .incbin \"report_page.html\"\n"
		"report_page_end:\n"
		".popsection\n");
extern const char report_page[], report_page_end[] __attribute__((visibility("hidden")));

/* The write function of a stream that escapes what goes through it to the FILE `cookie`. */
static ssize_t write_escaped(void *cookie, const char *data, size_t size)
{
	FILE *to = cookie;
	const char *end = data + size;
	for (const char *at = data; at < end;) {
		const char *less = memchr(at, '<', (size_t)(end - at));
		size_t plain = (size_t)((less ? less : end) - at);
		if (fwrite(at, 1, plain, to) != plain)
			return 0;
		at += plain;
		if (less) {
			if (fputs("\\u003c", to) == EOF)
				return 0;
			at++;
		}
	}
	return (ssize_t)size;
}

bool report_html(const struct report *r, FILE *to)
{
	size_t size = (size_t)(report_page_end - report_page);
	const char *place = memmem(report_page, size, PLACE, strlen(PLACE));
	const char *after = place + strlen(PLACE);
	if (fwrite(report_page, 1, (size_t)(place - report_page), to) != (size_t)(place - report_page))
		return false;
	FILE *json = fopencookie(to, "w", (cookie_io_functions_t){.write = write_escaped});
	if (!json)
		return false;
	report_json(r, json);
	bool written = !ferror(json);
	if (fclose(json) || !written || ferror(to))
		return false;
	size = (size_t)(report_page_end - after);
	return fwrite(after, 1, size, to) == size && !fflush(to);
}

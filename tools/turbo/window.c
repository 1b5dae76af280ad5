/*
 * window.c - the part of a timeline that is asked for: --window START..END of `turbo report` and `turbo export`.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "turbo.h"

/* "1.5", "1.5s", "200ms": seconds without a unit. */
static bool parse_time(const char *s, const char *end, uint64_t *ns)
{
	char *rest;
	errno = 0;
	double v = strtod(s, &rest);
	if (rest == end + 1)
		rest--; /* of "1..2" it takes "1." */
	size_t n = (size_t)(end - rest);
	double unit = !n || (n == 1 && *rest == 's')      ? 1e9
				  : n == 2 && !strncmp(rest, "ms", 2) ? 1e6
				  : n == 2 && !strncmp(rest, "us", 2) ? 1e3
													  : 0;
	if (rest == s || rest > end || unit == 0 || errno || !(v >= 0) || v * unit >= 9e18)
		return false;
	*ns = (uint64_t)(v * unit + 0.5);
	return true;
}

int window_take(const char *command, const char *value, uint64_t *start, uint64_t *end)
{
	const char *dots = strstr(value, "..");
	*start = 0;
	*end = UINT64_MAX;
	bool ok = dots && (dots == value || parse_time(value, dots, start)) &&
			  (!dots[2] || parse_time(dots + 2, value + strlen(value), end));
	if (!ok || (dots == value && !dots[2]))
		return usage_error(
			command,
			"--window %s: START..END, two times after the beginning, as 1.5..3 or 200ms..1s; one may be left out",
			value);
	if (*end <= *start)
		return usage_error(command, "--window %s: it ends before it begins", value);
	return 0;
}

/*
 * timeline_fixture.h - a folder for timeline files, and the words that tests of their reader share.
 */
#ifndef TURBO_TEST_TIMELINE_FIXTURE_H
#define TURBO_TEST_TIMELINE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/common/trace_build.h"
#include "tools/timeline/trace.h"

static char dir[] = "/tmp/test_timeline.XXXXXX";
static char why[256];

static inline const char *in_dir(const char *name)
{
	static char path[2][256];
	static int turn;
	turn = !turn;
	snprintf(path[turn], sizeof(path[turn]), "%s/%s", dir, name);
	return path[turn];
}

static inline int make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static inline int remove_dir(void **state)
{
	char command[300];
	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	return system(command);
}

static inline struct trace *open_good(const char *path)
{
	struct trace *t = trace_open(path, why, sizeof(why));
	if (!t)
		fail_msg("%s: %s", path, why);
	return t;
}

static inline void refused(const char *path, const char *text)
{
	struct trace *t = trace_open(path, why, sizeof(why));
	if (t || !strstr(why, text))
		fail_msg("%s: expected '%s', not '%s'", path, text, t ? "" : why);
}

/* One kernel, one copy on two streams. */
static inline const char *small_file(void)
{
	const char *path = in_dir("small.timeline");
	struct trace_build *b = trace_build_open(path, &(struct trace_build_setup){.rank = 1, .ranks = 4});
	uint16_t one = trace_build_stream(b, 0, 7), two = trace_build_stream(b, 0, 20);
	uint32_t kernel = trace_build_kernel_entry(b, "_Z4axpyifPfS_", 64, 256);
	uint32_t copy = trace_build_copy_entry(b, 1, 1, 3);
	trace_build_kernel(b, one, kernel, 5000, 250, 17);
	trace_build_add(b, two, copy, 1000, 5000000000ull, 18, 4096);
	trace_build_close(b);
	return path;
}

#endif

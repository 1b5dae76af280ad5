/*
 * log_fixture.h - descriptor 2 caught in a pipe, a folder to write to, and the log started
 * as the environment would.
 */
#ifndef LOG_FIXTURE_H
#define LOG_FIXTURE_H

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "log.h"
#include "options.h"

#define UNUSED __attribute__((unused))

static char dir[] = "/tmp/test_log.XXXXXX";
static int real_stderr;

/* ---- capturing descriptor 2 ---- */

static int pipe_read;

static UNUSED void capture_start(void)
{
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	assert_int_equal(dup2(ends[1], 2), 2);
	close(ends[1]);
	pipe_read = ends[0];
}

/* What came since; descriptor 2 is the test's own again. */
static UNUSED const char *capture_end(void)
{
	static char text[8192];
	ssize_t n = read(pipe_read, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	close(pipe_read);
	assert_int_equal(dup2(real_stderr, 2), 2);
	return text;
}

static UNUSED void start(const char *level, const char *file)
{
	static char level_entry[64], file_entry[512];
	char *env[] = {level_entry, file_entry, NULL};

	snprintf(level_entry, sizeof(level_entry), "TURBO_LOG=%s", level);
	snprintf(file_entry, sizeof(file_entry), "TURBO_LOG_FILE=%s", file);
	options_parse(env, NULL, NULL);
	log_start();
}

static UNUSED const char *in_dir(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static UNUSED const char *contents(const char *path)
{
	static char text[8192];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	return text;
}

static UNUSED const char *line_of(const char *level, const char *text)
{
	static char line[2048];

	snprintf(line, sizeof(line), "libturbo[%d]: %s: %s\n", (int)getpid(), level, text);
	return line;
}

static UNUSED double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int log_set_up(void **state)
{
	(void)state;
	real_stderr = fcntl(2, F_DUPFD_CLOEXEC, 100);
	return real_stderr < 0 || !mkdtemp(dir);
}

static int log_clean_up(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

#endif

/* recording_fixture.h - recordings made for a test, in a directory of its own, and records that tell whether they are whole. */
#ifndef TURBO_TESTS_RECORDING_FIXTURE_H
#define TURBO_TESTS_RECORDING_FIXTURE_H

#include <time.h>
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "cupti/recording.h"
#include "tools/timeline/trace.h"

#define FIXTURE_BASE UINT64_C(1800000000000000000)
#define FIXTURE_KERNELS 5

static char fixture_dir[64];
static char fixture_why[512];

static inline int fixture_make(void **state)
{
	(void)state;
	strcpy(fixture_dir, "/tmp/timeline-XXXXXX");
	return mkdtemp(fixture_dir) ? 0 : -1;
}

static inline int fixture_remove(void **state)
{
	(void)state;
	char path[512];
	struct dirent *entry;
	DIR *d = opendir(fixture_dir);

	recording_close();
	while (d && (entry = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s", fixture_dir, entry->d_name);
		if (unlink(path) != 0)
			rmdir(path);
	}
	if (d)
		closedir(d);
	return rmdir(fixture_dir);
}

/* A recording in the directory with a ring of `bytes`. */
static inline bool fixture_open(uint64_t bytes)
{
	struct recording_setup setup = {
		.mode = TIMELINE_MODE_KERNEL, .dir = fixture_dir, .bytes = bytes, .least_bytes = bytes};

	fixture_why[0] = '\0';
	return recording_open(&setup, fixture_why, sizeof(fixture_why));
}

/* Record n of `writer`; all of it follows from the two. */
static inline struct timeline_record fixture_record(uint32_t writer, uint64_t n)
{
	char name[32];
	struct timeline_entry entry = {.kind = TIMELINE_KERNEL};
	struct timeline_lane lane = {.kind = TIMELINE_LANE_STREAM, .stream = 7 + writer};

	entry.kernel.grid[0] = (uint32_t)(n % FIXTURE_KERNELS);
	snprintf(name, sizeof(name), "kernel%u", (unsigned)(n % FIXTURE_KERNELS));
	return (struct timeline_record){
		.start = FIXTURE_BASE + n * 1000,
		.duration = (uint32_t)n * 7,
		.correlation = (uint32_t)n,
		.entry = recording_entry(&entry, name),
		.lane = recording_lane(&lane, NULL),
		.kind = TIMELINE_KERNEL,
		.value = (uint64_t)writer << 48 | n,
	};
}

static inline uint64_t fixture_number(const struct trace_event *e)
{
	return e->value & UINT64_C(0xffffffffffff);
}

static inline uint32_t fixture_writer(const struct trace_event *e)
{
	return (uint32_t)(e->value >> 48);
}

/* The event is record n of its writer, with the name, the entry and the lane that it was given. */
static inline bool fixture_whole(const struct trace_event *e)
{
	uint64_t n = fixture_number(e);
	char name[32];

	snprintf(name, sizeof(name), "kernel%u", (unsigned)(n % FIXTURE_KERNELS));
	return e->start == FIXTURE_BASE + n * 1000 && e->duration == (uint32_t)((uint32_t)n * 7) &&
		   e->correlation == (uint32_t)n && e->kind == TIMELINE_KERNEL &&
		   e->lane->kind == TIMELINE_LANE_STREAM && e->lane->stream == 7 + fixture_writer(e) &&
		   e->entry->kernel.grid[0] == n % FIXTURE_KERNELS && strcmp(e->name, name) == 0;
}

/* Puts records [from, to) in brackets of a few hundred, and all of them into the file. */
/* A writer waits for others for a bounded time, in which a slow machine may not come to run them. */
static inline void fixture_begin(void)
{
	const struct timespec nap = {0, 1000000};
	int tries = 0;

	while (!recording_begin()) {
		assert_true(tries++ < 5000);
		nanosleep(&nap, NULL);
	}
}

static inline void fixture_put(uint32_t writer, uint64_t from, uint64_t to)
{
	while (from < to) {
		uint64_t end = from + 300 < to ? from + 300 : to;
		fixture_begin();
		for (; from < end; from++) {
			struct timeline_record r = fixture_record(writer, from);
			recording_put(&r);
		}
		recording_end();
	}
	recording_save();
}

static inline struct trace *fixture_read(const char *path)
{
	struct trace *t = trace_open(path, fixture_why, sizeof(fixture_why));

	if (!t)
		fail_msg("%s: %s", path, fixture_why);
	return t;
}

/* All events are whole; how many there are. */
static inline uint64_t fixture_check(struct trace *t)
{
	struct trace_event e;
	uint64_t n = 0;

	assert_int_equal(trace_damaged(t), 0);
	assert_true(trace_rewind(t));
	for (; trace_next(t, &e); n++)
		assert_true(fixture_whole(&e));
	return n;
}

#endif

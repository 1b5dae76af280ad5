/*
 * report_fixture.h - timelines made by hand, and the report on them. Times are in microseconds.
 */
#ifndef TURBO_TEST_REPORT_FIXTURE_H
#define TURBO_TEST_REPORT_FIXTURE_H

#include "timeline_fixture.h"

#include "tools/timeline/report.h"

#define US 1000ull
#define MB 1000000ull

/* CUpti_ActivityMemcpyKind, CUpti_ActivityMemoryKind. */
enum { HTOD = 1, DTOH = 2, DTOD = 8, PTOP = 10 };
enum { PAGEABLE = 1, PINNED = 2, DEVICE = 3 };

struct scene {
	struct trace_build *b;
	uint16_t a, c; /* two streams of device 0 */
	uint16_t host, memory;
	uint32_t correlation;
};

static char scene_path[16][256];
static unsigned scenes;

static inline struct scene scene_with(const struct trace_build_setup *setup)
{
	struct scene s = {.correlation = 1};
	snprintf(scene_path[scenes], sizeof(scene_path[0]), "%s/scene%u.timeline", dir, scenes);
	s.b = trace_build_open(scene_path[scenes++], setup);
	s.a = trace_build_stream(s.b, 0, 7);
	s.c = trace_build_stream(s.b, 0, 20);
	s.host = trace_build_thread(s.b, 4711);
	s.memory = trace_build_lane(s.b, &(struct timeline_lane){.kind = TIMELINE_LANE_DEVICE}, NULL);
	return s;
}

static inline struct scene scene(void)
{
	return scene_with(&(struct trace_build_setup){.chunks = 64});
}

static inline struct scene scene_of_rank(int rank, int ranks)
{
	return scene_with(&(struct trace_build_setup){.chunks = 64, .rank = rank, .ranks = ranks});
}

static inline void kernel(struct scene *s, uint16_t stream, const char *name, uint64_t from, uint64_t to)
{
	trace_build_kernel(s->b, stream, trace_build_kernel_entry(s->b, name, 64, 256), from * US,
					   (to - from) * US, 0);
}

static inline void copy(struct scene *s, uint16_t stream, uint32_t direction, uint32_t host_memory,
						uint64_t bytes, uint64_t from, uint64_t to)
{
	uint32_t source = direction == HTOD ? host_memory : DEVICE,
			 sink = direction == DTOH ? host_memory : DEVICE;
	trace_build_add(s->b, stream, trace_build_copy_entry(s->b, direction, source, sink), from * US,
					(to - from) * US, 0, bytes);
}

/* Anything on the host, by kind and name. */
static inline void on_host(struct scene *s, enum timeline_kind kind, const char *name, uint64_t from,
						   uint64_t to, uint64_t value)
{
	trace_build_add(s->b, s->host, trace_build_plain(s->b, kind, name), from * US, (to - from) * US, 0,
					value);
}

static inline void memory_used(struct scene *s, uint64_t at, uint64_t bytes)
{
	trace_build_add(s->b, s->memory, trace_build_plain(s->b, TIMELINE_COUNTER, "device memory used"), at * US,
					0, 0, bytes);
}

static inline void gap(struct scene *s, uint64_t from, uint64_t to)
{
	trace_build_add(s->b, 0, trace_build_plain(s->b, TIMELINE_GAP, "another CUPTI client"), from * US,
					(to - from) * US, 0, 0);
}

/* The report on all scenes since the last report; they are over. */
static inline struct report *report_with(const struct report_options *o)
{
	struct trace *t[16];
	for (unsigned i = 0; i < scenes; i++)
		t[i] = open_good(scene_path[i]);
	struct report *r = report_make(t, scenes, o);
	for (unsigned i = 0; i < scenes; i++)
		trace_close(t[i]);
	for (; scenes; scenes--)
		unlink(scene_path[scenes - 1]);
	return r;
}

static inline struct report *report_of(struct scene *s)
{
	trace_build_close(s->b);
	return report_with(&(struct report_options){0});
}

#endif

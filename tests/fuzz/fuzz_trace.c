/*
 * fuzz_trace.c - a timeline file of any bytes: opened, walked, reported and exported in every format, it must do
 * no harm.
 *
 * With libFuzzer (`make fuzz`), or with a main() of its own that replays the files and folders it is given.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/timeline/export.h"
#include "tools/timeline/report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A promise of trace.h does not hold. */
#define MUST(x)                                                     \
	do {                                                            \
		if (!(x)) {                                                 \
			fprintf(stderr, "%s:%d: " #x "\n", __FILE__, __LINE__); \
			abort();                                                \
		}                                                           \
	} while (0)

static bool printable(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return false;
	return true;
}

static void check_tables(struct trace *t)
{
	const struct timeline_header *h = trace_header(t);
	MUST(h->device_count <= TIMELINE_DEVICES && h->rank >= -1 && h->mode <= TIMELINE_MODE_LAUNCH);
	MUST(printable(h->host) && printable(h->command) && printable(h->version_text));
	MUST(trace_entries(t) && trace_lanes(t));
	for (uint32_t i = 0; i < trace_entries(t); i++) {
		const struct timeline_entry *e = trace_entry(t, i);
		MUST(e->kind < TIMELINE_KINDS);
		MUST(printable(trace_name(t, e->name)));
		if (i < 4)
			MUST(printable(trace_demangled(t, i)));
	}
	for (uint32_t i = 0; i < trace_lanes(t); i++)
		MUST(printable(trace_name(t, trace_lane(t, i)->name)));
	MUST(printable(trace_name(t, UINT32_MAX)));
	trace_clock_offset(t, h->start_ns);
}

static void check_event(const struct trace *t, const struct trace_event *e)
{
	MUST(e->kind > TIMELINE_NONE && e->kind < TIMELINE_KINDS);
	MUST(e->entry_index < trace_entries(t) && e->lane_index < trace_lanes(t));
	MUST(e->entry == trace_entry(t, e->entry_index) && e->lane == trace_lane(t, e->lane_index));
	MUST(e->entry->kind == e->kind || e->entry_index == 0);
	MUST(e->start + e->duration >= e->start && e->start + e->duration < INT64_MAX);
	MUST(printable(e->name));
}

/* All records, twice alike. */
static void walk(struct trace *t)
{
	uint64_t n[2] = {0, 0}, first = 0, last = 0;
	bool any = trace_span(t, &first, &last);
	for (int pass = 0; pass < 2; pass++) {
		struct trace_event e;
		uint64_t before = 0;
		trace_rewind(t);
		for (; trace_next(t, &e); n[pass]++) {
			check_event(t, &e);
			MUST(e.start >= before && e.start >= first && e.start + e.duration <= last);
			before = e.start;
		}
	}
	MUST(n[0] == n[1] && n[0] == trace_records(t) && (n[0] != 0) == any);
	trace_damaged(t);
}

static void export_all(struct trace *t)
{
	uint64_t first = 0, last = 0;
	trace_span(t, &first, &last);
	for (int round = 0; round < 4; round++) {
		struct output o;
		struct export_request q = {
			.kinds = UINT32_MAX,
			.from = round == 3 ? first + (last - first) / 2 : 0,
			.to = round == 3 ? last : UINT64_MAX,
			.origin = first,
			.integer_us = round == 1,
			.count = 1,
			.trace_name = "fuzz",
		};
		MUST(output_open(&o, "/dev/null", false) == 0);
		(round < 2 ? export_kineto : export_perfetto)(t, &q, &o);
		MUST(output_close(&o) == 0);
	}
}

/* Twice, as two ranks; the second time in a window. */
static void report_all(struct trace *t)
{
	static FILE *nowhere;
	struct trace *two[] = {t, t};
	uint64_t first = 0, last = 0;
	if (!nowhere)
		nowhere = fopen("/dev/null", "w");
	MUST(nowhere);
	trace_span(t, &first, &last);
	for (unsigned round = 0; round < 2; round++) {
		const struct report_options o = {.window_end = round ? (last - first) / 2 : 0};
		struct report *r = report_make(two, 1 + round, &o);
		MUST(r);
		report_text(r, nowhere, REPORT_UTF8, round ? 180 : 0);
		report_json(r, nowhere);
		report_free(r);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	static char path[64];
	char why[256] = "";
	if (fd < 0) {
		fd = memfd_create("fuzz", MFD_CLOEXEC);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	MUST(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
	struct trace *t = trace_open(path, why, sizeof(why));
	if (!t) {
		MUST(*why && printable(why));
		return 0;
	}
	check_tables(t);
	walk(t);
	export_all(t);
	report_all(t);
	trace_close(t);
	return 0;
}

/* test_timeline_export.c - the parts of exports: rows for what overlaps, occupancy, names, whole files or none. */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <signal.h>
#include <zlib.h>

#include "timeline_fixture.h"

#include "tools/timeline/export.h"
#include "tools/timeline/protobuf.h"

/* ---- rows ---- */

static struct tracks tracks;
static struct trace *opened;

/* Two contexts with a stream of the same number, and a thread: lanes 1, 2 and 3. */
static void open_tracks(void)
{
	const char *path = in_dir("tracks.timeline");
	struct trace_build *b = trace_build_open(path, &(struct trace_build_setup){.chunks = 1});
	trace_build_stream(b, 0, 7);
	trace_build_lane(b, &(struct timeline_lane){.kind = TIMELINE_LANE_STREAM, .context = 9, .stream = 7},
					 NULL);
	trace_build_lane(b, &(struct timeline_lane){.kind = TIMELINE_LANE_THREAD, .thread = 4711}, "loader");
	trace_build_close(b);
	opened = open_good(path);
	assert_true(tracks_open(&tracks, opened));
}

static void close_tracks(void)
{
	tracks_close(&tracks);
	trace_close(opened);
}

static const struct track *place(enum timeline_kind kind, uint32_t lane, uint64_t start, uint64_t end)
{
	bool fresh;
	const struct trace_event e = {.kind = kind, .lane_index = lane, .lane = trace_lane(opened, lane)};
	const struct track *k = tracks_place(&tracks, &e, start, end, &fresh);
	assert_non_null(k);
	return k;
}

static const char *name_of(const struct track *k)
{
	static char name[256];
	return track_name(&tracks, k, name, sizeof(name));
}

static void test_overlaps_get_rows(void **state)
{
	(void)state;
	open_tracks();
	assert_int_equal(place(TIMELINE_KERNEL, 1, 0, 100)->row, 0);
	assert_int_equal(place(TIMELINE_KERNEL, 1, 100, 200)->row, 0); /* behind each other */
	assert_int_equal(place(TIMELINE_KERNEL, 1, 150, 160)->row, 1); /* within: on a stream still a row */
	assert_int_equal(place(TIMELINE_COPY, 1, 155, 300)->row, 2);
	assert_int_equal(place(TIMELINE_KERNEL, 1, 200, 210)->row, 0);
	assert_int_equal(place(TIMELINE_KERNEL, 1, 205, 400)->row, 1);
	assert_string_equal(name_of(place(TIMELINE_KERNEL, 1, 206, 400)), "stream 7 +3");
	close_tracks();
}

static void test_calls_nest(void **state)
{
	(void)state;
	open_tracks();
	assert_int_equal(place(TIMELINE_API, 3, 0, 100)->row, 0);
	assert_int_equal(place(TIMELINE_API, 3, 10, 100)->row, 0);
	assert_int_equal(place(TIMELINE_API, 3, 20, 30)->row, 0);
	assert_int_equal(place(TIMELINE_API, 3, 25, 35)->row, 1); /* across the end of the one around it */
	assert_int_equal(place(TIMELINE_API, 3, 40, 50)->row, 0);
	assert_string_equal(name_of(place(TIMELINE_API, 3, 200, 300)), "thread 4711 loader");
	assert_string_equal(name_of(place(TIMELINE_EVENT, 3, 200, 300)), "libturbo (thread 4711)");
	assert_string_equal(name_of(place(TIMELINE_COLLECTIVE, 3, 200, 300)), "NCCL (thread 4711)");
	assert_string_equal(name_of(place(TIMELINE_GAP, 0, 200, 300)), "not recorded");
	close_tracks();
}

static void test_streams_of_one_number(void **state)
{
	(void)state;
	open_tracks();
	const struct track *a = place(TIMELINE_KERNEL, 1, 0, 10);
	assert_true(a->first_row);
	assert_string_equal(name_of(a), "stream 7");
	const struct track *b = place(TIMELINE_KERNEL, 2, 0, 10);
	assert_false(b->first_row);
	assert_string_equal(name_of(b), "stream 7 of context 9");
	close_tracks();
}

/* However much overlaps, rows are bounded. */
static void test_rows_are_bounded(void **state)
{
	(void)state;
	open_tracks();
	for (uint32_t i = 0; i < 2000; i++)
		assert_true(place(TIMELINE_KERNEL, 1, i, 1000000)->row < 256);
	close_tracks();
}

/* ---- gaps ---- */

static uint64_t gap_durations[8];
static unsigned gaps_seen;

static void note_gap(void *arg, const struct trace_event *e)
{
	(void)arg;
	if (e->kind == TIMELINE_GAP)
		gap_durations[gaps_seen++ % 8] = e->duration;
}

static void test_gaps_come_once(void **state)
{
	const char *path = in_dir("gaps.timeline");
	struct trace_build *b = trace_build_open(path, &(struct trace_build_setup){.chunks = 1});
	uint32_t client = trace_build_plain(b, TIMELINE_GAP, "another CUPTI client");
	uint32_t lost = trace_build_plain(b, TIMELINE_GAP, "capture lost");
	uint32_t kernel = trace_build_kernel_entry(b, "k", 1, 1);
	uint16_t stream = trace_build_stream(b, 0, 7);
	(void)state;
	trace_build_add(b, 0, client, 1000, 0, 0, 0);
	trace_build_add(b, 0, lost, 1000, 0, 0, 0);
	trace_build_add(b, 0, client, 1000, 500, 0, 0);
	trace_build_add(b, 0, client, 2000, 0, 0, 0);
	trace_build_add(b, stream, kernel, 3000, 1000, 0, 0);
	trace_build_kill(b);
	struct trace *t = open_good(path);
	struct output o = {.fd = -1};
	struct export_request q = {.kinds = UINT32_MAX, .to = UINT64_MAX, .count = 1};
	export_each(t, &q, &o, note_gap, NULL);
	assert_int_equal(gaps_seen, 3);
	assert_int_equal(gap_durations[0], 500);  /* ended */
	assert_int_equal(gap_durations[1], 3000); /* not: until the last record's end */
	assert_int_equal(gap_durations[2], 2000);
	trace_close(t);
}

/* ---- occupancy: figures of NVIDIA's calculator ---- */

static void test_occupancy(void **state)
{
	static const struct timeline_device h200 = {.major = 9,
												.multiprocessors = 132,
												.threads_a_multiprocessor = 2048,
												.registers_a_multiprocessor = 65536,
												.shared_a_multiprocessor = 233472};
	static const struct {
		uint32_t block, registers, shared, percent;
	} row[] = {
		{256, 32, 0, 100},     /* 8 blocks */
		{1024, 64, 0, 50},     /* registers: 1 block */
		{128, 255, 0, 13},     /* registers: 2 blocks */
		{32, 16, 0, 50},       /* 32 blocks of one warp */
		{128, 32, 100000, 13}, /* shared memory: 2 blocks */
		{384, 168, 0, 19},     /* registers: 12 warps */
		{1024, 255, 0, 0},     /* does not fit */
	};
	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct timeline_entry e = {.kernel = {.grid = {132 * 64, 1, 1},
											  .block = {row[i].block, 1, 1},
											  .registers = row[i].registers,
											  .dynamic_shared = row[i].shared}};
		struct export_occupancy o = export_occupancy(&e, &h200);
		if (o.occupancy_percent != row[i].percent)
			fail_msg("row %zu: %u %%", i, o.occupancy_percent);
		assert_true(o.blocks_per_sm == 64 && o.warps_per_sm == 64.0 * row[i].block / 32);
	}
	struct timeline_entry few = {.kernel = {.grid = {66, 1, 1}, .block = {256, 1, 1}, .registers = 32}};
	assert_int_equal(export_occupancy(&few, &h200).occupancy_percent, 6); /* half a block each */
	assert_int_equal(export_occupancy(&few, NULL).occupancy_percent, 0);
}

/* ---- names ---- */

static void expect_name(const struct timeline_entry *entry, enum timeline_kind kind, const char *want)
{
	char buf[128];
	const struct trace_event e = {.kind = kind, .entry = entry, .name = ""};
	assert_string_equal(export_name(NULL, &e, buf, sizeof(buf)), want);
}

static void test_names(void **state)
{
	(void)state;
	for (uint32_t direction = 0; direction < 12; direction++) {
		static const char *const name[] = {"Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
										   "AtoD",    "DtoA", "DtoD", "HtoH", "PtoP", "<unknown>"};
		char want[64];
		snprintf(want, sizeof(want), "Memcpy %s (Pageable -> Device)", name[direction]);
		expect_name(&(struct timeline_entry){.copy = {direction, 1, 3, 0, 0, 0}}, TIMELINE_COPY, want);
	}
	expect_name(&(struct timeline_entry){.copy = {2, 3, 2, 0, 0, 0}}, TIMELINE_COPY,
				"Memcpy DtoH (Device -> Pinned)");
	expect_name(&(struct timeline_entry){.copy = {1, 5, 9, 0, 0, 0}}, TIMELINE_COPY,
				"Memcpy HtoD (Managed -> <unknown>)");
	expect_name(&(struct timeline_entry){.memset = {3, 0}}, TIMELINE_MEMSET, "Memset (Device)");
	expect_name(&(struct timeline_entry){.kind = TIMELINE_GAP}, TIMELINE_GAP, "gap");
}

/* ---- protobuf ---- */

static void test_protobuf(void **state)
{
	struct protobuf p = {.byte = NULL};
	char text[300];
	(void)state;
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	size_t outer = protobuf_begin(&p, 1);
	protobuf_uint(&p, 2, 300);
	size_t inner = protobuf_begin(&p, 16);
	protobuf_text(&p, 3, "abc");
	protobuf_end(&p, inner);
	protobuf_end(&p, outer);
	static const unsigned char small[] = {0x0a, 11, 0x10, 0xac, 0x02, 0x82, 0x01, 5, 0x1a, 3, 'a', 'b', 'c'};
	assert_int_equal(p.used, sizeof(small));
	assert_memory_equal(p.byte, small, sizeof(small));
	p.used = 0;
	outer = protobuf_begin(&p, 1);
	protobuf_text(&p, 3, text);
	protobuf_end(&p, outer);
	/* A length of five bytes: 1 + 2 + 299. */
	static const unsigned char large[] = {0x0a, 0xae, 0x82, 0x80, 0x80, 0x00, 0x1a, 0xab, 0x02, 'x'};
	assert_int_equal(p.used, 6 + 302);
	assert_memory_equal(p.byte, large, sizeof(large));
	p.used = 0;
	protobuf_uint(&p, 1, UINT64_MAX);
	assert_int_equal(p.used, 11);
	p.used = 0;
	protobuf_double(&p, 1, 1.0);
	static const unsigned char one[] = {0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f};
	assert_memory_equal(p.byte, one, sizeof(one));
	protobuf_free(&p);
}

/* ---- files ---- */

static const char *content(const char *path)
{
	static char text[65536];
	gzFile f = gzopen(path, "r"); /* plain files too */
	assert_non_null(f);
	int n = gzread(f, text, sizeof(text) - 1);
	assert_true(n >= 0);
	text[n] = '\0';
	gzclose(f);
	return text;
}

static void test_output(void **state)
{
	(void)state;
	for (int gzip = 0; gzip < 2; gzip++) {
		struct output o;
		const char *path = in_dir("out");
		assert_int_equal(output_open(&o, path, gzip), 0);
		output_json(&o, "a \"b\" \\ \n \xc3\xa4");
		output_text(&o, " ");
		output_number(&o, 0);
		output_text(&o, " ");
		output_number(&o, UINT64_MAX);
		output_text(&o, " ");
		output_microseconds(&o, 1234567);
		output_text(&o, " ");
		output_microseconds(&o, 5);
		assert_int_equal(access(path, F_OK), -1); /* not there before it is whole */
		assert_int_equal(output_close(&o), 0);
		assert_string_equal(content(path),
							"\"a \\\"b\\\" \\\\ \\u000a \xc3\xa4\" 0 18446744073709551615 1234.567 0.005");
		assert_int_equal(unlink(path), 0);
	}
}

static void test_output_fails_whole(void **state)
{
	struct rlimit old, small;
	struct output o;
	const char *path = in_dir("full");
	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = (struct rlimit){.rlim_cur = 300000, .rlim_max = old.rlim_max};
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(output_open(&o, path, false), 0);
	for (int i = 0; i < 1000000; i++)
		output_number(&o, (uint64_t)i);
	int error = output_close(&o);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(error, EFBIG);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(output_open(&o, path, false), 0);
	output_abandon(&o);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(output_open(&o, in_dir("none/file"), false), ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_overlaps_get_rows),
		cmocka_unit_test(test_calls_nest),
		cmocka_unit_test(test_streams_of_one_number),
		cmocka_unit_test(test_rows_are_bounded),
		cmocka_unit_test(test_gaps_come_once),
		cmocka_unit_test(test_occupancy),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_protobuf),
		cmocka_unit_test(test_output),
		cmocka_unit_test(test_output_fails_whole),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}

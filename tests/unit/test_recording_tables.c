/* test_recording_tables.c - names, entries and lanes: the same again is the same, and what does not fit is counted. */
#include "tests/unit/recording_fixture.h"

#define MB (UINT64_C(1) << 20)

static struct timeline_entry kernel(uint32_t grid)
{
	struct timeline_entry e = {.kind = TIMELINE_KERNEL};

	e.kernel.grid[0] = grid;
	return e;
}

static uint32_t entry(uint32_t grid, const char *name)
{
	struct timeline_entry e = kernel(grid);

	return recording_entry(&e, name);
}

static uint16_t lane(uint32_t stream)
{
	struct timeline_lane l = {.kind = TIMELINE_LANE_STREAM, .stream = stream};

	return recording_lane(&l, NULL);
}

static struct trace *end_and_read(void)
{
	recording_end();
	recording_close();
	return fixture_read(recording_path());
}

static void test_same_is_same(void **state)
{
	(void)state;
	char name[16] = "first";
	struct timeline_entry copy = {.kind = TIMELINE_COPY, .name = 12345};

	assert_true(fixture_open(MB));
	assert_true(recording_begin());
	uint32_t a = entry(1, name), b = entry(2, name);
	assert_int_not_equal(a, b);
	assert_int_not_equal(a, 0);
	/* Another string where the first one was, as after a module was unloaded. */
	strcpy(name, "second");
	uint32_t c = entry(1, name);
	assert_int_not_equal(c, a);
	assert_int_equal(entry(1, "first"), a);
	assert_int_equal(entry(2, "first"), b);
	assert_int_equal(entry(1, "second"), c);
	/* Another kind with the same words. */
	uint32_t d = recording_entry(&copy, "first");
	copy.name = 0;
	assert_int_equal(recording_entry(&copy, "first"), d);
	uint32_t none = entry(1, NULL), empty = entry(1, "");
	assert_int_equal(none, empty);
	struct trace *t = end_and_read();
	assert_string_equal(trace_name(t, trace_entry(t, a)->name), "first");
	assert_string_equal(trace_name(t, trace_entry(t, c)->name), "second");
	assert_int_equal(trace_entry(t, b)->kernel.grid[0], 2);
	assert_int_equal(trace_entry(t, d)->kind, TIMELINE_COPY);
	assert_string_equal(trace_name(t, trace_entry(t, none)->name), "");
	assert_int_equal(trace_entry(t, 0)->kind, TIMELINE_NONE);
	assert_int_equal(trace_header(t)->count[TIMELINE_COUNT_TABLE_FULL], 0);
	trace_close(t);
}

static void test_lanes(void **state)
{
	(void)state;
	struct timeline_lane thread = {.kind = TIMELINE_LANE_THREAD, .thread = 77, .name = 9, .reserved = {1, 2}};
	struct timeline_lane process = {.kind = TIMELINE_LANE_PROCESS};

	assert_true(fixture_open(MB));
	assert_true(recording_begin());
	assert_int_equal(recording_lane(&process, NULL), 0);
	uint16_t a = recording_lane(&thread, "worker"), b = lane(7);
	assert_int_equal(recording_lane(&thread, NULL), a);
	assert_int_not_equal(a, b);
	assert_int_equal(lane(7), b);
	struct trace *t = end_and_read();
	assert_int_equal(trace_lanes(t), 3);
	assert_int_equal(trace_lane(t, a)->thread, 77);
	assert_string_equal(trace_name(t, trace_lane(t, a)->name), "worker");
	assert_int_equal(trace_lane(t, a)->reserved[0], 0);
	assert_int_equal(trace_lane(t, 0)->kind, TIMELINE_LANE_PROCESS);
	trace_close(t);
}

static void test_long_names(void **state)
{
	(void)state;
	static char long_name[100001];

	memset(long_name, 'x', 100000);
	assert_true(fixture_open(64 * MB));
	assert_true(recording_begin());
	uint32_t cut = entry(1, long_name);
	assert_int_equal(entry(1, long_name), cut);
	long_name[60000] = '\0';
	uint32_t whole = entry(1, long_name);
	assert_int_not_equal(whole, cut);
	struct trace *t = end_and_read();
	assert_int_equal(strlen(trace_name(t, trace_entry(t, whole)->name)), 60000);
	assert_int_equal(strlen(trace_name(t, trace_entry(t, cut)->name)), 65535);
	trace_close(t);
}

/* Kernels keep their names when they lose their grids; others and what is new afterwards lose both. */
static void test_entries_full(void **state)
{
	(void)state;
	char name[16];
	uint32_t known = 0, index = 0;

	assert_true(fixture_open(MB));
	assert_true(recording_begin());
	for (uint32_t grid = 1; grid <= 10000; grid++) {
		index = entry(grid, "kernel");
		known = known ? known : index;
	}
	assert_int_equal(entry(1, "kernel"), known);
	uint32_t plain = index;
	for (uint32_t i = 0; i < 10000; i++) {
		snprintf(name, sizeof(name), "other%u", i);
		index = entry(1, name);
	}
	struct timeline_entry api = {.kind = TIMELINE_API};
	uint32_t last = recording_entry(&api, "call");
	uint16_t l = lane(1);
	struct timeline_record r = {.start = FIXTURE_BASE, .entry = last, .lane = l, .kind = TIMELINE_API};
	recording_put(&r);
	struct trace *t = end_and_read();
	assert_string_equal(trace_name(t, trace_entry(t, plain)->name), "kernel");
	assert_int_equal(trace_entry(t, plain)->kernel.grid[0], 0);
	assert_string_equal(trace_name(t, trace_entry(t, index)->name), "(table full)");
	assert_int_equal(trace_entry(t, index)->kind, TIMELINE_KERNEL);
	assert_int_equal(trace_entry(t, last)->kind, TIMELINE_API);
	assert_int_equal(trace_records(t), 1);
	assert_int_equal(trace_header(t)->entries.used, trace_header(t)->entries.capacity);
	assert_in_range(trace_header(t)->count[TIMELINE_COUNT_TABLE_FULL], 20001 - 4096, 20001 - 3000);
	trace_close(t);
}

static void test_names_full(void **state)
{
	(void)state;
	static char name[2001];
	uint32_t first = 0, index = 0;

	assert_true(fixture_open(MB));
	assert_true(recording_begin());
	memset(name, 'n', 2000);
	for (uint32_t i = 0; i < 1000; i++) {
		snprintf(name, 12, "%011u", i);
		name[11] = 'n';
		index = entry(i + 1, name);
		first = first ? first : index;
	}
	uint32_t small = entry(1, "still fits");
	struct trace *t = end_and_read();
	assert_int_equal(strlen(trace_name(t, trace_entry(t, first)->name)), 2000);
	/* Without its name a kernel has its grid. */
	assert_string_equal(trace_name(t, trace_entry(t, index)->name), "(table full)");
	assert_int_equal(trace_entry(t, index)->kernel.grid[0], 1000);
	assert_string_equal(trace_name(t, trace_entry(t, small)->name), "still fits");
	assert_true(trace_header(t)->names.used <= trace_header(t)->names.capacity);
	assert_in_range(trace_header(t)->count[TIMELINE_COUNT_TABLE_FULL], 800, 999);
	trace_close(t);
}

static void test_lanes_full(void **state)
{
	(void)state;

	assert_true(fixture_open(MB));
	assert_true(recording_begin());
	uint16_t first = lane(0);
	for (uint32_t stream = 1; stream < 5000; stream++)
		lane(stream);
	assert_int_equal(lane(0), first);
	assert_int_equal(lane(4999), 0);
	struct trace *t = end_and_read();
	assert_int_equal(trace_header(t)->lanes.used, trace_header(t)->lanes.capacity);
	assert_int_equal(trace_header(t)->count[TIMELINE_COUNT_TABLE_FULL], 5000 - (1024 - 1) + 1);
	trace_close(t);
}

static void test_unknown_kind(void **state)
{
	(void)state;
	struct timeline_entry e = {.kind = TIMELINE_KINDS};

	assert_true(fixture_open(MB));
	assert_true(recording_begin());
	assert_int_equal(recording_entry(&e, "what"), 0);
	recording_end();
}

/* Tables grow with the ring, and are a small part of the file. */
static void test_sizes(void **state)
{
	(void)state;
	uint64_t before = 0;

	for (uint64_t bytes = MB; bytes <= 64 * MB; bytes *= 8) {
		assert_true(fixture_open(bytes));
		struct trace *t = fixture_read(recording_path());
		const struct timeline_header *h = trace_header(t);
		assert_int_equal((uint64_t)h->chunk_count * h->chunk_bytes, bytes);
		assert_int_equal(h->file_bytes, h->ring_offset + bytes);
		assert_true(h->ring_offset < MB || h->ring_offset < bytes / 8);
		assert_true(h->entries.capacity >= before);
		before = h->entries.capacity;
		trace_close(t);
		recording_close();
	}
	assert_true(before > 4096);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_make, fixture_remove)
	const struct CMUnitTest tests[] = {
		TEST(test_same_is_same), TEST(test_lanes),      TEST(test_long_names),   TEST(test_entries_full),
		TEST(test_names_full),   TEST(test_lanes_full), TEST(test_unknown_kind), TEST(test_sizes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

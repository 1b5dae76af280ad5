/* test_timeline_damaged.c - timeline files that are none, or broken: what is refused, what is left out, and
 * that texts are made fit to be shown. */
#include "timeline_fixture.h"

/* ---- what is refused ---- */

static void test_not_a_timeline(void **state)
{
	const char *path = in_dir("other");
	(void)state;
	refused(in_dir("none"), "No such file");
	refused(dir, "not a regular file");
	FILE *f = fopen(path, "w");
	fputs("hello, this is a text\n", f);
	fclose(f);
	refused(path, "not a timeline file");
	trace_build_truncate(path, 0);
	refused(path, "truncated (0 bytes)");
	assert_int_equal(mkfifo(in_dir("fifo"), 0600), 0);
	refused(in_dir("fifo"), "not a regular file");
}

static void test_bad_headers(void **state)
{
#define AT(field) offsetof(struct timeline_header, field)
	static const struct {
		size_t at;
		uint64_t value;
		size_t size;
		const char *why;
	} bad[] = {
		{AT(magic), 0, 8, "not a timeline file"},
		{AT(version), 2, 4, "format 2"},
		{AT(header_bytes), 512, 4, "damaged"},
		{AT(chunk_bytes), 0, 4, "damaged"},
		{AT(chunk_bytes), 32, 4, "damaged"},
		{AT(device_count), 17, 4, "17 devices"},
		{AT(mode), 9, 4, "mode 9"},
		{AT(start_ns), UINT64_MAX, 8, "recorded from"},
		{AT(end_ns), 1ull << 62, 8, "recorded from"},
		{AT(ring_offset), 8, 8, "damaged"},
		{AT(ring_offset), UINT64_MAX - 1, 8, "damaged"},
		{AT(chunk_count), UINT32_MAX, 4, "damaged"},
		{AT(names.offset), 0, 8, "table of names"},
		{AT(names.offset), UINT64_MAX, 8, "table of names"},
		{AT(names.capacity), UINT64_MAX, 8, "table of names"},
		{AT(names.used), 1u << 20, 8, "more than it has room for"},
		{AT(entries.offset), 1ull << 40, 8, "table of entries"},
		{AT(entries.capacity), 1u << 20, 8, "table of entries"},
		{AT(entries.used), UINT64_MAX, 8, "more than"},
		{AT(lanes.capacity), 0, 8, "table of lanes"},
		{AT(lanes.used), 4097, 8, "more than"},
		{AT(clocks.capacity), UINT64_MAX / 32 + 2, 8, "table of clocks"},
	};
#undef AT
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const char *path = small_file();
		trace_build_poke(path, bad[i].at, &bad[i].value, bad[i].size);
		refused(path, bad[i].why);
	}
}

static void test_truncated_anywhere(void **state)
{
	struct stat st;
	struct trace_event e;
	(void)state;
	assert_int_equal(stat(small_file(), &st), 0);
	for (uint64_t size = 0; size < (uint64_t)st.st_size; size += 1021) {
		const char *path = small_file();
		trace_build_truncate(path, size);
		struct trace *t = trace_open(path, why, sizeof(why));
		while (t && trace_next(t, &e))
			assert_non_null(e.name);
		assert_true(!t || trace_records(t) == 2 || trace_damaged(t));
		trace_close(t);
	}
}

static void test_shrinks_while_read(void **state)
{
	struct trace_event e;
	const char *path = small_file();
	(void)state;
	struct trace *t = open_good(path);
	trace_build_truncate(path, 4096);
	assert_false(trace_next(t, &e));
	assert_true(trace_damaged(t));
	trace_close(t);
}

/* ---- what is left out, or replaced ---- */

/* Three records of which the middle one is `r`; what came of it. *e is good until the next call. */
static struct trace *t;
static bool middle(const struct timeline_record *r, struct trace_event *e, uint64_t *damaged)
{
	const char *path = in_dir("middle.timeline");
	trace_close(t);
	struct trace_build *b = trace_build_open(path, &(struct trace_build_setup){.chunks = 2});
	uint16_t lane = trace_build_stream(b, 0, 7);
	uint32_t entry = trace_build_kernel_entry(b, "k", 1, 1);
	trace_build_add(b, lane, entry, 10, 5, 0, 100);
	trace_build_put(b, r);
	trace_build_add(b, lane, entry, 90, 5, 0, 101);
	trace_build_close(b);
	t = open_good(path);
	assert_true(trace_next(t, e));
	assert_int_equal(e->value, 100);
	assert_true(trace_next(t, e));
	bool kept = e->value != 101;
	struct trace_event last;
	assert_int_equal(trace_next(t, &last), kept);
	*damaged = trace_damaged(t);
	assert_int_equal(trace_records(t), kept ? 3 : 2);
	return kept;
}

static void test_records_without_sense(void **state)
{
	const uint64_t now = TRACE_BUILD_START + 50;
	const struct {
		struct timeline_record r;
		bool kept;
		uint64_t damaged;
	} row[] = {
		{{.kind = TIMELINE_KERNEL, .entry = 1, .lane = 1, .start = now}, true, 0},
		{{.kind = TIMELINE_NONE, .entry = 9999, .lane = 9999}, false, 0},
		{{.kind = TIMELINE_KINDS, .entry = 1, .lane = 1, .start = now}, false, 1},
		{{.kind = 255, .entry = 1, .lane = 1, .start = now}, false, 1},
		{{.kind = TIMELINE_KERNEL, .entry = 2, .lane = 1, .start = now}, false, 1},
		{{.kind = TIMELINE_KERNEL, .entry = UINT32_MAX, .lane = 1, .start = now}, false, 1},
		{{.kind = TIMELINE_KERNEL, .entry = 1, .lane = 2, .start = now}, false, 1},
		{{.kind = TIMELINE_KERNEL, .entry = 1, .lane = 1, .start = 0}, false, 1},
		{{.kind = TIMELINE_KERNEL, .entry = 1, .lane = 1, .start = UINT64_MAX}, false, 1},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct trace_event e;
		uint64_t damaged;
		assert_int_equal(middle(&row[i].r, &e, &damaged), row[i].kept);
		assert_int_equal(damaged, row[i].damaged);
	}
}

static void test_entry_of_another_kind(void **state)
{
	struct trace_event e;
	uint64_t damaged;
	(void)state;
	assert_true(middle(
		&(struct timeline_record){
			.kind = TIMELINE_COPY, .entry = 1, .lane = 1, .start = TRACE_BUILD_START + 50},
		&e, &damaged));
	assert_int_equal(e.entry_index, 0);
	assert_int_equal(e.entry->kind, TIMELINE_NONE);
	assert_int_equal(e.entry->copy.direction, 0);
	assert_string_equal(e.name, "unknown");
	trace_close(t);
	t = NULL;
}

static void test_texts_are_fit_for_a_terminal(void **state)
{
	const char *path = in_dir("texts.timeline");
	struct trace_event e;
	(void)state;
	struct trace_build *b = trace_build_open(path, &(struct trace_build_setup){.chunks = 1});
	struct timeline_header *h = trace_build_header(b);
	memset(h->host, 'x', sizeof(h->host));
	strcpy(h->command, "py\x1b[31mthon \xc3\xa4 \xff \xc2\x9b \xed\xa0\x80 \xf0\x9f\x98\x80");
	uint32_t entry = trace_build_plain(b, TIMELINE_EVENT, "a\nb\"\xe2\x82");
	trace_build_add(b, 0, entry, 1, 1, 0, 0);
	trace_build_close(b);
	struct trace *t = open_good(path);
	assert_int_equal(strlen(trace_header(t)->host), sizeof(h->host) - 1);
	assert_string_equal(trace_header(t)->command, "py?[31mthon \xc3\xa4 ? ?? ??? \xf0\x9f\x98\x80");
	assert_true(trace_next(t, &e));
	assert_string_equal(e.name, "a?b\"??");
	assert_string_equal(trace_name(t, UINT32_MAX), "");
	trace_close(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_not_a_timeline),
		cmocka_unit_test(test_bad_headers),
		cmocka_unit_test(test_truncated_anywhere),
		cmocka_unit_test(test_shrinks_while_read),
		cmocka_unit_test(test_records_without_sense),
		cmocka_unit_test(test_entry_of_another_kind),
		cmocka_unit_test(test_texts_are_fit_for_a_terminal),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}

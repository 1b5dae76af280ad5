/* test_timeline_reader.c - timeline files, read: order, resolution, what is refused and what is left out. */
#include <sys/resource.h>

#include "timeline_fixture.h"

static void test_events_are_resolved_and_in_order(void **state)
{
	struct trace_event e;
	struct trace *t = open_good(small_file());
	uint64_t first, last;
	(void)state;
	assert_int_equal(trace_header(t)->rank, 1);
	assert_string_equal(trace_header(t)->device[0].name, "NVIDIA H200");
	assert_int_equal(trace_records(t), 2);
	assert_true(trace_span(t, &first, &last));
	assert_true(first == TRACE_BUILD_START + 1000 && last == TRACE_BUILD_START + 1000 + 5000000000ull);
	for (int pass = 0; pass < 2; pass++) {
		assert_true(trace_next(t, &e));
		assert_int_equal(e.kind, TIMELINE_COPY);
		assert_true(e.start == TRACE_BUILD_START + 1000 && e.duration == 5000000000ull);
		assert_int_equal(e.value, 4096);
		assert_int_equal(e.entry->copy.direction, 1);
		assert_int_equal(e.lane->stream, 20);
		assert_true(trace_next(t, &e));
		assert_int_equal(e.kind, TIMELINE_KERNEL);
		assert_int_equal(e.duration, 250);
		assert_int_equal(e.correlation, 17);
		assert_string_equal(e.name, "_Z4axpyifPfS_");
		assert_string_equal(trace_demangled(t, e.entry_index), "axpy(int, float, float*, float*)");
		assert_string_equal(trace_demangled(t, e.entry_index), "axpy(int, float, float*, float*)");
		assert_int_equal(e.entry->kernel.grid[0], 64);
		assert_false(trace_next(t, &e));
		assert_false(trace_next(t, &e));
		assert_true(trace_rewind(t));
	}
	assert_int_equal(trace_damaged(t), 0);
	assert_false(trace_live(t));
	trace_close(t);
}

static void test_empty_recording(void **state)
{
	const char *path = in_dir("empty.timeline");
	uint64_t first, last;
	struct trace_event e;
	(void)state;
	trace_build_close(trace_build_open(path, &(struct trace_build_setup){.chunks = 1}));
	struct trace *t = open_good(path);
	assert_int_equal(trace_header(t)->rank, -1);
	assert_false(trace_span(t, &first, &last));
	assert_false(trace_next(t, &e));
	assert_true(trace_rewind(t));
	trace_close(t);
}

/* ---- order ---- */

static uint32_t random_state;
static uint32_t random_below(uint32_t n)
{
	random_state = random_state * 1664525u + 1013904223u;
	return (uint32_t)(((uint64_t)random_state * n) >> 32);
}

/* Every record comes once, sorted by start, whatever chunks it lies in. `spread` ns is how far out of order. */
static void check_order(uint32_t records, uint32_t spread, uint32_t chunk_records)
{
	const char *path = in_dir("order.timeline");
	unsigned char *seen = calloc(records, 1);
	uint64_t last = 0, n = 0;
	struct trace_event e;
	uint32_t chunks = records / (chunk_records ? chunk_records : TIMELINE_CHUNK_RECORDS) + 1;
	struct trace_build *b = trace_build_open(path, &(struct trace_build_setup){.chunks = chunks});
	uint16_t lane = trace_build_stream(b, 0, 7);
	uint32_t entry = trace_build_kernel_entry(b, "k", 1, 1);
	for (uint32_t i = 0; i < records; i++) {
		if (chunk_records && i % chunk_records == 0)
			trace_build_next_chunk(b);
		trace_build_add(b, lane, entry, (uint64_t)i * 10 + random_below(spread), 5, 0, i);
	}
	trace_build_close(b);
	struct trace *t = open_good(path);
	for (; trace_next(t, &e); n++) {
		assert_true(e.start >= last);
		last = e.start;
		assert_true(e.value < records && !seen[e.value]);
		seen[e.value] = 1;
	}
	assert_int_equal(n, records);
	assert_int_equal(trace_damaged(t), 0);
	trace_close(t);
	free(seen);
}

static void test_order_random(void **state)
{
	const char *seed = getenv("TEST_SEED");
	(void)state;
	random_state = seed ? (uint32_t)strtoul(seed, NULL, 0) : (uint32_t)getpid();
	printf("TEST_SEED=%u\n", random_state);
	check_order(50000, 1, 0);
	check_order(50000, 100, 0);
	check_order(50000, 100000, 0);
	check_order(50000, 500000, 0); /* every chunk overlaps every other */
	check_order(5000, 50000, 1);   /* more chunks overlap than are kept in memory */
	check_order(20000, 200000, 7);
}

static void test_wrapped_ring(void **state)
{
	const char *path = in_dir("wrap.timeline");
	struct trace_event e;
	(void)state;
	struct trace_build *b = trace_build_open(path, &(struct trace_build_setup){.chunks = 4});
	uint32_t entry = trace_build_kernel_entry(b, "k", 1, 1), n = 0;
	uint16_t lane = trace_build_stream(b, 0, 7);
	for (uint32_t i = 0; i < 10 * TIMELINE_CHUNK_RECORDS + 5; i++)
		trace_build_add(b, lane, entry, 10 * i, 5, 0, i);
	trace_build_close(b);
	struct trace *t = open_good(path);
	uint64_t expected = 3 * TIMELINE_CHUNK_RECORDS + 5, first = 7 * TIMELINE_CHUNK_RECORDS;
	assert_int_equal(trace_records(t), expected);
	for (; trace_next(t, &e); n++)
		assert_int_equal(e.value, first + n);
	assert_int_equal(n, expected);
	trace_close(t);
}

/* f<A<int>, A<A<int>, A<int>>, …>: each argument is twice as long as the one before. */
static void test_demangling_cannot_harm(void **state)
{
	static const char digit[] = "123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char bomb[1024] = "_Z1fI1AIiE";
	for (const char *d = digit; *d; d++)
		snprintf(bomb + strlen(bomb), sizeof(bomb) - strlen(bomb), "S0_IS%c_S%c_E", *d, *d);
	strcat(bomb, "Evv");
	const char *path = in_dir("bomb.timeline");
	(void)state;
	struct trace_build *b = trace_build_open(path, &(struct trace_build_setup){.chunks = 1});
	uint32_t first = trace_build_kernel_entry(b, bomb, 1, 1);
	uint32_t second = trace_build_kernel_entry(b, "_Z4axpyifPfS_", 1, 1);
	trace_build_close(b);
	struct trace *t = open_good(path);
	assert_string_equal(trace_demangled(t, first), bomb);
	assert_string_equal(trace_demangled(t, second), "axpy(int, float, float*, float*)");
	assert_string_equal(trace_demangled(t, UINT32_MAX), "unknown");
	trace_close(t);
}

/* ---- clocks ---- */

static void test_clock_offset(void **state)
{
	const char *path = in_dir("clock.timeline");
	const uint64_t s = TRACE_BUILD_START;
	(void)state;
	struct trace_build *b = trace_build_open(path, &(struct trace_build_setup){.clocks = 2, .chunks = 1});
	struct trace *t = open_good(path);
	assert_int_equal(trace_clock_offset(t, s), 0);
	trace_close(t);
	trace_build_clock(b, s - 1000, s + 99999, 1); /* written over */
	trace_build_clock(b, s + 1000, s + 1500, 2);
	trace_build_clock(b, s + 2000, s + 1900, 3);
	trace_build_close(b);
	t = open_good(path);
	assert_int_equal(trace_clock_offset(t, 0), 500);
	assert_int_equal(trace_clock_offset(t, s + 1000), 500);
	assert_int_equal(trace_clock_offset(t, s + 1500), 200);
	assert_int_equal(trace_clock_offset(t, s + 2000), -100);
	assert_int_equal(trace_clock_offset(t, UINT64_MAX), -100);
	trace_close(t);
}

/* ---- live files, sets ---- */

static uint64_t own_start_ticks(void)
{
	char buf[1024] = "";
	FILE *f = fopen("/proc/self/stat", "r");
	assert_non_null(f);
	assert_true(fread(buf, 1, sizeof(buf) - 1, f) > 0);
	fclose(f);
	char *p = strrchr(buf, ')');
	for (int field = 2; field < 22; field++)
		p = strchr(p + 1, ' ');
	return strtoull(p + 1, NULL, 10);
}

static bool live_with(uint32_t pid, uint64_t ticks, const char *host, bool ended)
{
	struct stat st;
	const char *path = in_dir("live.timeline");
	struct trace_build *b = trace_build_open(path, &(struct trace_build_setup){.chunks = 1});
	struct timeline_header *h = trace_build_header(b);
	assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
	h->pid = pid;
	h->pid_start_ticks = ticks;
	h->pid_ns = st.st_ino;
	snprintf(h->host, sizeof(h->host), "%s", host);
	(ended ? trace_build_close : trace_build_kill)(b);
	struct trace *t = open_good(path);
	bool live = trace_live(t);
	trace_close(t);
	return live;
}

static void test_live(void **state)
{
	char host[64] = "";
	uint32_t pid = (uint32_t)getpid();
	uint64_t ticks = own_start_ticks();
	(void)state;
	assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
	assert_true(live_with(pid, ticks, host, false));
	assert_false(live_with(pid, ticks, host, true));
	assert_false(live_with(pid, ticks + 1, host, false));
	assert_false(live_with(pid, ticks, "elsewhere", false));
	assert_false(live_with(0x7fffffff, ticks, host, false));
}

/* What is put after the file was opened is not seen, and neither are records that have been overwritten. */
static void test_grows_while_read(void **state)
{
	const char *path = in_dir("grow.timeline");
	struct trace_event e;
	uint64_t n = 0;
	(void)state;
	struct trace_build *b = trace_build_open(path, &(struct trace_build_setup){.chunks = 2});
	uint16_t lane = trace_build_stream(b, 0, 7);
	uint32_t entry = trace_build_kernel_entry(b, "k", 1, 1);
	for (uint32_t i = 0; i < TIMELINE_CHUNK_RECORDS + 5; i++)
		trace_build_add(b, lane, entry, 10 * i, 5, 0, i);
	struct trace *t = open_good(path);
	assert_int_equal(trace_records(t), TIMELINE_CHUNK_RECORDS + 5);
	uint32_t late = trace_build_kernel_entry(b, "late", 1, 1);
	for (uint32_t i = 0; i < TIMELINE_CHUNK_RECORDS; i++)
		trace_build_add(b, lane, late, 1000000 + 10 * i, 5, 0, i);
	for (; trace_next(t, &e); n++)
		assert_string_equal(e.name, "k");
	assert_int_equal(n, 5);
	trace_close(t);
	trace_build_close(b);
}

static void make_ranked(const char *name, int rank, const char *host)
{
	struct trace_build *b =
		trace_build_open(in_dir(name), &(struct trace_build_setup){.rank = rank, .ranks = 4, .chunks = 1});
	strcpy(trace_build_header(b)->host, host);
	trace_build_close(b);
}

static int errors;
static void count_error(void *arg, const char *path, const char *text)
{
	assert_ptr_equal(arg, &errors);
	assert_non_null(path);
	assert_true(*text);
	errors++;
}

static void test_sets(void **state)
{
	char folder[300], file[300], missing[300], none[300];
	struct trace_set set;
	(void)state;
	snprintf(folder, sizeof(folder), "%s/ranks", dir);
	snprintf(none, sizeof(none), "%s/nothing", dir);
	snprintf(missing, sizeof(missing), "%s/ranks/missing.timeline", dir);
	snprintf(file, sizeof(file), "%s/ranks/a.timeline", dir);
	assert_int_equal(mkdir(folder, 0700), 0);
	assert_int_equal(mkdir(none, 0700), 0);
	make_ranked("ranks/a.timeline", 3, "b");
	make_ranked("ranks/b.timeline", 0, "b");
	make_ranked("ranks/c.timeline", 3, "a");
	make_ranked("ranks/d.other", 1, "a");
	errors = 0;
	assert_true(trace_set_open(&set, (const char *[]){file, folder}, 2, count_error, &errors));
	assert_int_equal(set.count, 3);
	assert_int_equal(trace_header(set.trace[0])->rank, 0);
	assert_string_equal(trace_header(set.trace[1])->host, "a");
	assert_string_equal(trace_path(set.trace[2]), file);
	trace_set_close(&set);
	assert_false(trace_set_open(&set, (const char *[]){missing, none, folder}, 3, count_error, &errors));
	assert_int_equal(set.count, 3);
	assert_int_equal(errors, 2);
	trace_set_close(&set);
}

/* ---- more files than a process has descriptors ---- */

enum { FILES = 1100, DESCRIPTORS = 100 };

static void make_files(const char *folder)
{
	char path[400];
	assert_int_equal(mkdir(folder, 0700), 0);
	for (int i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), "%s/%04d.timeline", folder, i);
		struct trace_build_setup setup = {
			.rank = i, .ranks = FILES, .chunks = 2, .names = 64, .packed = true};
		struct trace_build *b = trace_build_open(path, &setup);
		uint16_t lane = trace_build_stream(b, 0, 7);
		uint32_t entry = trace_build_kernel_entry(b, "k", 1, 1);
		trace_build_add(b, lane, entry, 10, 5, 0, (uint64_t)i);
		trace_build_next_chunk(b);
		trace_build_add(b, lane, entry, 20, 5, 0, (uint64_t)i);
		trace_build_close(b);
	}
}

static bool next_is_its(struct trace *t)
{
	struct trace_event e;
	return trace_next(t, &e) && e.value == (uint64_t)trace_header(t)->rank;
}

static bool is_whole(struct trace *t)
{
	struct trace_event e;
	return trace_rewind(t) && next_is_its(t) && next_is_its(t) && !trace_next(t, &e) && trace_damaged(t) == 0;
}

/* One that is away when it is read again is missed, not mistaken. */
static void read_many(unsigned descriptors)
{
	char folder[300], first[400], last[400];
	struct trace_set set;
	struct rlimit was, few;
	snprintf(folder, sizeof(folder), "%s/many%u", dir, descriptors);
	snprintf(first, sizeof(first), "%s/0000.timeline", folder);
	snprintf(last, sizeof(last), "%s/%04d.timeline", folder, FILES - 1);
	make_files(folder);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	few = (struct rlimit){descriptors, was.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	errors = 0;
	assert_true(trace_set_open(&set, (const char *[]){folder, last}, 2, count_error, &errors));
	assert_int_equal(set.count, FILES);
	for (unsigned i = 0; i < FILES; i++)
		assert_true(is_whole(set.trace[i]));
	/* In the middle of each another is read. */
	for (unsigned i = 1; i < FILES; i += 7) {
		assert_true(trace_rewind(set.trace[i]) && next_is_its(set.trace[i]));
		assert_true(is_whole(set.trace[i - 1]));
		assert_true(next_is_its(set.trace[i]));
	}
	assert_int_equal(rename(first, last), 0);
	assert_false(is_whole(set.trace[FILES - 1]));
	assert_true(trace_damaged(set.trace[FILES - 1]) != 0);
	assert_true(is_whole(set.trace[FILES - 2]));
	trace_set_close(&set);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
}

static void test_many_files(void **state)
{
	(void)state;
	read_many(DESCRIPTORS);
	read_many(DESCRIPTORS / 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_events_are_resolved_and_in_order),
		cmocka_unit_test(test_empty_recording),
		cmocka_unit_test(test_order_random),
		cmocka_unit_test(test_wrapped_ring),
		cmocka_unit_test(test_demangling_cannot_harm),
		cmocka_unit_test(test_clock_offset),
		cmocka_unit_test(test_live),
		cmocka_unit_test(test_grows_while_read),
		cmocka_unit_test(test_sets),
		cmocka_unit_test(test_many_files),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}

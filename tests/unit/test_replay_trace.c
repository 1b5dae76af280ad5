/* test_replay_trace.c - the reader of allocation traces: what it accepts, what it refuses and where,
 * and that its numbers are dense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "tools/turbo/trace_map.c"
#include "tools/turbo/trace_read.c"
#include "tools/turbo/trace_write.c"

static char dir[] = "/tmp/test_replay.XXXXXX";

int failure(const char *name, const char *fmt, ...)
{
	(void)name;
	(void)fmt;
	return EXIT_FAILED;
}

static const char *in_dir(const char *name)
{
	static char path[256];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static const char *file_with(const void *bytes, size_t n)
{
	const char *path = in_dir("trace");
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
	return path;
}

/* Reads to the end; the last answer of trace_reader_next(). `ops` counts. */
static int read_all(struct trace_reader *r, const char *path, uint64_t *ops)
{
	struct trace_op op;
	int code;
	*ops = 0;
	assert_true(trace_reader_open(r, path));
	while ((code = trace_reader_next(r, &op)) > 0)
		++*ops;
	return code;
}

#define HEAD "turbo-alloc-trace 1\n"

/* ---- refused ---- */

static const struct {
	const char *text;
	unsigned line;
	const char *why; /* part of it */
} bad_traces[] = {
	{"", 1, "empty"},
	{"\n" HEAD, 1, "not an allocation trace"},
	{"a 1 2 3\n", 1, "not an allocation trace"},
	{"turbo-alloc-trace\n", 1, "not an allocation trace"},
	{"turbo-alloc-trace1\n", 1, "not an allocation trace"},
	{"turbo-alloc-trace 2\n", 1, "version 2"},
	{"turbo-alloc-trace x\n", 1, "not a number"},
	{"turbo-alloc-trace 1 1\n", 1, "behind the last field"},
	{HEAD "b 1 2 3\n", 2, "unknown operation: b"},
	{HEAD "alloc 1 2 3\n", 2, "unknown operation: alloc"},
	{HEAD "A 1 2 3\n", 2, "unknown operation: A"},
	{HEAD "a1 2 3\n", 2, "unknown operation: a1"},
	{HEAD "1\n", 2, "unknown operation"},
	{HEAD "\x7f\xff\n", 2, "unknown operation: ??"},
	{HEAD "a\n", 2, "ID is missing"},
	{HEAD "a 1\n", 2, "BYTES is missing"},
	{HEAD "a 1 2\n", 2, "STREAM is missing"},
	{HEAD "a 1 2 3 4 5\n", 2, "behind the last field: 5"},
	{HEAD "a 1 2 3 # why\n", 2, "DEVICE is not a number: #"},
	{HEAD "a -1 2 3\n", 2, "ID is negative: -1"},
	{HEAD "a 1 -2 3\n", 2, "BYTES is negative"},
	{HEAD "a 1 2 -3\n", 2, "STREAM is negative"},
	{HEAD "a 1 2 3 -1\n", 2, "DEVICE is negative"},
	{HEAD "a +1 2 3\n", 2, "ID is not a number"},
	{HEAD "a 0x1 2 3\n", 2, "ID is not a number: 0x1"},
	{HEAD "a 1.5 2 3\n", 2, "ID is not a number"},
	{HEAD "a 1 4k 3\n", 2, "BYTES is not a number: 4k"},
	{HEAD "a 1 0 3\n", 2, "BYTES is 0"},
	{HEAD "a 1 18446744073709551616 3\n", 2, "BYTES does not fit 64 bits"},
	{HEAD "a 99999999999999999999999999 2 3\n", 2, "ID does not fit"},
	{HEAD "a 1 2 3 64\n", 2, "DEVICE is 64"},
	{HEAD "a 1 2 3\na 1 2 3\n", 3, "block 1 is allocated already"},
	{HEAD "a 1 18446744073709551615 3\na 2 1 3\n", 3, "more than 2^64"},
	{HEAD "f 1 0\n", 2, "block 1 is not allocated"},
	{HEAD "a 1 2 3\nf 1 3\nf 1 3\n", 4, "block 1 is not allocated"},
	{HEAD "a 1 2 3 1\nf 1 3 2\n", 3, "block 1 is on device 1, not 2"},
	{HEAD "a 1 2 3 1\nf 1 3 0\n", 3, "block 1 is on device 1, not 0"},
	{HEAD "a 1 2 3\nf 1\n", 3, "STREAM is missing"},
	{HEAD "f\n", 2, "ID is missing"},
	{HEAD "w 1\n", 2, "STREAM is missing"},
	{HEAD "w 1 2 3\n", 2, "behind the last field"},
	{HEAD "s\n", 2, "STREAM is missing"},
	{HEAD "s 1 2\n", 2, "behind the last field"},
	{HEAD "d x\n", 2, "STREAM is not a number: x"},
	{HEAD "# ok\n\n \t\ns 1\nd\n", 6, "STREAM is missing"},
};

static void bad_lines_are_named(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(bad_traces) / sizeof(bad_traces[0]); i++) {
		struct trace_reader r;
		uint64_t ops;
		int code = read_all(&r, file_with(bad_traces[i].text, strlen(bad_traces[i].text)), &ops);
		if (code != -1 || r.line != bad_traces[i].line || !strstr(r.why, bad_traces[i].why))
			fail_msg("%s: code %d, line %u: %s", bad_traces[i].text, code, (unsigned)r.line, r.why);
		trace_reader_close(&r);
	}
}

static void a_zero_byte_is_no_text(void **state)
{
	static const char text[] = HEAD "s 1\n\0s 1\n";
	struct trace_reader r;
	uint64_t ops;
	(void)state;
	assert_int_equal(read_all(&r, file_with(text, sizeof(text) - 1), &ops), -1);
	assert_int_equal(r.line, 3);
	trace_reader_close(&r);
}

static void long_lines_are_refused(void **state)
{
	static char text[1 << 20];
	struct trace_reader r;
	uint64_t ops;
	(void)state;
	for (size_t n = TRACE_LINE_MAX - 2; n < TRACE_LINE_MAX + 3; n++) {
		size_t at = (size_t)sprintf(text, HEAD);
		memset(text + at, '#', n);
		strcpy(text + at + n, "\ns 1\n");
		assert_int_equal(read_all(&r, file_with(text, strlen(text)), &ops), n > TRACE_LINE_MAX ? -1 : 0);
		assert_int_equal(r.line, n > TRACE_LINE_MAX ? 2 : 3);
		trace_reader_close(&r);
	}
	/* Longer than the buffer, and without an end. */
	size_t at = (size_t)sprintf(text, HEAD);
	memset(text + at, 'a', sizeof(text) - at);
	assert_int_equal(read_all(&r, file_with(text, sizeof(text)), &ops), -1);
	assert_int_equal(r.line, 2);
	assert_non_null(strstr(r.why, "longer"));
	trace_reader_close(&r);
}

static void a_folder_is_no_trace(void **state)
{
	struct trace_reader r;
	struct trace_op op;
	(void)state;
	assert_false(trace_reader_open(&r, in_dir("missing")));
	assert_int_equal(errno, ENOENT);
	if (trace_reader_open(&r, dir)) {
		assert_int_equal(trace_reader_next(&r, &op), -1);
		assert_int_equal(r.line, 1);
		trace_reader_close(&r);
	}
}

/* ---- accepted ---- */

static void all_operations_are_read(void **state)
{
	static const char text[] = HEAD "# c\n\na 7 100 5\r\n  a\t8  200 5 1 \nw 6 5\ns 5\nf 7 6\nd 5\nf 8 5 1";
	static const struct trace_op want[] = {
		{.kind = 'a', .block = 0, .bytes = 100, .stream = 0, .other = TRACE_NONE},
		{.kind = 'a', .block = 1, .bytes = 200, .stream = 0, .other = TRACE_NONE, .device = 1},
		{.kind = 'w', .stream = 1, .other = 0},
		{.kind = 's', .stream = 0, .other = TRACE_NONE},
		{.kind = 'f', .block = 0, .bytes = 100, .stream = 1, .other = TRACE_NONE},
		{.kind = 'd', .stream = 0, .other = TRACE_NONE},
		{.kind = 'f', .block = 1, .bytes = 200, .stream = 0, .other = TRACE_NONE, .device = 1},
	};
	struct trace_reader r;
	struct trace_op op;
	(void)state;
	assert_true(trace_reader_open(&r, file_with(text, sizeof(text) - 1)));
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		memset(&op, 0, sizeof(op));
		assert_int_equal(trace_reader_next(&r, &op), 1);
		assert_int_equal(op.kind, want[i].kind);
		assert_int_equal(op.block, want[i].block);
		assert_int_equal(op.bytes, want[i].bytes);
		assert_int_equal(op.stream, want[i].stream);
		assert_int_equal(op.other, want[i].other);
		assert_int_equal(op.device, want[i].device);
	}
	assert_int_equal(trace_reader_next(&r, &op), 0);
	assert_int_equal(r.live, 0);
	assert_int_equal(r.devices, 2);
	trace_reader_close(&r);
}

static void unknown_streams_are_none(void **state)
{
	static const char text[] = HEAD "s 4\nd 4\nw 1 4\n";
	struct trace_reader r;
	struct trace_op op;
	(void)state;
	assert_true(trace_reader_open(&r, file_with(text, sizeof(text) - 1)));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(trace_reader_next(&r, &op), 1);
		assert_int_equal(op.stream, TRACE_NONE);
	}
	assert_int_equal(trace_reader_next(&r, &op), 1);
	assert_int_equal(op.stream, 0);
	assert_int_equal(op.other, TRACE_NONE);
	trace_reader_close(&r);
}

/* As many numbers as things at a time, whatever the names and however long the trace. */
static void numbers_stay_dense(void **state)
{
	struct trace_writer w;
	struct trace_reader r;
	uint64_t ops;
	(void)state;
	assert_true(trace_create(&w, in_dir("trace.gz")));
	for (uint64_t i = 0; i < 20000; i++) {
		trace_alloc(&w, i * 0x100000001, 512 + i, i << 32, 0);
		if (i >= 100) {
			trace_free(&w, (i - 100) * 0x100000001, (i - 100) << 32, 0);
			trace_destroy(&w, (i - 100) << 32);
		}
	}
	assert_true(trace_finish(&w));
	assert_int_equal(read_all(&r, in_dir("trace.gz"), &ops), 0);
	assert_int_equal(ops, w.ops);
	assert_int_equal(r.blocks, 101);
	assert_int_equal(r.streams, 101);
	trace_reader_close(&r);
}

/* ---- gzip ---- */

/* A gzip file of more than one buffer, cut or damaged anywhere, is refused; whole it is read. */
static void damaged_gzip_is_refused(void **state)
{
	struct trace_writer w;
	struct trace_reader r;
	uint64_t ops;
	static char file[1 << 20];
	(void)state;
	assert_true(trace_create(&w, in_dir("whole.gz")));
	for (uint64_t i = 0; i < 3000; i++)
		trace_alloc(&w, i, 1 + i * 2654435761u % 100000007, i % 5, 0);
	assert_true(trace_finish(&w));
	FILE *f = fopen(in_dir("whole.gz"), "r");
	size_t n = fread(file, 1, sizeof(file), f);
	fclose(f);
	assert_in_range(n, 5000, sizeof(file) - 1);
	for (size_t cut = 0; cut < n; cut += cut < 64 || cut > n - 200 ? 1 : 97) {
		assert_int_equal(read_all(&r, file_with(file, cut), &ops), -1);
		trace_reader_close(&r);
	}
	assert_int_equal(read_all(&r, file_with(file, n), &ops), 0);
	assert_int_equal(ops, 3000);
	trace_reader_close(&r);
	for (size_t at = 0; at < n; at += 31) {
		file[at] ^= 0x41;
		int code = read_all(&r, file_with(file, n), &ops);
		/* Time stamp, flags and the system's name say nothing about the content. */
		if (code == 0 && at > 9)
			fail_msg("byte %zu was changed without notice", at);
		trace_reader_close(&r);
		file[at] ^= 0x41;
	}
}

static void a_full_disk_is_noticed(void **state)
{
	struct trace_writer w;
	(void)state;
	if (access("/dev/full", W_OK) != 0 || !trace_create(&w, "/dev/full"))
		skip();
	for (int i = 0; i < 10000; i++)
		trace_sync(&w, 1);
	assert_false(trace_finish(&w));
	assert_int_equal(w.error, ENOSPC);
}

/* ---- the map ---- */

/* Against a plain array, with keys that collide. */
static void the_map_finds_what_is_there(void **state)
{
	enum { KEYS = 512 };
	struct trace_map m = {0};
	bool there[KEYS] = {false};
	unsigned seed = (unsigned)time(NULL);
	(void)state;
	print_message("seed %u\n", seed);
	srand(seed);
	for (int i = 0; i < 200000; i++) {
		unsigned k = (unsigned)rand() % KEYS;
		uint64_t key = (uint64_t)k << 21;
		uint32_t *found = trace_map_find(&m, key);
		assert_int_equal(found != NULL, there[k]);
		if (found) {
			assert_int_equal(*found, k);
			trace_map_remove(&m, key);
		} else {
			assert_true(trace_map_add(&m, key, k));
		}
		there[k] = !there[k];
	}
	size_t count = 0;
	for (int k = 0; k < KEYS; k++)
		count += there[k];
	assert_int_equal(m.count, count);
	trace_map_free(&m);
}

static int make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	static const char *const names[] = {"trace", "trace.gz", "whole.gz"};
	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unlink(in_dir(names[i]));
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_lines_are_named),     cmocka_unit_test(a_zero_byte_is_no_text),
		cmocka_unit_test(long_lines_are_refused),  cmocka_unit_test(a_folder_is_no_trace),
		cmocka_unit_test(all_operations_are_read), cmocka_unit_test(unknown_streams_are_none),
		cmocka_unit_test(numbers_stay_dense),      cmocka_unit_test(damaged_gzip_is_refused),
		cmocka_unit_test(a_full_disk_is_noticed),  cmocka_unit_test(the_map_finds_what_is_there),
	};
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}

/* test_files_learn.c - lists of files: written, read, broken ones; commands; numbered shards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "policy/files/learn_file.h"
#include "policy/files/learn_list.h"
#include "policy/files/learn_objects.h"
#include "policy/files/shard_name.h"

static char text[LEARN_BYTES];

static void what_is_written_is_read(void **state)
{
	struct learn_record part = {.path = "/lib/libx.so"}, all = {.path = "/a b/c"}, r;
	struct learn_writer w;
	size_t at;

	(void)state;
	learn_range_add(&part, 0, 4096);
	learn_range_add(&part, 4096, 8192); /* joined */
	learn_range_add(&part, 10 * FILES_MIB, 11 * FILES_MIB);
	learn_list_open(&w, text);
	assert_true(learn_list_put(&w, &part) && learn_list_put(&w, &all));
	at = learn_list_begin(text, w.used);
	assert_int_not_equal(at, 0);
	assert_true(learn_list_next(text, w.used, &at, &r));
	assert_string_equal(r.path, "/lib/libx.so");
	assert_int_equal(r.ranges, 2);
	assert_int_equal(r.range[0].to, 8192);
	assert_int_equal(r.range[1].from, 10 * FILES_MIB);
	assert_true(learn_list_next(text, w.used, &at, &r));
	assert_string_equal(r.path, "/a b/c");
	assert_int_equal(r.ranges, 0);
	assert_false(learn_list_next(text, w.used, &at, &r));
}

static void a_full_list_takes_no_more(void **state)
{
	struct learn_record r = {.path = text};
	struct learn_writer w;
	static char path[4000], mine[LEARN_BYTES];
	unsigned n = 0;

	(void)state;
	memset(path, 'x', sizeof(path) - 1);
	path[0] = '/';
	r.path = path;
	learn_list_open(&w, mine);
	while (learn_list_put(&w, &r))
		n++;
	assert_in_range(n, LEARN_BYTES / 4100, LEARN_BYTES / 3900);
	assert_true(w.used <= LEARN_BYTES);
	r.path = "/x";
	learn_list_open(&w, mine);
	for (n = 0; learn_list_put(&w, &r); n++)
		;
	assert_int_equal(n, LEARN_FILES);
}

static void too_many_ranges_are_joined_where_they_are_close(void **state)
{
	struct learn_record r = {.path = "/x"};

	(void)state;
	for (unsigned i = 0; i < 3 * LEARN_RANGES; i++)
		learn_range_add(&r, i * FILES_MIB + (i % 2 ? 0 : 300 * FILES_KIB), i * FILES_MIB + 400 * FILES_KIB);
	assert_int_equal(r.ranges, LEARN_RANGES);
	assert_int_equal(r.range[0].from, 300 * FILES_KIB);
	assert_int_equal(r.range[LEARN_RANGES - 1].to, (3 * LEARN_RANGES - 1) * FILES_MIB + 400 * FILES_KIB);
	for (unsigned i = 1; i < r.ranges; i++)
		assert_true(r.range[i].from > r.range[i - 1].to);
}

/* Records that are none end the list. */
static void broken(const char *record, size_t size)
{
	char list[256] = "turbo-files 1\n";
	size_t at = strlen(list), end = at + size;
	struct learn_record r;

	memcpy(list + at, record, size);
	assert_int_equal(learn_list_begin(list, end), at);
	if (learn_list_next(list, end, &at, &r))
		fail_msg("taken: %.*s", (int)size, record);
}

static void broken_records(void **state)
{
	(void)state;
#define BROKEN(record) broken(record, sizeof(record))
	BROKEN("*");
	BROKEN("* relative");
	BROKEN(" /x");
	BROKEN("1 /x");
	BROKEN("1- /x");
	BROKEN("2-1 /x");
	BROKEN("1-1 /x");
	BROKEN("1-2, /x");
	BROKEN("1-2,1-3 /x");
	BROKEN("1-99999999999999999999 /x");
	BROKEN("1-9223372036854775808 /x");
	BROKEN("-1-2 /x");
	BROKEN("0x1-2 /x");
	broken("* /without end", strlen("* /without end"));
	broken("", 0);
	assert_int_equal(learn_list_begin("turbo-files 2\n", 14), 0);
	assert_int_equal(learn_list_begin("turbo", 5), 0);
}

/* Bytes turned over at random: whatever is taken is within the text. */
static void random_damage(void **state)
{
	const char *seed_text = getenv("SEED"), *soak = getenv("SOAK_S");
	unsigned seed = seed_text ? (unsigned)atoi(seed_text) : (unsigned)time(NULL);
	time_t end = time(NULL) + (soak ? atoi(soak) : 0);
	struct learn_writer w;
	size_t whole;

	(void)state;
	printf("SEED=%u\n", seed);
	learn_list_open(&w, text);
	for (unsigned i = 0; i < 50; i++) {
		char path[64];
		struct learn_record r = {.path = path};
		snprintf(path, sizeof(path), "/usr/lib/python/%u.pyc", i);
		for (unsigned n = 0; n < i % 4; n++)
			learn_range_add(&r, n * FILES_MIB, n * FILES_MIB + 4096);
		assert_true(learn_list_put(&w, &r));
	}
	whole = w.used;
	for (unsigned round = 0; round < 20000 || time(NULL) < end; round++) {
		char *copy = malloc(whole); /* of its own, so that a sanitizer sees what is behind it */
		size_t size = whole - (size_t)rand_r(&seed) % 20, at;
		struct learn_record r;
		memcpy(copy, text, whole);
		for (int i = rand_r(&seed) % 4; i >= 0; i--)
			copy[(size_t)rand_r(&seed) % whole] = (char)rand_r(&seed);
		at = learn_list_begin(copy, size);
		while (at && learn_list_next(copy, size, &at, &r)) {
			assert_true(r.path > copy && r.path + strlen(r.path) < copy + size && r.path[0] == '/');
			for (unsigned i = 0; i < r.ranges; i++)
				assert_true(r.range[i].from < r.range[i].to);
		}
		free(copy);
	}
}

static uint64_t number(const char *arguments, size_t size)
{
	return learn_file_number("/usr/bin/python3", arguments, size);
}

static void commands(void **state)
{
	(void)state;
#define NUMBER(arguments) number(arguments, sizeof(arguments))
	assert_true(NUMBER("python3\0train.py\0--lr\0001") == NUMBER("python\0train.py\0--lr\0002"));
	assert_true(NUMBER("python3\0train.py") != NUMBER("python3\0other.py"));
	assert_true(NUMBER("python3\0train1.py") != NUMBER("python3\0train2.py"));
	assert_true(NUMBER("python3\0-u\0train.py") != NUMBER("python3\0train.py"));
	assert_true(NUMBER("python3\0-m\0torch.x\0a") == NUMBER("python3\0-m\0torch.x\0b"));
	assert_true(NUMBER("python3\0-m\0torch.x") != NUMBER("python3\0-m\0torch.y"));
	assert_true(NUMBER("python3\0-c\0f(fd=3)\0x") == NUMBER("python3\0-c\0f(fd=12)\0y"));
	assert_true(NUMBER("python3") != learn_file_number("/bin/other", "python3", 8));
	assert_true(learn_file_number("/x", "", 0) == learn_file_number("/x", "", 0));
}

static void step(const char *path, int by, const char *expected)
{
	char out[64];

	if (!expected) {
		assert_false(shard_name_step(path, by, out, sizeof(out)));
		return;
	}
	assert_true(shard_name_step(path, by, out, sizeof(out)));
	assert_string_equal(out, expected);
}

static void numbered_shards(void **state)
{
	(void)state;
	step("/d/shard-000123.tar", 1, "/d/shard-000124.tar");
	step("/d/shard-000199.tar", 1, "/d/shard-000200.tar");
	step("/d/shard-000200.tar", -1, "/d/shard-000199.tar");
	step("/d/model-00002-of-00007.safetensors", 1, "/d/model-00003-of-00007.safetensors");
	step("/d/x9.bin", 1, NULL);
	step("/d/x0.bin", -1, NULL);
	step("/d9/x.bin", 1, NULL);
	step("/d/x.h5", 1, NULL);
	step("x5", 1, "x6");
	step("/very/long/name/that/does/not/fit/into/the/buffer/of/this/test/x5", 1, NULL);
}

static unsigned objects, is_libc;

static void put(const struct learn_record *r, void *arg)
{
	(void)arg;
	objects++;
	assert_int_equal(r->path[0], '/');
	assert_true(r->ranges > 0 && r->ranges <= LEARN_RANGES);
	is_libc |= strstr(r->path, "libc.so") != NULL;
}

static void loaded_libraries_are_found(void **state)
{
	(void)state;
	learn_objects(put, NULL);
	assert_true(objects >= 2 && is_libc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(a_full_list_takes_no_more),
		cmocka_unit_test(too_many_ranges_are_joined_where_they_are_close),
		cmocka_unit_test(broken_records),
		cmocka_unit_test(random_damage),
		cmocka_unit_test(commands),
		cmocka_unit_test(numbered_shards),
		cmocka_unit_test(loaded_libraries_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

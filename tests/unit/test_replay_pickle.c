/* test_replay_pickle.c - the reader of pickles: plain data comes out as it went in, everything else is
 * refused, and no input makes it read or write where it must not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "tools/turbo/pickle.c"
#include "tools/turbo/pickle_stack.c"

#define BYTES(s) (s), sizeof(s) - 1

/*
 * {'n': None, 'b': [True, False], 'i': (0, 255, 65535, -1, 2**31-1, 2**40, -2**63, 2**80), 'f': 1.5,
 *  's': 'text', 'y': b'\x00\xff', 'd': {}, 'e': [[], ()], 'same': <the list b>}
 * as Python 3.11 writes it.
 */
static const unsigned char protocol_2[] =
	"\x80\x02}q\x00(X\x01\x00\x00\x00nq\x01NX\x01\x00\x00\x00"
	"bq\x02]q\x03(\x88\x89"
	"eX\x01\x00\x00\x00iq\x04(K\x00K\xffM\xff\xffJ\xff\xff\xff\xffJ\xff\xff\xff\x7f"
	"\x8a\x06\x00\x00\x00\x00\x00\x01\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80"
	"\x8a\x0b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01tq\x05X\x01\x00\x00\x00"
	"fq\x06G?\xf8\x00\x00\x00\x00\x00\x00X\x01\x00\x00\x00sq\x07X\x04\x00\x00\x00textq\x08"
	"X\x01\x00\x00\x00"
	"dq\x09}q\x0aX\x01\x00\x00\x00"
	"eq\x0b]q\x0c(]q\x0d)eX\x04\x00\x00\x00sameq\x0eh\x03u.";
static const unsigned char protocol_4[] =
	"\x80\x04\x95\x86\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01n\x94N\x8c\x01"
	"b\x94]\x94(\x88\x89"
	"e\x8c\x01i\x94(K\x00K\xffM\xff\xffJ\xff\xff\xff\xffJ\xff\xff\xff\x7f"
	"\x8a\x06\x00\x00\x00\x00\x00\x01\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80"
	"\x8a\x0b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01t\x94\x8c\x01"
	"f\x94G?\xf8\x00\x00\x00\x00\x00\x00\x8c\x01s\x94\x8c\x04text\x94\x8c\x01y\x94"
	"C\x02\x00\xff\x94\x8c\x01"
	"d\x94}\x94\x8c\x01"
	"e\x94]\x94(]\x94)e\x8c\x04same\x94h\x03u.";

static pickle_ref under(struct pickle *p, pickle_ref dict, const char *key)
{
	pickle_ref ref;
	assert_true(pickle_lookup(p, dict, key, &ref));
	return ref;
}

static void check_plain(const unsigned char *data, size_t size)
{
	static const int64_t ints[] = {0, 255, 65535, -1, INT32_MAX, 1ll << 40, INT64_MIN};
	struct pickle p;
	pickle_ref root, ref;
	size_t n;
	uint64_t number;
	if (!pickle_load(&p, data, size, &root))
		fail_msg("%s", p.why);
	assert_int_equal(pickle_value(&p, under(&p, root, "n"))->type, PICKLE_NONE);
	const pickle_ref *item = pickle_items(&p, under(&p, root, "b"), &n);
	assert_int_equal(n, 2);
	assert_int_equal(pickle_value(&p, item[0])->integer, 1);
	assert_int_equal(pickle_value(&p, item[1])->integer, 0);
	assert_int_equal(pickle_value(&p, item[1])->type, PICKLE_BOOL);
	item = pickle_items(&p, under(&p, root, "i"), &n);
	assert_int_equal(n, 8);
	for (size_t i = 0; i < 7; i++) {
		assert_int_equal(pickle_value(&p, item[i])->type, PICKLE_INT);
		assert_true(pickle_value(&p, item[i])->integer == ints[i]);
	}
	assert_int_equal(pickle_value(&p, item[7])->type, PICKLE_BIG);
	assert_true(pickle_value(&p, under(&p, root, "f"))->real == 1.5);
	assert_true(pickle_is(&p, under(&p, root, "s"), "text"));
	assert_false(pickle_is(&p, under(&p, root, "s"), "tex"));
	assert_int_equal(pickle_value(&p, under(&p, root, "d"))->type, PICKLE_DICT);
	item = pickle_items(&p, under(&p, root, "e"), &n);
	assert_int_equal(n, 2);
	assert_non_null(pickle_items(&p, item[0], &n));
	assert_int_equal(n, 0);
	assert_int_equal(under(&p, root, "same"), under(&p, root, "b"));
	assert_false(pickle_lookup(&p, root, "absent", &ref));
	assert_false(pickle_lookup(&p, under(&p, root, "b"), "n", &ref));
	assert_false(pickle_number(&p, root, "f", &number));
	pickle_free(&p);
}

static void plain_data_is_read(void **state)
{
	(void)state;
	check_plain(BYTES(protocol_2));
	check_plain(BYTES(protocol_4));
}

static bool loads(const void *data, size_t size, char why[160])
{
	struct pickle p;
	pickle_ref root;
	/* A copy of its own, so that a sanitizer sees a byte too far. */
	unsigned char *exact = malloc(size ? size : 1);
	memcpy(exact, data, size);
	bool ok = pickle_load(&p, exact, size, &root);
	if (why)
		strcpy(why, p.why);
	pickle_free(&p);
	free(exact);
	return ok;
}

static void every_prefix_is_refused(void **state)
{
	(void)state;
	for (size_t n = 0; n < sizeof(protocol_2) - 1; n++)
		assert_false(loads(protocol_2, n, NULL));
	for (size_t n = 0; n < sizeof(protocol_4) - 1; n++)
		assert_false(loads(protocol_4, n, NULL));
}

static const struct {
	const char *data;
	size_t size;
	const char *why;
} bad_pickles[] = {
	{BYTES(""), "not a pickle"},
	{BYTES("(dp0\n."), "not a pickle"},
	{BYTES("\x80\x01N."), "protocol 1 "},
	{BYTES("\x80\x06N."), "protocol 6 "},
	{BYTES("\x80\x02N.N"), "byte 4: there is something behind"},
	{BYTES("\x80\x02NN."), "2 values"},
	{BYTES("\x80\x02."), "0 values"},
	{BYTES("\x80\x02(N."), "values at the end"},
	{BYTES("\x80\x02"
		   "cos\nsystem\n."),
	 "byte 2: opcode GLOBAL"},
	{BYTES("\x80\x04\x8c\x02os\x8c\x06system\x93."), "STACK_GLOBAL"},
	{BYTES("\x80\x02N)R."), "byte 4: opcode REDUCE"},
	{BYTES("\x80\x02Nb."), "BUILD"},
	{BYTES("\x80\x02N)\x81."), "NEWOBJ"},
	{BYTES("\x80\x02\x82\x01."), "EXT1"},
	{BYTES("\x80\x02(i__main__\nX\n."), "INST"},
	{BYTES("\x80\x02NQ."), "BINPERSID"},
	{BYTES("\x80\x05\x97."), "NEXT_BUFFER"},
	{BYTES("\x80\x02\xff."), "unknown opcode 0xff"},
	{BYTES("\x80\x02"
		   "a."),
	 "too few values"},
	{BYTES("\x80\x02Na."), "too few values"},
	{BYTES("\x80\x02NNa."), "no container"},
	{BYTES("\x80\x02}Na."), "no container"},
	{BYTES("\x80\x02]NNs."), "no container"},
	{BYTES("\x80\x02}(Nu."), "key without a value"},
	{BYTES("\x80\x02(Nd."), "key without a value"},
	{BYTES("\x80\x02"
		   "e."),
	 "no mark"},
	{BYTES("\x80\x02t."), "no mark"},
	{BYTES("\x80\x02"
		   "1."),
	 "no mark"},
	{BYTES("\x80\x02"
		   "0."),
	 "too few values"},
	{BYTES("\x80\x02"
		   "2."),
	 "too few values"},
	{BYTES("\x80\x02](a."), "too few values"}, /* not through the mark */
	{BYTES("\x80\x02N\x86."), "too few values"},
	{BYTES("\x80\x02q\x00."), "too few values"},
	{BYTES("\x80\x02h\x00."), "never set"},
	{BYTES("\x80\x02Nq\x02h\x01."), "never set"},
	{BYTES("\x80\x02Nr\xff\xff\xff\xff."), "too large"},
	{BYTES("\x80\x02Nj\xff\xff\xff\xff."), "never set"},
	{BYTES("\x80\x02X\xff\xff\xff\xffx."), "ends in the middle"},
	{BYTES("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xffx."), "ends in the middle"},
	{BYTES("\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7fN."), "middle of a frame"},
	{BYTES("\x80\x02\x8b\xff\xff\xff\xff\x01."), "ends in the middle"},
};

static void what_is_not_plain_data_is_refused(void **state)
{
	char why[160];
	(void)state;
	for (size_t i = 0; i < sizeof(bad_pickles) / sizeof(bad_pickles[0]); i++)
		if (loads(bad_pickles[i].data, bad_pickles[i].size, why) || !strstr(why, bad_pickles[i].why))
			fail_msg("pickle %zu (%s): %s", i, bad_pickles[i].why, why);
}

/* A list that holds itself is a value like any other, and is freed once. */
static void containers_may_hold_themselves(void **state)
{
	(void)state;
	assert_true(loads(BYTES("\x80\x02]q\x00h\x00"
							"a."),
					  NULL));
	assert_true(loads(BYTES("\x80\x02}q\x00(NN)h\x00u."), NULL));
	assert_true(loads(BYTES("\x80\x02]q\x00(h\x00h\x00h\x00"
							"eh\x00"
							"a."),
					  NULL));
}

static void random_changes_do_no_harm(void **state)
{
	unsigned char bytes[sizeof(protocol_4) + sizeof(protocol_2)];
	unsigned seed = (unsigned)time(NULL);
	int good = 0;
	(void)state;
	print_message("seed %u\n", seed);
	srand(seed);
	for (int i = 0; i < 50000; i++) {
		const unsigned char *from = i % 2 ? protocol_2 : protocol_4;
		size_t n = (i % 2 ? sizeof(protocol_2) : sizeof(protocol_4)) - 1;
		memcpy(bytes, from, n);
		for (int k = rand() % 4 + 1; k > 0; k--)
			bytes[2 + (size_t)rand() % (n - 2)] =
				(unsigned char)(rand() % 2 ? rand() : from[(size_t)rand() % n]);
		good += loads(bytes, n, NULL);
	}
	assert_in_range(good, 1, 49999); /* both ways are taken */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_data_is_read),
		cmocka_unit_test(every_prefix_is_refused),
		cmocka_unit_test(what_is_not_plain_data_is_refused),
		cmocka_unit_test(containers_may_hold_themselves),
		cmocka_unit_test(random_changes_do_no_harm),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

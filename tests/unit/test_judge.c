/* test_judge.c - every verdict, and who is named; see common/judge_world.h for the worlds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "common/judge_world.h"

struct row {
	const char *what, *world, *verdict;
};

static void check(const struct row *rows, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		const char *is = world_verdict(rows[i].world, NULL);
		if (strcmp(is, rows[i].verdict) != 0)
			fail_msg("%s: \"%s\" where \"%s\" is right", rows[i].what, is, rows[i].verdict);
	}
}
#define CHECK(rows) check(rows, sizeof(rows) / sizeof((rows)[0]))

static void test_nothing(void **state)
{
	static const struct row rows[] = {
		{"empty", "", "nothing"},
		{"all over", "comm A 0 1; A all_reduce 64 : d d", "nothing"},
		{"under way", "comm A 0 1; A all_reduce 64 : s0.5 s0.4", "nothing"},
		{"one late", "comm A 0 1; A all_reduce 64 : s20 -", "nothing"},
		{"alone", "comm A 0; A all_reduce 64 : s10", "nothing"},
	};
	(void)state;
	CHECK(rows);
}

static void test_dead(void **state)
{
	static const struct row rows[] = {
		{"has not called", "comm A 0 1; A all_reduce 64 : s2 -; P1 dead 0.5", "dead 1 at 1"},
		{"had called", "comm A 0 1; A all_reduce 64 : s2 i2; P1 dead 0.5", "dead 1 at 1"},
		{"had begun", "comm A 0 1; A all_reduce 64 : s2 s2; P1 dead 0.5", "dead 1 at 1"},
		{"eight ranks",
		 "comm A 0 1 2 3 4 5 6 7; A all_reduce 64 : d d d d d d d d; A all_gather 8 : s2 s2 s2 s2 s2 - s2 -;"
		 "P5 dead 0.5",
		 "dead 5 at 2"},
		{"waited for through another",
		 "comm A 0 1; comm B 1 2; B all_reduce 8 : s9 -; A all_reduce 8 : s8 -; P1 wait gpu 8; P2 dead 0.6",
		 "dead 2 at 1"},
		{"a receive from it", "comm A 0 1 2; A send 1>0 64 : - s3; P1 dead 1", "dead 1 at 0"},
		{"inside ncclCommInitRank", "comm A 0 1; A init : c5 c4; P1 dead 1", "dead 1 at 1"},
		{"in the call", "comm A 0 1; A all_reduce 64 : c2 -; P1 dead 0.5", "dead 1 at 1"},
		{"the waiting one's sampler is stuck, the dead has not called",
		 "comm A 0 1; A all_reduce 64 : i9 -; P0 sampled 8; P1 dead 1", "dead 1 at 1"},
		{"ranks on another host", "comm A 0 1 of 4; A all_reduce 64 : s2 -; P1 dead 0.5", "dead 1 at 1"},
		{"of a graph", "comm A 0 1; A graph 64 z3 : s2 -; P1 dead 0.5", "dead 1 at 3"},
		/* not */
		{"this moment", "comm A 0 1; A all_reduce 64 : s2 -; P1 dead 0.1", "nothing"},
		{"had done its part", "comm A 0 1; A all_reduce 64 : s2 d2; P1 dead 0.5", "nothing"},
		{"nobody waits", "comm A 0 1; A all_reduce 64 : d d; P1 dead 20", "nothing"},
		{"waiting for another", "comm A 0 1 2; A send 2>0 64 : - s3; P1 dead 1", "nothing"},
		{"had left", "comm A 0 1; A all_reduce 64 : s2 -; A ended 1; P1 dead 1", "nothing"},
		{"the other leaves, too", "comm A 0 1; A all_reduce 64 : s2 -; A ended 0; P1 dead 1", "nothing"},
		{"the waiting one's GPU is far behind", "comm A 0 1; A broadcast 64 r1 : i9 s9; P1 dead 8",
		 "nothing"},
		{"nobody has looked since", "comm A 0 1; A all_reduce 64 : s2 s2; P0 sampled 0.5; P1 dead 0.5",
		 "nothing"},
		{"in another communicator", "comm A 0 1; comm B 0 2; A all_reduce 64 : s2 -; P2 dead 9", "nothing"},
		{"both are dead", "comm A 0 1; A all_reduce 64 : s2 -; P1 dead 9; P0 dead 8", "nothing"},
		{"a job that is not here any more", "comm A 0 1; A all_reduce 64 : s2 -; P1 dead 9; P0 dead 8",
		 "nothing"},
	};
	(void)state;
	CHECK(rows);
}

static void test_mismatch(void **state)
{
	static const struct row rows[] = {
		{"function", "comm A 0 1; A all_reduce 64 : s1 s1=all_gather/64", "mismatch 1 at 1"},
		{"shape", "comm A 0 1; A all_reduce 100 : s1 s1=all_reduce/200", "mismatch 1 at 1"},
		{"one against one, and who decides has not called",
		 "comm A 0 1 2 3; A all_reduce 64 : s1 s1=all_gather/64 - -", "nothing"},
		{"nor does so", "comm A 0 1 2 3; A all_reduce 64 : s3 s3=all_gather/64 - -", "mismatch 1 at 1"},
		{"one has", "comm A 0 1 2 3; A all_reduce 64 : s1=all_gather/64 s1 s1 -", "mismatch 0 at 1"},
		{"the odd one of three", "comm A 0 1 2; A all_reduce 64 : s1=all_gather/64 s1 s1", "mismatch 0 at 1"},
		{"the first difference",
		 "comm A 0 1; A all_reduce 64 : d d=all_reduce/32; A all_gather 8 : s1 s1=broadcast/8",
		 "mismatch 1 at 1"},
		{"after 3 that were alike",
		 "comm A 0 1 2 3; A all_reduce 64 : d d d d; A all_reduce 64 : d d d d; A all_gather 8 : d d d d;"
		 "A all_reduce 64 : s1 s1 i1=reduce_scatter/64 -",
		 "mismatch 2 at 4"},
		{"one has gone on", "comm A 0 1; A all_gather 64 : s1 s1=all_gather/32; A all_reduce 8 : i1 -",
		 "mismatch 1 at 1"},
		{"two swapped",
		 "comm A 0 1; A all_reduce 64 : s1 s1=all_gather/8; A all_gather 8 : i1 i1=all_reduce/64",
		 "mismatch 1 at 1"},
		{"sizes of a send and its receive", "comm A 0 1; A send 0>1 64 : s1 s1=recv/32", "mismatch 1 at 0"},
		{"a rank destroys it", "comm A 0 1; A all_reduce 64 : s1 d1=destroy/0; A ended 1", "mismatch 1 at 1"},
		{"a group holds something else",
		 "comm A 0 1; A all_gather 64 g1 : s1 s1; A all_gather 32 g1 : s1 s1=all_gather/16; A all_reduce 8 : i1 i1",
		 "mismatch 1 at 2"},
		/* not */
		{"any bytes of a send without a type", "comm A 0 1; A send 0>1 64 : s1 s1=recv/0", "nothing"},
		{"a group's order",
		 "comm A 0 1; A all_gather 64 g1 : s1 s1=all_gather/32; A all_gather 32 g1 : s1 s1=all_gather/64;"
		 "A all_reduce 8 : i1 i1",
		 "nothing"},
		{"split with any colour", "comm A 0 1; A split : d d", "nothing"},
		{"one in a graph", "comm A 0 1; A all_gather 64 : s1 s1=graph/1", "nothing"},
		{"refused, and made again",
		 "comm A 0 1; A all_gather 64 : - f9=all_reduce/1; A all_gather 64 : s1 s1", "nothing"},
		{"captured by one only", "comm A 0 1; A all_gather 64 : x9 -; A all_reduce 8 : s1 s1", "nothing"},
		{"aborted meanwhile", "comm A 0 1; A all_gather 64 : s1 -", "nothing"},
	};
	(void)state;
	CHECK(rows);
}

static void test_reductions(void **state)
{
	static const struct row rows[] = {
		{"sum and max", "comm A 0 1; comm B 0 1; A all_reduce 64 sum : s1 -; B all_reduce 64 : s1 s1",
		 "nothing"},
		{"sent as bytes", "comm A 0 1; A all_gather 64 y1 z64 : s1 s1", "nothing"},
	};
	struct judge_finding f;
	(void)state;
	CHECK(rows);
	/* The same bytes of another type: moved, but not reduced. */
	static const struct {
		const char *world;
		bool mismatch;
		int field;
	} twin[] = {
		{"comm A 0 1; A all_reduce 64 sum : s1 s1", true, 0},
		{"comm A 0 1; A all_gather 64 : s1 s1", false, 0},
		{"comm A 0 1; A all_reduce 64 sum : s1 s1", true, 1},
		{"comm A 0 1; A all_reduce 64 sum : s1 s1", false, 2},
		{"comm A 0 1; A broadcast 64 r0 : s1 s1", true, 3},
	};
	for (unsigned i = 0; i < sizeof(twin) / sizeof(twin[0]); i++) {
		const struct judge_world *w = world_of(twin[i].world);
		struct flight_op *op = &world_ops(1)[1];
		switch (twin[i].field) {
		case 0: op->type = 1, op->count *= 2; break;
		case 1: op->reduction = 2; break;
		case 2: op->reduction = 0xffff; break; /* made by the user */
		case 3: op->peer = 1; break;
		}
		op->signature++;
		judge_look(w, NULL, &f);
		if ((f.verdict == JUDGE_MISMATCH) != twin[i].mismatch)
			fail_msg("%s, field %d: %s", twin[i].world, twin[i].field, judge_name(f.verdict));
	}
}

static void test_cycle(void **state)
{
	static const struct row rows[] = {
		{"crossed, one stream", "comm A 0 1; comm B 0 1; A all_reduce 8 : s5 i4; B all_reduce 8 : i4 s5",
		 "cycle 1 at 1"},
		{"a send in its group's end, by a clock that is behind; its receiver waits for the next call",
		 "comm A 0 1; A send 0>1 64 g1 : i9 -; A all_reduce 8 : - s9; P0 wait nccl 9.008; P1 wait gpu 9",
		 "cycle 1 at 0"},
		{"crossed, waiting for each",
		 "comm A 0 1; comm B 0 1; A all_reduce 8 : s5 -; B all_reduce 8 : - s5; P0 wait gpu 5; P1 wait gpu 4",
		 "cycle 1 at 1"},
		{"one of four is crossed",
		 "comm A 0 1 2 3; comm B 0 1 2 3; A all_gather 8 : s5 s5 i4 s5; B all_gather 8 : i4 i4 s5 i4",
		 "cycle 2 at 1"},
		{"three in a ring",
		 "comm A 0 1; comm B 1 2; comm C 2 0; A all_reduce 8 : s6 i5; B all_reduce 8 : s6 i5;"
		 "C all_reduce 8 : s6 i5",
		 "cycle 2 at 1"},
		{"sends to each other first", "comm A 0 1; A send 0>1 1000000 : s5 -; A send 1>0 1000000 : s5 -",
		 "cycle 1 at 0"},
		{"a receive that never comes", "comm A 0 1; A send 0>1 64 : s5 -; A all_reduce 8 : - s5",
		 "cycle 1 at 0"},
		{"in the call, both",
		 "comm A 0 1; comm B 0 1; A all_reduce 8 : c5 -; B all_reduce 8 : - c5;"
		 "P0 wait nccl 5; P1 wait nccl 5",
		 "cycle 1 at 1"},
		{"another thread, for longer",
		 "comm A 0 1; comm B 0 1; A all_reduce 8 t1 S1 : s20 i19; B all_reduce 8 t2 S2 : i19 s20",
		 "cycle 1 at 1"},
		/* not */
		{"for 2 s only", "comm A 0 1; comm B 0 1; A all_reduce 8 : s2 i2; B all_reduce 8 : i2 s2", "nothing"},
		{"one is computing",
		 "comm A 0 1; comm B 0 1; A all_reduce 8 : s5 -; B all_reduce 8 : - s5; P1 wait gpu 4", "nothing"},
		{"in order, both GPUs busy", "comm A 0 1; comm B 0 1; A all_reduce 8 : s5 i5; B all_reduce 8 : i4 i4",
		 "nothing"},
		{"other threads, other streams",
		 "comm A 0 1; comm B 0 1; A all_reduce 8 t1 S1 : s5 i4; B all_reduce 8 t2 S2 : i4 s5", "nothing"},
		{"one group", "comm A 0 1; comm B 0 1; A all_reduce 8 g1 : s5 i4; B all_reduce 8 g1 : i4 s5",
		 "nothing"},
		{"a debugger",
		 "comm A 0 1; comm B 0 1; A all_reduce 8 : s5 -; B all_reduce 8 : - s5; P0 wait gpu 5;"
		 "P1 wait gpu 4; P1 traced 9",
		 "nothing"},
		{"watched for a second",
		 "comm A 0 1; comm B 0 1; A all_reduce 8 : s5 i4; B all_reduce 8 : i4 s5; watched 1", "nothing"},
	};
	(void)state;
	CHECK(rows);
}

static void test_stopped(void **state)
{
	static const struct row rows[] = {
		{"SIGSTOP", "comm A 0 1; A all_reduce 8 : s70 -; P1 stopped 61", "stopped 1 at 1"},
		{"SIGSTOP in the call", "comm A 0 1; A all_reduce 8 : s70 c65; P1 stopped 62", "stopped 1 at 1"},
		{"SIGSTOP after the call", "comm A 0 1; A all_reduce 8 : s70 i65; P1 stopped 62; P1 sampled 62",
		 "stopped 1 at 1"},
		{"SIGSTOP in the transfer", "comm A 0 1; A all_reduce 8 : s70 s70; P1 stopped 62", "stopped 1 at 1"},
		{"does nothing", "comm A 0 1; A all_reduce 8 : s70 -; P1 idle 61", "stopped 1 at 1"},
		{"eight ranks", "comm A 0 1 2 3 4 5 6 7; A all_reduce 8 : s70 s70 s70 s70 s70 s70 - s70; P6 idle 65",
		 "stopped 6 at 1"},
		{"who waits does nothing either, and is not it",
		 "comm A 0 1; A all_reduce 8 : s70 -; P0 idle 69; P0 wait gpu 70; P1 idle 61", "stopped 1 at 1"},
		{"inside a chain",
		 "comm A 0 1; comm B 1 2; B all_reduce 8 : s90 -; A all_reduce 8 : s70 -; P1 wait gpu 80; P1 idle 80;"
		 "P2 idle 61",
		 "stopped 2 at 1"},
		/* not */
		{"for a minute not yet", "comm A 0 1; A all_reduce 8 : s70 -; P1 stopped 20", "laggard"},
		{"a debugger", "comm A 0 1; A all_reduce 8 : s70 -; P1 traced 65; P1 idle 65", "laggard"},
		{"a file system", "comm A 0 1; A all_reduce 8 : s70 -; P1 disk 65; P1 idle 65", "laggard"},
		{"a subprocess", "comm A 0 1; A all_reduce 8 : s70 -; P1 idle 65; P1 child", "laggard"},
		{"a lock", "comm A 0 1; A all_reduce 8 : s70 -; P1 idle 65; P1 locked", "laggard"},
		{"its GPU", "comm A 0 1; A all_reduce 8 : s70 -; P1 idle 65; P1 wait gpu 64", "laggard"},
		{"all were stopped", "comm A 0 1; A all_reduce 8 : s3600 -; P1 idle 3600; watched 0.2", "nothing"},
		{"it computes", "comm A 0 1; A all_reduce 8 : s3600 -", "laggard"},
		{"nobody waits", "comm A 0 1; A all_reduce 8 : d -; P1 stopped 600", "nothing"},
		{"not measured", "comm A 0 1; A all_reduce 8 : s70 -; P1 idle 1000000", "laggard"},
	};
	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *is = world_verdict(rows[i].world, NULL);
		if (strncmp(is, rows[i].verdict, strlen(rows[i].verdict)) != 0)
			fail_msg("%s: \"%s\" where \"%s\" is right", rows[i].what, is, rows[i].verdict);
	}
}

static void test_transport(void **state)
{
	static const struct row rows[] = {
		{"behind another call until a moment ago",
		 "comm A 0 1; A all_reduce 64 S1 : d1 d1; A all_gather 8 S2 : s60 s60", "nothing"},
		{"all began", "comm A 0 1; A all_reduce 8 : s17 s16", "transport -1 at 1"},
		{"some are done", "comm A 0 1 2; A all_reduce 8 : s17 d17 s16", "transport -1 at 1"},
		{"a send and its receive", "comm A 0 1 2; A send 0>2 8 : s17 s16", "transport -1 at 0"},
		{"a graph, for a minute", "comm A 0 1; A graph 8 z1 : s70 s70", "transport -1 at 1"},
		{"a connection, for minutes", "comm A 0 1; A all_reduce 8 : c130 c130", "transport -1 at 1"},
		/* not */
		{"the last one began now", "comm A 0 1; A all_reduce 8 : s60 s60/3", "nothing"},
		{"much data", "comm A 0 1; A all_reduce 4000000000 : s40 s40", "nothing"},
		{"too long for that, too", "comm A 0 1; A all_reduce 4000000000 : s60 s60", "transport -1 at 1"},
		{"a graph computes, too", "comm A 0 1; A graph 8 z1 : s50 s50", "nothing"},
		{"connecting", "comm A 0 1; A all_reduce 8 : c20 c20", "nothing"},
		{"the rest is elsewhere", "comm A 0 1 of 4; A all_reduce 8 : s20 s20", "nothing"},
		{"watched for a moment", "comm A 0 1; A all_reduce 8 : s20 s20; watched 1", "nothing"},
	};
	(void)state;
	CHECK(rows);
}

static void test_held_and_laggard(void **state)
{
	static const struct row rows[] = {
		{"has not called", "comm A 0 1; A all_reduce 8 : s31 -", "laggard 1 at 1"},
		{"the later call's stream is free",
		 "comm A 0 1; A all_reduce 8 S1 : s31 i31; A all_gather 8 S2 : s31 s31", "held 1 at 1"},
		{"a captured call of its stream is not held up",
		 "comm A 0 1; A all_reduce 8 S1 : s31 i31; A all_gather 8 S1 : x x", "held 1 at 1"},
		{"computes elsewhere on its GPU", "comm A 0 1; A all_reduce 8 : s31 i31", "held 1 at 1"},
		{"a spinning kernel before it", "comm A 0; A all_reduce 8 : i31", "held 0 at 1"},
		{"ranks elsewhere", "comm A 0 1 of 4; A all_reduce 8 : s31 s31", "laggard -1 at 1"},
		{"another rank is not here yet", "comm A 0 of 2; A init : c40", "laggard -1 at 1"},
		{"in a chain: the end of it",
		 "comm A 0 1; comm B 1 2; B all_reduce 8 : s50 -; A all_reduce 8 : s40 -; P1 wait gpu 40",
		 "laggard 2 at 1"},
		{"a receive is missing", "comm A 0 1; A send 0>1 64 : s31 -", "laggard 1 at 0"},
		/* not */
		{"a deep queue",
		 "comm A 0 1; A all_reduce 8 : d50 d50; A all_reduce 8 : d1 d1; A all_reduce 8 : i31 i31", "nothing"},
	};
	(void)state;
	CHECK(rows);
}

static void test_timeout(void **state)
{
	static const struct row rows[] = {
		{"a laggard", "comm A 0 1; A all_reduce 8 : s6 -", "timeout 1 at 1"},
		{"held", "comm A 0; A all_reduce 8 : i6", "timeout 0 at 1"},
		{"transport", "comm A 0 1; A all_reduce 8 : s6 s6", "timeout -1 at 1"},
		{"dead comes first", "comm A 0 1; A all_reduce 8 : s6 -; P1 dead 1", "dead 1 at 1"},
		{"not yet", "comm A 0 1; A all_reduce 8 : s4 -", "nothing"},
		{"nobody knows", "comm A 0 1; A all_reduce 8 : b9 b9", "nothing"},
		{"the sampler has not looked", "comm A 0 1; A all_reduce 8 : s9 s9; P0 sampled 5; P1 sampled 5",
		 "nothing"},
	};
	struct judge_limits limits = judge_limits_default;
	(void)state;
	limits.user = 5000000000ull;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *is = world_verdict(rows[i].world, &limits);
		if (strcmp(is, rows[i].verdict) != 0)
			fail_msg("%s: \"%s\" where \"%s\" is right", rows[i].what, is, rows[i].verdict);
	}
}

/* The one that is not known of is neither named nor waited for. */
static void test_blind(void **state)
{
	static const struct row rows[] = {
		{"over, or not", "comm A 0 1; A all_reduce 8 : b90 b90", "nothing"},
		{"a later one tells", "comm A 0 1; A all_reduce 8 : b90 -; A all_reduce 8 : d50 -", "nothing"},
		{"a thread waits, the other has not called", "comm A 0 1; A all_reduce 8 : b90 -; P0 wait gpu 80",
		 "laggard 1 at 1"},
		{"and is dead", "comm A 0 1; A all_reduce 8 : b90 -; P0 wait gpu 80; P1 dead 1", "dead 1 at 1"},
		{"a sampler that is stuck", "comm A 0 1; A all_reduce 8 : i90 -; P0 sampled 85", "laggard 1 at 1"},
		{"both are stuck", "comm A 0 1; A all_reduce 8 : i90 i90; P0 sampled 85; P1 sampled 85", "nothing"},
	};
	(void)state;
	CHECK(rows);
}

static void test_all_findings(void **state)
{
	struct judge_finding found[8];
	unsigned n;
	(void)state;

	n = judge_look_all(world_of("comm A 0 1; comm B 2 3; comm C 4 5; A all_reduce 8 : s40 -;"
								"B all_reduce 8 : s40 -; P3 dead 1; C all_reduce 8 : s1 s1=all_gather/8"),
					   NULL, found, 8);
	assert_int_equal(n, 3);
	assert_int_equal(found[0].verdict, JUDGE_DEAD);
	assert_int_equal(found[1].verdict, JUDGE_MISMATCH);
	assert_int_equal(found[2].verdict, JUDGE_LAGGARD);
	assert_int_equal(found[2].waiting, 1);
	assert_int_equal(judge_look_all(world_of("comm A 0 1; A all_reduce 8 : s40 -"), NULL, found, 0), 0);
	/* Who never began is listed. */
	judge_look_all(world_of("comm A 0 1 2 3; A all_reduce 8 : s40 - i40 -"), NULL, found, 8);
	assert_int_equal(found[0].chained, 3);
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(judge_name(JUDGE_DEAD), "dead");
	assert_string_equal(judge_name((enum judge_verdict)99), "unknown");
	assert_true(judge_acts(JUDGE_CYCLE));
	assert_false(judge_acts(JUDGE_TRANSPORT));
	assert_false(judge_acts((enum judge_verdict)99));
	assert_string_equal(judge_function_name(FLIGHT_ALL_REDUCE), "all_reduce");
	for (unsigned f = 0; f < FLIGHT_FUNCTIONS; f++)
		assert_string_not_equal(judge_function_name(f), "unknown");
	assert_string_equal(judge_function_name(9999), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing),      cmocka_unit_test(test_dead),
		cmocka_unit_test(test_mismatch),     cmocka_unit_test(test_reductions),
		cmocka_unit_test(test_cycle),        cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_transport),    cmocka_unit_test(test_held_and_laggard),
		cmocka_unit_test(test_timeout),      cmocka_unit_test(test_blind),
		cmocka_unit_test(test_all_findings), cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

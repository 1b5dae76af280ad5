/* test_world_unlike.c - ranks that have called unlike things without hanging: seen by signatures, told once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "common/world_files.h"

#define S FILES_S

static struct flight_page *page[2];
static struct flight_comm *comm[2];
static struct world *w;
static uint64_t now;

static void start(void)
{
	for (int i = 0; i < 2; i++) {
		page[i] = files_page(files_child[i], 2);
		comm[i] = files_add(page[i], 7, i, 2);
	}
	now = S;
	w = NULL;
}

static void calls(int rank, unsigned function, uint64_t bytes)
{
	struct flight_op *op = files_issue(comm[rank], function, bytes, now);
	uint64_t before = comm[rank]->op[(op->index - 1) % FLIGHT_OPS].signature;

	if (function == FLIGHT_SEND) {
		comm[rank]->sequence--;
		op->sequence = 0;
		op->signature = before;
	} else {
		op->signature = (before * 31 + function) * 1000003 + bytes;
	}
	comm[rank]->started = comm[rank]->done = comm[rank]->issued;
}

static bool unlike(void)
{
	for (int i = 0; i < 2; i++)
		files_write(page[i], files_child[i], FILES_BYTES(2));
	if (!w)
		w = files_world(NULL);
	now += S;
	world_read(w, now, true);
	return world_unlike(w);
}

static void end(void)
{
	world_free(w);
	free(page[0]);
	free(page[1]);
	files_remove();
}

static void test_alike(void **state)
{
	(void)state;
	start();
	assert_false(unlike());
	for (int n = 0; n < 300; n++) {
		calls(0, FLIGHT_ALL_REDUCE, 64 + (uint64_t)n);
		if (n % 7 == 0)
			calls(0, FLIGHT_SEND, 8); /* these do not count, and one rank may be ahead */
		if (n < 290)
			calls(1, FLIGHT_ALL_REDUCE, 64 + (uint64_t)n);
		if (n % 50 == 0)
			assert_false(unlike());
	}
	assert_false(unlike());
	end();
}

static void test_unlike(void **state)
{
	(void)state;
	start();
	for (int i = 0; i < 2; i++)
		calls(i, FLIGHT_ALL_REDUCE, 64);
	assert_false(unlike());
	calls(0, FLIGHT_ALL_REDUCE, 100);
	assert_false(unlike());
	calls(1, FLIGHT_ALL_REDUCE, 200);
	calls(1, FLIGHT_ALL_REDUCE, 64);
	assert_true(unlike());
	assert_false(unlike()); /* once is enough */
	end();
}

/* What a graph holds is not known call by call. */
static void test_graph(void **state)
{
	(void)state;
	start();
	calls(0, FLIGHT_ALL_REDUCE, 64);
	calls(1, FLIGHT_GRAPH, 64);
	assert_false(unlike());
	end();
}

/* So far ahead that the call is not kept any more; and one that leaves. */
static void test_not_known(void **state)
{
	(void)state;
	start();
	for (int n = 0; n < FLIGHT_OPS + 144; n++)
		calls(0, FLIGHT_ALL_REDUCE, 64);
	calls(1, FLIGHT_ALL_GATHER, 64);
	assert_false(unlike());
	comm[1]->state = FLIGHT_ABORTED;
	for (int n = 0; n < FLIGHT_OPS + 143; n++)
		calls(1, FLIGHT_ALL_REDUCE, 64);
	assert_false(unlike());
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alike),
		cmocka_unit_test(test_unlike),
		cmocka_unit_test(test_graph),
		cmocka_unit_test(test_not_known),
	};

	return cmocka_run_group_tests(tests, files_setup, files_teardown);
}

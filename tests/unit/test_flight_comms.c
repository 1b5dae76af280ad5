/* test_flight_comms.c - communicators: their keys, how they are made and end, handles that are given again. */
#include "flight_fixture.h"

#include "policy/nccl/comms.h"

static char buffer[8];

static struct flight_comm *place(void *comm)
{
	struct flight_comm *c = flight_comm_of(comm);

	assert_non_null(c);
	return c;
}

static bool same_key(void *a, void *b)
{
	return memcmp(place(a)->key, place(b)->key, sizeof(place(a)->key)) == 0;
}

static void a_key_is_the_ids(void **state)
{
	(void)state;
	void *a = make_comm(1), *b = make_comm(1), *c = make_comm(2), *s, *t, *u;
	unique_id ids[3];

	assert_true(same_key(a, b));
	assert_false(same_key(a, c));
	assert_int_equal(place(a)->state, FLIGHT_LIVE);
	assert_int_equal(place(a)->rank, 1);
	assert_int_equal(place(a)->ranks, 4);
	assert_int_equal(place(a)->device, 5);
	assert_int_equal(place(a)->parent, 0);
	assert_int_not_equal(place(a)->number, place(b)->number);
	assert_int_equal(op_at(a, 1)->function, FLIGHT_INIT);
	assert_int_equal(op_at(a, 1)->sequence, 1);
	assert_true(op_at(a, 1)->done >= op_at(a, 1)->issued);
	assert_int_equal(place(a)->done, 1);
	/* Several ids, all of which count. */
	memset(ids, 1, sizeof(ids));
	ncclCommInitRankScalable(&s, 4, 1, 3, ids, NULL);
	ids[2].bytes[127] = 2;
	ncclCommInitRankScalable(&t, 4, 1, 3, ids, NULL);
	ncclCommInitRankScalable(&u, 4, 1, 2, ids, NULL);
	assert_false(same_key(s, t));
	assert_false(same_key(s, u));
	assert_false(same_key(s, a));
}

static void a_config_names_it(void **state)
{
	(void)state;
	struct config config = {sizeof(config), 0xcafebeef, 22800, INT32_MIN, {0}, NULL, 0, 0, "data\n parallel"};
	unique_id id = {"a"};
	void *comm;

	ncclCommInitRankConfig(&comm, 4, id, 1, &config);
	assert_string_equal(place(comm)->name, "data? parallel");
	assert_int_equal(place(comm)->nonblocking, 0);
	char name[100];
	memset(name, 'n', sizeof(name));
	name[99] = '\0';
	config.name = name;
	pncclCommInitRankConfig(&comm, 4, id, 1, &config);
	assert_int_equal(strlen(place(comm)->name), sizeof(place(comm)->name) - 1);
	/* What is behind an older one's end is nobody's. */
	config.version = 22600;
	config.name = (const char *)16;
	ncclCommInitRankConfig(&comm, 4, id, 1, &config);
	assert_string_equal(place(comm)->name, "");
	config.version = 22800;
	config.size = offsetof(struct config, name);
	ncclCommInitRankConfig(&comm, 4, id, 1, &config);
	assert_string_equal(place(comm)->name, "");
	config.magic = 1;
	config.blocking = 0;
	ncclCommInitRankConfig(&comm, 4, id, 1, &config);
	assert_int_equal(place(comm)->nonblocking, 0);
	ncclCommInitRankConfig(&comm, 4, id, 1, NULL);
	assert_string_equal(place(comm)->name, "");
}

static void one_that_does_not_block(void **state)
{
	(void)state;
	struct config config = {.size = sizeof(config), .magic = 0xcafebeef, .version = 22800, .blocking = 0};
	unique_id id = {"a"};
	void *comm;
	int error;

	fake.answer = fake.async = 7;
	assert_int_equal(ncclCommInitRankConfig(&comm, 4, id, 1, &config), 7);
	assert_int_equal(place(comm)->state, FLIGHT_MAKING);
	assert_int_equal(place(comm)->nonblocking, 1);
	assert_int_equal(place(comm)->done, 0);
	assert_true(op_at(comm, 1)->returned != 0);
	ncclCommGetAsyncError(comm, &error);
	assert_int_equal(place(comm)->state, FLIGHT_MAKING);
	fake.async = 0;
	ncclCommGetAsyncError(comm, &error);
	assert_int_equal(place(comm)->state, FLIGHT_LIVE);
	assert_int_equal(place(comm)->done, 1);
	assert_int_equal(place(comm)->device, 5);
	/* NCCL launches later: no event would stand in the right place. */
	ncclAllReduce(buffer, buffer, 1, FLOAT32, SUM, comm, STREAM);
	assert_int_equal(last_op(comm)->flags, FLIGHT_BLIND);
	assert_int_equal(launches, 0);
	assert_int_equal(ncclCommFinalize(comm), 7);
	assert_int_equal(place(comm)->state, FLIGHT_ENDING);
	assert_int_equal(last_op(comm)->done, 0);
	ncclCommGetAsyncError(comm, &error);
	assert_true(last_op(comm)->done != 0);
	assert_int_equal(place(comm)->state, FLIGHT_ENDING);
}

static void all_of_one_process(void **state)
{
	(void)state;
	void *comms[3], *others[3];
	const int list[3] = {0, 1, 2};

	for (int back = 0; back < 2; back++) {
		fake.call_back = back;
		assert_int_equal(ncclCommInitAll(comms, 3, list), 0);
		assert_int_equal(ncclCommInitAll(others, 3, list), 0);
		for (unsigned i = 0; i < 3; i++) {
			assert_true(same_key(comms[0], comms[i]));
			assert_false(same_key(comms[0], others[i]));
			assert_int_equal(op_at(comms[i], 1)->function, FLIGHT_INIT);
			assert_int_equal(place(comms[i])->state, FLIGHT_LIVE);
		}
	}
	ncclAllReduce(buffer, buffer, 1, FLOAT32, SUM, comms[0], STREAM);
	assert_int_equal(last_op(comms[0])->sequence, 2);
	/* Nothing to record, nothing to fall over. */
	assert_int_equal(ncclCommInitAll(comms, 0, NULL), 0);
	fake.answer = 4;
	assert_int_equal(ncclCommInitAll(comms, -1, NULL), 4);
}

static void children_have_keys_of_their_own(void **state)
{
	(void)state;
	void *a = make_comm(1), *b = make_comm(1), *made[6];
	int excluded[] = {2, 3};

	/* b is another rank of the same; it calls more in between, as after an error. */
	ncclAllReduce(buffer, buffer, 1, FLOAT32, SUM, b, STREAM);
	for (unsigned i = 0; i < 2; i++) {
		void *parent = i ? b : a;
		assert_int_equal(ncclCommSplit(parent, 0, 7, &made[3 * i], NULL), 0);
		assert_int_equal(last_op(parent)->function, FLIGHT_SPLIT);
		assert_true(last_op(parent)->done != 0);
		assert_int_equal(ncclCommSplit(parent, 0, 7, &made[3 * i + 1], NULL), 0);
		assert_int_equal(ncclCommShrink(parent, excluded, 2, &made[3 * i + 2], NULL, 0), 0);
		assert_int_equal(last_op(parent)->function, FLIGHT_SHRINK);
		assert_int_equal(place(made[3 * i])->parent, place(parent)->number);
	}
	for (unsigned i = 0; i < 3; i++) {
		assert_true(same_key(made[i], made[3 + i]));
		assert_false(same_key(made[i], made[(i + 1) % 3]));
		assert_int_equal(place(made[i])->rank, 1); /* as NCCL says */
		assert_int_equal(place(made[i])->issued, 0);
	}
	/* The number of what is collective goes on on all ranks. */
	assert_int_equal(last_op(a)->sequence + 1, last_op(b)->sequence);
	/* Another colour, and none. */
	ncclCommSplit(a, 0, 0, &made[0], NULL);
	ncclCommSplit(b, 1, 0, &made[1], NULL);
	assert_false(same_key(made[0], made[1]));
	uint32_t high = the_page()->comm_high;
	ncclCommSplit(a, -1, 0, &made[0], NULL);
	ncclCommSplit(b, 1, 0, &made[1], NULL);
	assert_null(made[0]);
	assert_in_range(the_page()->comm_high, high, high + 1);
	assert_int_equal(last_op(a)->sequence + 1, last_op(b)->sequence);
	ncclCommSplit(a, 2, 0, &made[0], NULL);
	ncclCommSplit(b, 2, 0, &made[1], NULL);
	assert_true(same_key(made[0], made[1]));
}

static void ranks_that_are_added(void **state)
{
	(void)state;
	void *a = make_comm(1), *old, *new;
	unique_id id = {"grow"};

	assert_int_equal(ncclCommGrow(a, 6, NULL, -1, &old, NULL), 0);
	assert_int_equal(last_op(a)->function, FLIGHT_GROW);
	assert_int_equal(place(old)->parent, place(a)->number);
	assert_int_equal(ncclCommGrow(NULL, 6, &id, 4, &new, NULL), 0);
	assert_int_equal(place(new)->parent, 0);
	assert_int_equal(place(new)->state, FLIGHT_LIVE);
}

static void made_in_a_group(void **state)
{
	(void)state;
	unique_id id = {"g"};
	void *comm[3] = {(void *)1, (void *)2, (void *)3}, *child = (void *)4;
	void *parent = make_comm(3);

	fake.late = true;
	ncclGroupStart();
	for (int i = 0; i < 3; i++)
		ncclCommInitRank(&comm[i], 3, id, i);
	assert_int_equal(ncclCommSplit(parent, 1, 0, &child, NULL), 0);
	assert_int_equal(last_op(parent)->done, 0);
	ncclGroupEnd();
	fake.late = false;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(place(comm[i])->state, FLIGHT_LIVE);
		assert_int_equal(place(comm[i])->done, 1);
		assert_true(same_key(comm[0], comm[i]));
	}
	assert_int_equal(last_op(parent)->function, FLIGHT_SPLIT);
	assert_true(last_op(parent)->done != 0);
	assert_int_equal(place(parent)->done, place(parent)->issued);
	assert_int_equal(place(child)->parent, place(parent)->number);
}

static void what_fails_to_be_made_leaves_its_place(void **state)
{
	(void)state;
	unique_id id = {"f"};
	void *comm = NULL, *parent = make_comm(1);
	unsigned free = 0;

	fake.answer = 2;
	for (unsigned i = 0; i < 2 * FLIGHT_COMMS; i++) {
		assert_int_equal(ncclCommInitRank(&comm, 2, id, 0), 2);
		assert_int_equal(ncclCommSplit(parent, 0, 0, &comm, NULL), 2);
	}
	assert_int_equal(last_op(parent)->flags, FLIGHT_FAILED);
	assert_int_equal(place(parent)->sequence, 1);
	fake.answer = 0;
	for (unsigned i = 0; i < FLIGHT_COMMS; i++)
		free += !comms_private(comms_at(the_page(), i))->taken;
	assert_int_equal(free, FLIGHT_COMMS - 1);
	comm = make_comm(2);
	assert_int_equal(place(comm)->issued, 1);
}

static void handles_are_given_again(void **state)
{
	(void)state;
	void *comm = make_comm(1), *first = comm;
	struct flight_comm *c = place(comm);
	uint32_t number = c->number;

	for (unsigned i = 0; i < 5; i++) {
		ncclAllReduce(buffer, buffer, 1, FLOAT32, SUM, comm, STREAM);
		struct flight_op *op = last_op(comm);
		uint64_t index = op->index;
		ncclCommDestroy(comm);
		assert_null(flight_comm_of(comm));
		assert_int_equal(c->state, FLIGHT_GONE);
		/* What it did last can still be read. */
		assert_int_equal(op->index, index);
		assert_int_equal(c->issued, index + 1);
		assert_int_equal(c->op[index + 1].function, FLIGHT_DESTROY);
		fake.next = first;
		comm = make_comm((char)(i + 2));
		assert_ptr_equal(comm, first);
		c = place(comm);
		assert_int_equal(c->issued, 1);
		assert_true(c->number > number);
		number = c->number;
	}
	/* Its end was not seen: the new one counts. */
	fake.next = first;
	assert_ptr_equal(make_comm(99), first);
	assert_int_equal(c->state, FLIGHT_GONE);
	assert_int_not_equal(place(first)->number, number);
	assert_int_equal(place(first)->issued, 1);
}

static void aborted_and_revoked(void **state)
{
	(void)state;
	void *comm = make_comm(1), *other = make_comm(2), *made;
	struct flight_comm *c = place(comm), *o = place(other);

	assert_int_equal(ncclCommRevoke(comm, 0), 0);
	assert_int_equal(c->state, FLIGHT_ENDING);
	assert_int_equal(ncclCommShrink(comm, NULL, 0, &made, NULL, 0), 0);
	assert_int_equal(place(made)->parent, c->number);
	assert_int_equal(ncclCommAbort(comm), 0);
	assert_int_equal(c->state, FLIGHT_ABORTED);
	assert_null(flight_comm_of(comm));
	/* One that is not known, or none at all. */
	assert_int_equal(ncclCommAbort(NULL), 0);
	assert_int_equal(ncclCommDestroy((void *)0x7777), 0);
	assert_int_equal(o->state, FLIGHT_LIVE);
	assert_int_equal(fake.ended, 4);
}

static void more_than_there_is_room_for(void **state)
{
	(void)state;
	void *comm[FLIGHT_COMMS + 3], *child = NULL;
	uint32_t lost = the_page()->lost;
	const void *caller;

	for (unsigned i = 0; i < FLIGHT_COMMS + 3; i++) {
		comm[i] = make_comm((char)i);
		assert_true((flight_comm_of(comm[i]) != NULL) == (i < FLIGHT_COMMS));
	}
	assert_int_equal(the_page()->lost, lost + 3);
	assert_int_equal(the_page()->comm_high, FLIGHT_COMMS);
	assert_ptr_equal(flight_comm_handle(place(comm[7]), &caller), comm[7]);
	assert_non_null(caller);
	/* Passed on all the same. */
	assert_int_equal(ncclAllReduce(buffer, buffer, 1, FLOAT32, SUM, comm[FLIGHT_COMMS], STREAM), 0);
	assert_int_equal(fake.real_calls, 1);
	assert_int_equal(ncclCommSplit(comm[FLIGHT_COMMS], 0, 0, &child, NULL), 0);
	assert_non_null(child);
	assert_null(flight_comm_of(child));
	assert_int_equal(ncclCommDestroy(comm[FLIGHT_COMMS]), 0);
	/* One that goes makes room. */
	struct flight_comm *c = place(comm[7]);
	uint32_t life = c->life;
	ncclCommDestroy(comm[7]);
	void *late = make_comm(1);
	assert_ptr_equal(place(late), c);
	assert_int_equal(c->life, life + 1);
	for (unsigned i = 0; i < FLIGHT_COMMS; i++)
		if (i != 7)
			assert_int_equal(last_op(comm[i])->function, FLIGHT_INIT);
}

int flight_test_comms(void)
{
#define TEST(name) cmocka_unit_test_setup(name, flight_setup)
	const struct CMUnitTest tests[] = {
		TEST(a_key_is_the_ids),
		TEST(a_config_names_it),
		TEST(one_that_does_not_block),
		TEST(all_of_one_process),
		TEST(children_have_keys_of_their_own),
		TEST(ranks_that_are_added),
		TEST(made_in_a_group),
		TEST(what_fails_to_be_made_leaves_its_place),
		TEST(handles_are_given_again),
		TEST(aborted_and_revoked),
		TEST(more_than_there_is_room_for),
	};

	return cmocka_run_group_tests_name("communicators", tests, NULL, NULL);
}

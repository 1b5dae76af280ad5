/* test_flight_groups.c - groups: several communicators and streams, nested, failed, full. */
#include "flight_fixture.h"

static char buffer[8];

static void reduce(void *comm, void *stream)
{
	assert_int_equal(ncclAllReduce(buffer, buffer, 10, FLOAT32, SUM, comm, stream), 0);
}

static void a_group_goes_to_the_gpu_at_its_end(void **state)
{
	(void)state;
	void *one = make_comm(1), *two = make_comm(2);
	void *s = (void *)0x10, *t = (void *)0x20;

	assert_int_equal(ncclGroupStart(), 0);
	reduce(one, s);
	reduce(two, s);
	ncclGroupStart();
	reduce(one, t);
	assert_int_equal(ncclGroupEnd(), 0);
	reduce(one, s);
	assert_int_equal(launches, 0);
	assert_true(last_op(one)->returned != 0);
	assert_int_equal(ncclGroupEnd(), 0);
	assert_int_equal(launches, 3);
	/* Each pair once, with its last operation. */
	assert_ptr_equal(followed[1].comm, flight_comm_of(one));
	assert_ptr_equal(followed[1].stream, s);
	assert_int_equal(followed[1].index, last_op(one)->index);
	assert_ptr_equal(followed[2].comm, flight_comm_of(two));
	assert_int_equal(followed[2].index, last_op(two)->index);
	assert_ptr_equal(followed[3].stream, t);
	assert_int_equal(followed[3].index, last_op(one)->index - 1);
	uint32_t group = last_op(one)->group;
	assert_int_not_equal(group, 0);
	for (uint64_t i = last_op(one)->index - 2; i <= last_op(one)->index; i++) {
		struct flight_op *op = op_at(one, i);
		assert_int_equal(op->group, group);
		assert_int_equal(op->flags, FLIGHT_GROUPED);
		assert_true(op->returned >= op->issued);
	}
	assert_int_equal(op_at(one, last_op(one)->index - 2)->grouped, 1);
	assert_int_equal(last_op(two)->grouped, 2);
	assert_int_equal(last_op(one)->grouped, 4);
	assert_int_equal(last_op(two)->group, group);
	/* The next one is another. */
	ncclGroupStart();
	reduce(one, s);
	ncclGroupEnd();
	assert_int_equal(last_op(one)->grouped, 1);
	assert_int_not_equal(last_op(one)->group, group);
	/* And what follows is in none. */
	reduce(one, s);
	assert_int_equal(last_op(one)->group, 0);
	assert_int_equal(last_op(one)->grouped, 0);
}

static void a_failed_group_leaves_nothing_open(void **state)
{
	(void)state;
	void *comm = make_comm(1), *made = NULL;
	unique_id id = {"x"};

	ncclGroupStart();
	reduce(comm, STREAM);
	fake.late = true;
	assert_int_equal(ncclCommInitRank(&made, 2, id, 0), 0);
	fake.answer = 3;
	assert_int_equal(ncclGroupEnd(), 3);
	fake.answer = 0;
	assert_int_equal(last_op(comm)->flags, FLIGHT_GROUPED | FLIGHT_FAILED);
	assert_true(last_op(comm)->done != 0);
	assert_int_equal(followed[1].index, last_op(comm)->index);
	assert_null(flight_comm_of(made));
}

static void a_simulated_group_does_not_run(void **state)
{
	(void)state;
	void *comm = make_comm(1);

	ncclGroupStart();
	reduce(comm, STREAM);
	assert_int_equal(ncclGroupSimulateEnd(NULL), 0);
	assert_int_equal(launches, 0);
	assert_int_equal(last_op(comm)->flags, FLIGHT_GROUPED | FLIGHT_FAILED);
	reduce(comm, STREAM);
	assert_int_equal(last_op(comm)->group, 0);
}

static void ends_without_a_start_do_no_harm(void **state)
{
	(void)state;
	void *comm = make_comm(1);

	fake.answer = 5;
	assert_int_equal(ncclGroupEnd(), 5);
	assert_int_equal(ncclGroupEnd(), 5);
	fake.answer = 0;
	reduce(comm, STREAM);
	assert_int_equal(last_op(comm)->flags, 0);
	assert_int_equal(launches, 1);
}

static void more_streams_than_a_group_follows(void **state)
{
	(void)state;
	void *comm = make_comm(1);

	ncclGroupStart();
	for (uintptr_t i = 0; i < 80; i++)
		reduce(comm, (void *)(0x1000 + i));
	ncclGroupEnd();
	assert_int_equal(launches, 64);
	assert_int_equal(last_op(comm)->flags, FLIGHT_GROUPED | FLIGHT_BLIND);
	for (unsigned i = 1; i <= launches; i++)
		assert_int_equal(followed[i].index, op_at(comm, i + 1)->index);
}

static void a_group_longer_than_the_ring(void **state)
{
	(void)state;
	void *comm = make_comm(1);

	ncclGroupStart();
	for (unsigned i = 0; i < 1000; i++)
		reduce(comm, STREAM);
	ncclGroupEnd();
	assert_int_equal(launches, 1);
	assert_int_equal(followed[1].index, 1001);
	for (uint64_t i = 1001 - FLIGHT_OPS + 1; i <= 1001; i++) {
		assert_int_equal(op_at(comm, i)->grouped, i - 1);
		assert_true(op_at(comm, i)->returned != 0);
	}
	assert_int_equal(last_op(comm)->launch, 1);
	/* Where nobody follows, all of it is blind. */
	follow_none = true;
	ncclGroupStart();
	for (unsigned i = 0; i < 10; i++)
		reduce(comm, STREAM);
	ncclGroupEnd();
	for (uint64_t i = 1002; i <= 1011; i++)
		assert_int_equal(op_at(comm, i)->flags, FLIGHT_GROUPED | FLIGHT_BLIND);
}

static void a_communicator_may_end_in_a_group(void **state)
{
	(void)state;
	void *one = make_comm(1), *two = make_comm(2);

	ncclGroupStart();
	reduce(one, STREAM);
	reduce(two, STREAM);
	assert_int_equal(ncclCommAbort(one), 0);
	/* Its place is another's before the group ends. */
	void *others[130];
	for (unsigned i = 0; i < 130; i++)
		others[i] = make_comm((char)i);
	ncclGroupEnd();
	for (unsigned i = 0; i < 130; i++)
		if (flight_comm_of(others[i]))
			assert_int_equal(last_op(others[i])->function, FLIGHT_INIT);
	assert_true(last_op(two)->returned != 0);
	assert_int_equal(launches, 1);
	assert_ptr_equal(followed[1].comm, flight_comm_of(two));
}

int flight_test_groups(void)
{
#define TEST(name) cmocka_unit_test_setup(name, flight_setup)
	const struct CMUnitTest tests[] = {
		TEST(a_group_goes_to_the_gpu_at_its_end), TEST(a_failed_group_leaves_nothing_open),
		TEST(a_simulated_group_does_not_run),     TEST(ends_without_a_start_do_no_harm),
		TEST(more_streams_than_a_group_follows),  TEST(a_group_longer_than_the_ring),
		TEST(a_communicator_may_end_in_a_group),
	};

	return cmocka_run_group_tests_name("groups", tests, NULL, NULL);
}

/* test_flight.c - NCCL's calls in the flight record: numbers, signatures, groups, what is refused, captured, nested. */
#include "flight_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guard.h"
#include "policy/nccl/comms.h"
#include "policy/nccl/flight_open.h"

static char buffer[8];

static void a_call_is_recorded(void **state)
{
	(void)state;
	void *comm = make_comm(1);
	struct flight_comm *c = flight_comm_of(comm);

	errno = 77;
	assert_int_equal(ncclAllReduce(buffer, buffer, 10, BFLOAT16, 2, comm, STREAM), 0);
	assert_int_equal(errno, 77);
	struct flight_op *op = last_op(comm);
	assert_int_equal(op->function, FLIGHT_ALL_REDUCE);
	assert_int_equal(op->sequence, 2); /* after the making */
	assert_int_equal(op->pair, 0);
	assert_int_equal(op->count, 10);
	assert_int_equal(op->bytes, 20);
	assert_int_equal(op->type, BFLOAT16);
	assert_int_equal(op->reduction, 2);
	assert_int_equal(op->peer, -1);
	assert_int_equal(op->stream, 0x51);
	assert_int_equal(op->flags, 0);
	assert_int_equal(op->thread, syscall(SYS_gettid));
	assert_true(op->issued && op->returned >= op->issued);
	assert_int_equal(op->launch, 1);
	assert_ptr_equal(followed[1].comm, c);
	assert_ptr_equal(followed[1].stream, STREAM);
	assert_int_equal(followed[1].index, op->index);
	assert_int_equal(c->sequence, 2);
	assert_int_equal(c->issued, 2);
	assert_int_equal(c->done, 1); /* the making; nobody has said that the call is */
	/* The other names. */
	pncclAllReduce(buffer, buffer, 10, BFLOAT16, 2, comm, STREAM);
	ncclAllReduceConfig(buffer, buffer, 10, BFLOAT16, 2, comm, STREAM, NULL);
	assert_int_equal(last_op(comm)->sequence, 4);
	assert_int_equal(last_op(comm)->function, FLIGHT_ALL_REDUCE);
	assert_int_equal(fake.real_calls, 3);
}

static uint64_t signature_after(char id, void (*calls)(void *comm))
{
	void *comm = make_comm(id);
	uint64_t signature;

	calls(comm);
	signature = last_op(comm)->signature;
	ncclCommDestroy(comm);
	return signature;
}

static void some(void *comm)
{
	ncclAllReduce(buffer, buffer, 10, FLOAT32, SUM, comm, STREAM);
	ncclAllGather(buffer, buffer, 8, FLOAT32, comm, STREAM);
}
static void same(void *comm)
{
	/* A rank's own doings are not all ranks'. */
	ncclSend(buffer, 5, FLOAT32, 2, comm, STREAM);
	ncclAllReduce(NULL, NULL, 10, FLOAT32, SUM, comm, NULL);
	ncclAllGather(buffer, buffer, 16, BFLOAT16, comm, NULL); /* so many bytes */
}
static void another_order(void *comm)
{
	ncclAllGather(buffer, buffer, 8, FLOAT32, comm, STREAM);
	ncclAllReduce(buffer, buffer, 10, FLOAT32, SUM, comm, STREAM);
}
static void another_count(void *comm)
{
	ncclAllReduce(buffer, buffer, 11, FLOAT32, SUM, comm, STREAM);
	ncclAllGather(buffer, buffer, 8, FLOAT32, comm, STREAM);
}
static void another_type(void *comm)
{
	ncclAllReduce(buffer, buffer, 20, BFLOAT16, SUM, comm, STREAM);
	ncclAllGather(buffer, buffer, 8, FLOAT32, comm, STREAM);
}
static void another_reduction(void *comm)
{
	ncclAllReduce(buffer, buffer, 10, FLOAT32, 3, comm, STREAM);
	ncclAllGather(buffer, buffer, 8, FLOAT32, comm, STREAM);
}
static void from_root_0(void *comm)
{
	ncclBroadcast(buffer, buffer, 10, FLOAT32, 0, comm, STREAM);
}
static void from_root_1(void *comm)
{
	ncclBroadcast(buffer, buffer, 10, FLOAT32, 1, comm, STREAM);
}
static void user_sum(void *comm)
{
	ncclReduce(buffer, buffer, 10, FLOAT32, 6, 0, comm, STREAM);
}
static void another_user_sum(void *comm)
{
	ncclReduce(buffer, buffer, 10, FLOAT32, 9, 0, comm, STREAM);
}

static void signatures_tell_what_ranks_called(void **state)
{
	(void)state;
	uint64_t of_some = signature_after(1, some);

	assert_int_equal(signature_after(2, some), of_some);
	assert_int_equal(signature_after(1, same), of_some);
	assert_int_not_equal(signature_after(1, another_order), of_some);
	assert_int_not_equal(signature_after(1, another_count), of_some);
	assert_int_not_equal(signature_after(1, another_type), of_some);
	assert_int_not_equal(signature_after(1, another_reduction), of_some);
	assert_int_not_equal(signature_after(1, from_root_0), signature_after(1, from_root_1));
	/* What ranks make for themselves has any number. */
	assert_int_equal(signature_after(1, user_sum), signature_after(1, another_user_sum));
}

static void sends_are_numbered_by_peer(void **state)
{
	(void)state;
	void *comm = make_comm(1), *other = make_comm(2);

	for (uint32_t i = 1; i <= 3; i++) {
		ncclSend(buffer, 1, FLOAT32, 2, comm, STREAM);
		assert_int_equal(last_op(comm)->pair, i);
		assert_int_equal(last_op(comm)->sequence, 0);
		assert_int_equal(last_op(comm)->peer, 2);
		ncclSend(buffer, 1, FLOAT32, 3, comm, STREAM);
		assert_int_equal(last_op(comm)->pair, i);
		ncclRecv(buffer, 1, FLOAT32, 2, comm, STREAM);
		assert_int_equal(last_op(comm)->pair, i);
		assert_int_equal(last_op(comm)->function, FLIGHT_RECV);
	}
	ncclSend(buffer, 1, FLOAT32, 2, other, STREAM);
	assert_int_equal(last_op(other)->pair, 1);
	ncclSend(buffer, 1, FLOAT32, COMMS_PEERS, comm, STREAM);
	assert_int_equal(last_op(comm)->pair, 0);
	ncclSend(buffer, 1, FLOAT32, -7, comm, STREAM);
	assert_int_equal(last_op(comm)->pair, 0);
	assert_int_equal(flight_comm_of(comm)->sequence, 1);
	/* A new life counts anew. */
	ncclCommDestroy(other);
	for (char i = 0; i < 127; i++)
		other = make_comm(i);
	ncclSend(buffer, 1, FLOAT32, 2, other, STREAM);
	assert_int_equal(last_op(other)->pair, 1);
}

static void one_sided_calls_are_recorded(void **state)
{
	(void)state;
	void *comm = make_comm(1);

	ncclPutSignal(buffer, 4, FLOAT32, 3, NULL, 0, 0, 0, 0, comm, STREAM);
	assert_int_equal(last_op(comm)->function, FLIGHT_PUT_SIGNAL);
	assert_int_equal(last_op(comm)->bytes, 16);
	assert_int_equal(last_op(comm)->peer, 3);
	ncclSignal(2, 0, 0, 0, comm, STREAM);
	assert_int_equal(last_op(comm)->function, FLIGHT_SIGNAL);
	assert_int_equal(last_op(comm)->bytes, 0);
	ncclWaitSignal(3, NULL, comm, STREAM);
	assert_int_equal(last_op(comm)->function, FLIGHT_WAIT_SIGNAL);
	assert_int_equal(last_op(comm)->count, 3);
	assert_int_equal(last_op(comm)->sequence, 0);
	assert_int_equal(launches, 3);
}

static void what_nccl_calls_itself_is_no_call(void **state)
{
	(void)state;
	void *comm = make_comm(1);
	uint64_t issued = flight_comm_of(comm)->issued;

	ncclBcast(buffer, 9, FLOAT32, 1, comm, STREAM);
	assert_int_equal(flight_comm_of(comm)->issued, issued + 1);
	assert_int_equal(last_op(comm)->function, FLIGHT_BROADCAST);
	assert_int_equal(fake.real_calls, 2);
	ncclBroadcast(buffer, buffer, 9, FLOAT32, 1, comm, STREAM);
	assert_int_equal(flight_comm_of(comm)->issued, issued + 2);
	/* What libturbo calls is none either. */
	guard_enter();
	ncclAllReduce(buffer, buffer, 1, FLOAT32, SUM, comm, STREAM);
	guard_leave();
	assert_int_equal(flight_comm_of(comm)->issued, issued + 2);
	assert_int_equal(fake.real_calls, 4);
}

static void what_is_refused_has_no_number(void **state)
{
	(void)state;
	void *comm = make_comm(1), *good = make_comm(1);

	some(good);
	some(comm);
	fake.answer = 4;
	assert_int_equal(ncclAllReduce(buffer, buffer, 10, FLOAT32, 77, comm, STREAM), 4);
	struct flight_op *op = last_op(comm);
	assert_int_equal(op->flags, FLIGHT_FAILED);
	assert_true(op->done != 0);
	assert_int_equal(followed[op->launch].index, op->index); /* nothing is left open */
	ncclSend(buffer, 1, FLOAT32, 2, comm, STREAM);
	fake.answer = 0;
	some(good);
	some(comm);
	assert_int_equal(last_op(comm)->sequence, last_op(good)->sequence);
	assert_int_equal(last_op(comm)->signature, last_op(good)->signature);
	ncclSend(buffer, 1, FLOAT32, 2, comm, STREAM);
	assert_int_equal(last_op(comm)->pair, 1);
}

static void captured_calls_do_not_run(void **state)
{
	(void)state;
	void *comm = make_comm(1);
	struct flight_comm *c = flight_comm_of(comm);

	capturing = true;
	some(comm);
	ncclGroupStart();
	some(comm);
	ncclGroupEnd();
	capturing = false;
	assert_int_equal(captures, 4);
	assert_int_equal(launches, 0);
	assert_int_equal(last_op(comm)->flags, FLIGHT_CAPTURED | FLIGHT_GROUPED);
	assert_int_equal(last_op(comm)->sequence, 0);
	assert_int_equal(c->done, c->issued);
	assert_int_equal(c->sequence, 1);
}

static void a_ring_keeps_the_newest(void **state)
{
	(void)state;
	void *comm = make_comm(1);

	for (unsigned i = 0; i < 3 * FLIGHT_OPS; i++)
		ncclAllReduce(buffer, buffer, i, FLOAT32, SUM, comm, STREAM);
	assert_int_equal(flight_comm_of(comm)->issued, 3 * FLIGHT_OPS + 1);
	for (uint64_t i = 2 * FLIGHT_OPS + 2; i <= 3 * FLIGHT_OPS + 1; i++)
		assert_int_equal(op_at(comm, i)->count, i - 2);
	/* Of those that nobody could follow it is said. */
	follow_none = true;
	ncclAllReduce(buffer, buffer, 1, FLOAT32, SUM, comm, STREAM);
	assert_int_equal(last_op(comm)->flags, FLIGHT_BLIND);
	assert_int_equal(last_op(comm)->launch, 0);
}

static void what_is_off_is_passed_on(void **state)
{
	(void)state;
	void *comm = make_comm(1), *made = NULL;
	uint64_t issued = flight_comm_of(comm)->issued;

	flight_switch(false);
	some(comm);
	ncclGroupStart();
	some(comm);
	assert_int_equal(ncclGroupEnd(), 0);
	assert_int_equal(ncclCommSplit(comm, 0, 0, &made, NULL), 0);
	assert_non_null(made);
	assert_int_equal(fake.real_calls, 4);
	assert_int_equal(flight_comm_of(comm)->issued, issued);
	assert_null(flight_comm_of(made));
	/* In the middle of a group. */
	ncclGroupStart();
	flight_switch(true);
	some(comm);
	ncclGroupEnd();
	some(comm);
	assert_int_equal(flight_comm_of(comm)->issued, issued + 4);
	assert_int_equal(last_op(comm)->flags, 0);
}

static void an_aborted_communicator_is_not_touched(void **state)
{
	(void)state;
	void *comm = make_comm(1), *made = NULL;
	int error = 0;

	tomb = comm;
	assert_int_equal(ncclAllReduce(buffer, buffer, 1, FLOAT32, SUM, comm, STREAM), 6);
	assert_int_equal(ncclSignal(2, 0, 0, 0, comm, STREAM), 6);
	assert_int_equal(ncclCommSplit(comm, 0, 0, &made, NULL), 6);
	assert_int_equal(ncclCommGetAsyncError(comm, &error), 0);
	assert_int_equal(error, 6);
	assert_int_equal(ncclCommGetAsyncError(comm, NULL), 4);
	assert_string_equal(ncclGetLastError(comm), "ours");
	assert_string_equal(ncclGetLastError(NULL), "NCCL's own");
	assert_int_equal(ncclCommRevoke(comm, 0), 0);
	assert_int_equal(ncclCommFinalize(comm), 0);
	assert_int_equal(ncclCommAbort(comm), 0);
	assert_int_equal(ncclCommDestroy(comm), 0);
	assert_int_equal(fake.real_calls, 0);
	assert_int_equal(fake.ended, 0);
	assert_null(made);
}

#define THREADS 4

static void *calls_own(void *comm)
{
	for (unsigned i = 0; i < 3000; i++) {
		ncclGroupStart();
		ncclAllReduce(buffer, buffer, 10, FLOAT32, SUM, comm, STREAM);
		ncclSend(buffer, 1, FLOAT32, 2, comm, STREAM);
		ncclGroupEnd();
	}
	return NULL;
}

static void threads_have_groups_of_their_own(void **state)
{
	(void)state;
	pthread_t thread[THREADS];
	void *comm[THREADS];

	follow_none = true;
	for (unsigned t = 0; t < THREADS; t++) {
		comm[t] = make_comm((char)t);
		assert_int_equal(pthread_create(&thread[t], NULL, calls_own, comm[t]), 0);
	}
	for (unsigned t = 0; t < THREADS; t++)
		pthread_join(thread[t], NULL);
	for (unsigned t = 0; t < THREADS; t++) {
		struct flight_op *send = last_op(comm[t]), *reduce = op_at(comm[t], send->index - 1);
		assert_int_equal(send->index, 6001);
		assert_int_equal(send->pair, 3000);
		assert_int_equal(reduce->sequence, 3001);
		assert_int_equal(send->group, reduce->group);
		assert_int_equal(send->thread, reduce->thread);
		assert_int_equal(reduce->signature, op_at(comm[0], 6000)->signature);
		for (unsigned u = 0; u < t; u++)
			assert_int_not_equal(send->group, last_op(comm[u])->group);
	}
}

/* An error of the program's, and races for ThreadSanitizer; it must not be worse with us. */
#if defined(__SANITIZE_THREAD__)
#define SHARE_ONE 0
#elif defined(__has_feature)
#define SHARE_ONE !__has_feature(thread_sanitizer)
#else
#define SHARE_ONE 1
#endif
#if SHARE_ONE
static void threads_that_share_one_do_no_harm(void **state)
{
	(void)state;
	pthread_t thread[THREADS];
	void *comm = make_comm(1);

	follow_none = true;
	for (unsigned t = 0; t < THREADS; t++)
		assert_int_equal(pthread_create(&thread[t], NULL, calls_own, comm), 0);
	for (unsigned t = 0; t < THREADS; t++)
		pthread_join(thread[t], NULL);
	assert_int_equal(flight_comm_of(comm)->issued, THREADS * 6000 + 1);
	assert_int_equal(flight_comm_of(comm)->sequence, THREADS * 3000 + 1);
}
#endif

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, flight_setup)
	const struct CMUnitTest tests[] = {
		TEST(a_call_is_recorded),
		TEST(signatures_tell_what_ranks_called),
		TEST(sends_are_numbered_by_peer),
		TEST(one_sided_calls_are_recorded),
		TEST(what_nccl_calls_itself_is_no_call),
		TEST(what_is_refused_has_no_number),
		TEST(captured_calls_do_not_run),
		TEST(a_ring_keeps_the_newest),
		TEST(what_is_off_is_passed_on),
		TEST(an_aborted_communicator_is_not_touched),
		TEST(threads_have_groups_of_their_own),
#if SHARE_ONE
		TEST(threads_that_share_one_do_no_harm),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL) + flight_test_comms() + flight_test_groups();
}

/* test_nccl_events.c - collectives: passed on as they are, numbered in their communicator, told while somebody records. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "events.h"
#include "hooks.h"
#include "nccl_comm.h"
#include "real.h"

int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *comm, void *stream);
int pncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *comm, void *stream);
int ncclReduce(const void *from, void *to, size_t count, int type, int op, int root, void *comm,
			   void *stream);
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, void *comm, void *stream);
int ncclBcast(void *buffer, size_t count, int type, int root, void *comm, void *stream);
int ncclAllGather(const void *from, void *to, size_t count, int type, void *comm, void *stream);
int ncclSend(const void *buffer, size_t count, int type, int peer, void *comm, void *stream);
int ncclRecv(void *buffer, size_t count, int type, int peer, void *comm, void *stream);
int ncclCommDestroy(void *comm);

#define FLOAT16 6
#define FLOAT32 7
#define STREAM ((void *)0x51)

/* ---- NCCL ---- */

static int answer;     /* of the calls */
static unsigned asked; /* for ranks */
static long got[8];    /* the arguments of the last call */

static int all_reduce(const void *from, void *to, size_t count, int type, int op, void *comm, void *stream)
{
	const long is[] = {(long)from, (long)to, (long)count, type, op, (long)comm, (long)stream};

	memcpy(got, is, sizeof(is));
	return answer;
}

static int reduce(const void *from, void *to, size_t count, int type, int op, int root, void *comm,
				  void *stream)
{
	const long is[] = {(long)from, (long)to, (long)count, type, op, root, (long)comm, (long)stream};

	memcpy(got, is, sizeof(is));
	return answer;
}

static int broadcast(const void *from, void *to, size_t count, int type, int root, void *comm, void *stream)
{
	const long is[] = {(long)from, (long)to, (long)count, type, root, (long)comm, (long)stream};

	memcpy(got, is, sizeof(is));
	return answer;
}

/* As NCCL does it. */
static int bcast(void *buffer, size_t count, int type, int root, void *comm, void *stream)
{
	return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

static int all_gather(const void *from, void *to, size_t count, int type, void *comm, void *stream)
{
	const long is[] = {(long)from, (long)to, (long)count, type, (long)comm, (long)stream};

	memcpy(got, is, sizeof(is));
	return answer;
}

static int one_buffer(void *buffer, size_t count, int type, int peer, void *comm, void *stream)
{
	const long is[] = {(long)buffer, (long)count, type, peer, (long)comm, (long)stream};

	memcpy(got, is, sizeof(is));
	return answer;
}

static int user_rank(void *comm, int *rank)
{
	(void)comm;
	asked++;
	*rank = 3;
	return 0;
}

static int comm_count(void *comm, int *ranks)
{
	(void)comm;
	*ranks = 8;
	return 0;
}

static int destroy(void *comm)
{
	(void)comm;
	return 0;
}

/* In place of the library's, which looks for a loaded NCCL. */
void *real_resolve_lazy(enum hook_id id, const void *caller)
{
	(void)caller;
	switch (id) {
	case HOOK_ncclAllReduce:
	case HOOK_pncclAllReduce: return (void *)all_reduce;
	case HOOK_ncclReduce: return (void *)reduce;
	case HOOK_ncclBroadcast: return (void *)broadcast;
	case HOOK_ncclBcast: return (void *)bcast;
	case HOOK_ncclAllGather: return (void *)all_gather;
	case HOOK_ncclSend:
	case HOOK_ncclRecv: return (void *)one_buffer;
	case HOOK_ncclCommUserRank: return (void *)user_rank;
	case HOOK_ncclCommCount: return (void *)comm_count;
	case HOOK_ncclCommDestroy: return (void *)destroy;
	default: return NULL;
	}
}

/* ---- tests ---- */

static void *comm_of(unsigned n)
{
	return (void *)(uintptr_t)(0x7f0000001000 + n * 4096ul);
}

static struct event told[64];

static int start(void **state)
{
	(void)state;
	answer = 0;
	asked = 0;
	return events_start() ? 0 : -1;
}

static int stop(void **state)
{
	(void)state;
	events_stop();
	for (unsigned n = 0; n < 8; n++)
		ncclCommDestroy(comm_of(n));
	return 0;
}

static void test_arguments(void **state)
{
	(void)state;
	char a[4] = "", b[4] = "";
	void *comm = comm_of(0);

	answer = 5;
	assert_int_equal(ncclAllReduce(a, b, 10, FLOAT16, 2, comm, STREAM), 5);
	const long reduced[] = {(long)a, (long)b, 10, FLOAT16, 2, (long)comm, (long)STREAM};
	assert_memory_equal(got, reduced, sizeof(reduced));
	assert_int_equal(ncclReduce(a, b, 11, FLOAT32, 1, 4, comm, STREAM), 5);
	const long rooted[] = {(long)a, (long)b, 11, FLOAT32, 1, 4, (long)comm, (long)STREAM};
	assert_memory_equal(got, rooted, sizeof(rooted));
	assert_int_equal(ncclBroadcast(a, b, 12, FLOAT32, 6, comm, STREAM), 5);
	const long cast[] = {(long)a, (long)b, 12, FLOAT32, 6, (long)comm, (long)STREAM};
	assert_memory_equal(got, cast, sizeof(cast));
	assert_int_equal(ncclAllGather(a, b, 13, FLOAT32, comm, STREAM), 5);
	const long gathered[] = {(long)a, (long)b, 13, FLOAT32, (long)comm, (long)STREAM};
	assert_memory_equal(got, gathered, sizeof(gathered));
	assert_int_equal(ncclSend(a, 14, FLOAT32, 1, comm, STREAM), 5);
	const long sent[] = {(long)a, 14, FLOAT32, 1, (long)comm, (long)STREAM};
	assert_memory_equal(got, sent, sizeof(sent));
}

static void test_told(void **state)
{
	(void)state;
	uint32_t rank, ranks;
	uint64_t before = events_now();

	for (unsigned i = 0; i < 3; i++) {
		ncclAllReduce(told, told, 1000, FLOAT16, 0, comm_of(0), STREAM);
		ncclSend(told, 10, FLOAT32, 1, comm_of(0), STREAM);
		answer = i == 1 ? 7 : 0; /* in progress is no failure */
		ncclAllGather(told, told, 7, FLOAT32, comm_of(1), STREAM);
	}
	answer = 2;
	pncclAllReduce(told, told, 1000, 99, 0, comm_of(1), STREAM);
	assert_int_equal(events_drain(told, 64), 10);
	for (unsigned i = 0; i < 10; i++) {
		const char *names[] = {"ncclAllReduce", "ncclSend", "ncclAllGather"};
		const uint64_t bytes[] = {2000, 40, 28};
		assert_int_equal(told[i].id, EVENT_COLLECTIVE);
		assert_string_equal(told[i].name, names[i % 3]);
		assert_int_equal(told[i].value, i == 9 ? 0 : bytes[i % 3]);
		assert_int_equal(told[i].type, i == 9 ? 99 : i % 3 ? FLOAT32 : FLOAT16);
		assert_int_equal(told[i].sequence, i / 3 + 1);
		assert_int_equal(told[i].failed, i == 9);
		assert_int_equal(told[i].thread, events_thread());
		assert_in_range(told[i].start, before, events_now());
	}
	assert_int_equal(told[0].detail, told[1].detail);
	assert_int_equal(told[2].detail, told[9].detail);
	assert_int_not_equal(told[0].detail, told[2].detail);
	assert_true(nccl_comm_ranks(told[0].detail, &rank, &ranks));
	assert_true(rank == 3 && ranks == 8);
	assert_false(nccl_comm_ranks(told[2].detail + 100, &rank, &ranks));
	assert_int_equal(asked, 2); /* once a communicator */
}

static void test_counted_before_anybody_records(void **state)
{
	(void)state;

	events_stop();
	for (int i = 0; i < 5; i++)
		ncclAllReduce(told, told, 1, FLOAT32, 0, comm_of(2), STREAM);
	ncclRecv(told, 1, FLOAT32, 0, comm_of(2), STREAM);
	assert_true(events_start());
	assert_int_equal(events_drain(told, 64), 0);
	assert_int_equal(asked, 0);
	ncclAllReduce(told, told, 1, FLOAT32, 0, comm_of(2), STREAM);
	ncclSend(told, 1, FLOAT32, 0, comm_of(2), STREAM);
	assert_int_equal(events_drain(told, 64), 2);
	assert_int_equal(told[0].sequence, 6);
	assert_int_equal(told[1].sequence, 2);
}

static void test_one_inside_another_is_one(void **state)
{
	(void)state;

	ncclBcast(told, 9, FLOAT32, 1, comm_of(3), STREAM);
	ncclBroadcast(told, told, 9, FLOAT32, 1, comm_of(3), STREAM);
	assert_int_equal(events_drain(told, 64), 2);
	assert_string_equal(told[0].name, "ncclBcast");
	assert_int_equal(told[0].sequence, 1);
	assert_string_equal(told[1].name, "ncclBroadcast");
	assert_int_equal(told[1].sequence, 2);
}

static void test_handle_of_another(void **state)
{
	(void)state;
	uint32_t rank, ranks;

	ncclAllGather(told, told, 1, FLOAT32, comm_of(4), STREAM);
	ncclCommDestroy(comm_of(4));
	ncclAllGather(told, told, 1, FLOAT32, comm_of(4), STREAM);
	assert_int_equal(events_drain(told, 64), 2);
	assert_int_equal(told[1].sequence, 1);
	assert_int_not_equal(told[0].detail, told[1].detail);
	assert_true(nccl_comm_ranks(told[1].detail, &rank, &ranks));
}

/* More than the table holds: passed on still, and those that were there keep their count. */
static void test_too_many(void **state)
{
	(void)state;
	unsigned numbered = 0;

	for (unsigned n = 0; n < 2000; n++) {
		ncclAllGather(told, told, 1, FLOAT32, comm_of(100 + n), STREAM);
		assert_int_equal(got[4], (long)comm_of(100 + n));
		assert_int_equal(events_drain(told, 64), 1);
		numbered += told[0].sequence == 1 && told[0].detail != 0;
		assert_true(told[0].detail != 0 || told[0].sequence == 0);
	}
	assert_in_range(numbered, 400, 512);
	ncclAllGather(told, told, 1, FLOAT32, comm_of(100), STREAM);
	assert_int_equal(events_drain(told, 64), 1);
	assert_int_equal(told[0].sequence, 2);
	for (unsigned n = 0; n < 2000; n++)
		ncclCommDestroy(comm_of(100 + n));
	ncclAllGather(told, told, 1, FLOAT32, comm_of(5), STREAM);
	assert_int_equal(events_drain(told, 64), 1);
	assert_int_equal(told[0].sequence, 1);
}

#define THREADS 4

static void *use_own(void *arg)
{
	unsigned t = (unsigned)(uintptr_t)arg;

	for (unsigned i = 0; i < 300; i++) {
		void *comm = comm_of(10000 + t * 1000 + i);
		struct nccl_comm *c = nccl_comm_get(comm);
		for (uint32_t n = 1; n <= 20; n++) {
			if (nccl_comm_get(comm) != c || nccl_comm_enter(c, NCCL_COLLECTIVE) != n)
				return arg;
			nccl_comm_leave(c);
		}
		nccl_comm_gone(comm);
	}
	return NULL;
}

static void test_threads_with_their_own(void **state)
{
	(void)state;
	pthread_t thread[THREADS];
	void *failed;

	for (uintptr_t t = 0; t < THREADS; t++)
		assert_int_equal(pthread_create(&thread[t], NULL, use_own, (void *)(t + 1)), 0);
	for (unsigned t = 0; t < THREADS; t++) {
		pthread_join(thread[t], &failed);
		assert_null(failed);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
	const struct CMUnitTest tests[] = {
		TEST(test_arguments),
		TEST(test_told),
		TEST(test_counted_before_anybody_records),
		TEST(test_one_inside_another_is_one),
		TEST(test_handle_of_another),
		TEST(test_too_many),
		TEST(test_threads_with_their_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

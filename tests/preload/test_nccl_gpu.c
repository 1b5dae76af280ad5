/* LINK: cuda nccl */
/*
 * test_nccl_gpu.c - what the flight file says about a program's collectives on the GPU: calls, groups, graphs, and
 * what the program does meanwhile that an event or a question of libturbo's could break.
 */
#include <cuda.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "policy/nccl/flight_page.h"
#include "tests/sim/nccl_abi.h"
#include "tests/sim/sim.h"

#define N 1024

static CUcontext ctx;
static CUstream stream;
static CUdeviceptr from, to;
static ncclComm_t comm;
static struct flight_page page;
static struct flight_comm place;

#define OK(call)                                              \
	do {                                                      \
		int r_ = (int)(call);                                 \
		if (r_)                                               \
			fail_msg("line %d: %s: %d", __LINE__, #call, r_); \
	} while (0)

/* The first communicator, as another process would see it; false: there is none. */
static bool look(void)
{
	char path[64];
	snprintf(path, sizeof(path), "/dev/shm/" FLIGHT_FILE_FORMAT, getuid(), getpid());
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool there = fd >= 0 && pread(fd, &page, sizeof(page), 0) == sizeof(page) && page.comm_high &&
				 pread(fd, &place, sizeof(place), (off_t)page.comm_off) == sizeof(place);
	if (fd >= 0)
		close(fd);
	return there;
}

/* All that was issued is in the file, and done. */
static bool all_done(uint64_t issued)
{
	for (unsigned i = 0; i < 150; i++, usleep(20000))
		if (look() && place.issued >= issued && place.done == place.issued)
			return true;
	return false;
}

static const struct flight_op *newest(unsigned back)
{
	return &place.op[(place.issued - back) % FLIGHT_OPS];
}

static int setup(void **state)
{
	ncclUniqueId id;
	(void)state;
	/* Nobody has called the driver before NCCL does. */
	OK(ncclGetUniqueId(&id));
	OK(ncclCommInitRank(&comm, 1, id, 0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc(&from, N * 4));
	OK(cuMemAlloc(&to, N * 4));
	return 0;
}

static void all_reduce(CUstream on)
{
	OK(ncclAllReduce((void *)from, (void *)to, N, ncclFloat32, ncclSum, comm, (void *)on));
}

static void calls_begin_and_end(void **state)
{
	(void)state;
	all_reduce(stream);
	all_reduce(NULL);
	all_reduce(CU_STREAM_PER_THREAD);
	OK(ncclGroupStart());
	all_reduce(stream);
	all_reduce(stream);
	OK(ncclGroupEnd());
	assert_true(all_done(6));
	for (unsigned i = 0; i < 5; i++) {
		const struct flight_op *op = newest(i);
		assert_int_equal(op->function, FLIGHT_ALL_REDUCE);
		assert_true(op->started && op->done >= op->started && op->started >= op->issued);
		assert_int_equal(op->flags & FLIGHT_BLIND, 0);
	}
	assert_true(place.best_rate > 0);
	assert_true(page.sampled > 0);
}

static CUgraphExec capture(unsigned calls, CUgraph *graph)
{
	CUgraphExec exec;
	OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	for (unsigned i = 0; i < calls; i++)
		all_reduce(stream);
	usleep(70000); /* the sampler looks meanwhile */
	OK(cuStreamEndCapture(stream, graph));
	OK(cuGraphInstantiate(&exec, *graph, 0));
	return exec;
}

static void a_graph_is_one_operation_a_launch(void **state)
{
	CUgraph graph, none;
	CUstream other;
	size_t nodes = 0, with = 0;
	(void)state;
	OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	all_reduce(other);
	CUgraphExec exec = capture(3, &graph), empty = capture(0, &none);
	assert_true(all_done(1));
	uint64_t issued = place.issued, sequence = place.sequence;
	OK(cuGraphLaunch(exec, stream));
	OK(cuGraphLaunch(empty, stream));
	OK(cuGraphLaunch(exec, other));
	OK(cuStreamSynchronize(stream));
	OK(cuStreamSynchronize(other));
	assert_true(all_done(issued + 2));
	assert_int_equal(place.issued, issued + 2);
	assert_int_equal(place.sequence, sequence + 6);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(newest(i)->function, FLIGHT_GRAPH);
		assert_int_equal(newest(i)->bytes, 3 * N * 4);
		assert_true(newest(i)->started && newest(i)->done);
	}
	/* Nothing of ours is in it. */
	OK(cuGraphGetNodes(graph, NULL, &with));
	OK(cuGraphGetNodes(none, NULL, &nodes));
	assert_int_equal(nodes, 0);
	assert_true(with >= 3);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphExecDestroy(empty));
	OK(cuGraphDestroy(graph));
	OK(cuGraphDestroy(none));
}

/* A thread that waits is in the file. */
static void *waiter(void *arg)
{
	(void)arg;
	OK(cuCtxSetCurrent(ctx));
	OK(cuStreamSynchronize(stream));
	return NULL;
}

static void a_wait_is_seen(void **state)
{
	pthread_t thread;
	uint32_t *flag;
	bool seen = false;
	(void)state;
	OK(cuMemAllocHost((void **)&flag, 4));
	*flag = 0;
	OK(cuStreamWaitValue32(stream, (CUdeviceptr)flag, 1, CU_STREAM_WAIT_VALUE_EQ));
	all_reduce(stream);
	assert_int_equal(pthread_create(&thread, NULL, waiter, NULL), 0);
	for (unsigned i = 0; i < 150 && !seen; i++, usleep(20000)) {
		look();
		for (unsigned k = 0; k < FLIGHT_WAITS; k++)
			seen |= page.wait[k].kind == FLIGHT_WAIT_GPU && page.wait[k].thread != (uint32_t)getpid();
	}
	assert_true(seen);
	assert_true(place.started < place.issued);
	__atomic_store_n(flag, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	assert_true(all_done(1));
	OK(cuMemFreeHost(flag));
}

/* A child has neither the file nor the thread, and calls no driver. */
static void a_child_is_left_alone(void **state)
{
	int status;
	(void)state;
	all_reduce(stream);
	pid_t child = fork();
	assert_true(child >= 0);
	if (!child) {
		usleep(120000);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(sim_calls_in_child(), 0);
	assert_true(all_done(1));
}

static void the_device_is_reset_with_all_that_is_open(void **state)
{
	(void)state;
	OK(ncclCommDestroy(comm));
	OK(cuDevicePrimaryCtxReset(0));
	usleep(120000);
	assert_int_equal(sim_errors(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_begin_and_end),
		cmocka_unit_test(a_graph_is_one_operation_a_launch),
		cmocka_unit_test(a_wait_is_seen),
		cmocka_unit_test(a_child_is_left_alone),
		cmocka_unit_test(the_device_is_reset_with_all_that_is_open),
	};
	return cmocka_run_group_tests_name("nccl_gpu", tests, setup, NULL);
}

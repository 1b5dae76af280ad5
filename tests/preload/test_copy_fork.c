/* ENV: TURBO_COPY_THREADS=2 TURBO_COPY_MIN_KB=64 TURBO_COPY_RING_MB=8 BARE */
/*
 * fork and exec around copies. A child of a process that uses the driver gets the driver's own
 * answer and libturbo makes no call for it; the parent goes on; a child that starts the driver
 * itself is staged like any process.
 */
#include "common/copy_fixture.h"
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES (3 * MIB)

static CUstream stream;
static CUdeviceptr d;
static unsigned char *host;

static int status_of(pid_t pid)
{
	int status = -1;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void copies_work(uint32_t seed)
{
	pattern_fill(host, BYTES, seed);
	OK(cu.cuMemcpyHtoD_v2(d, host, BYTES));
	memset(host, 0, BYTES);
	OK(cu.cuMemcpyDtoH_v2(host, d, BYTES));
	HOST_IS(host, BYTES, seed);
}

/* Each call of a large copy answers what the same call of a small one, which goes straight to
 * the driver, answers. Returns the number of calls made, or -1. */
static int calls_in_child(void)
{
	int calls = 0;
	CUgraph graph;
#define SAME(large, small)      \
	do {                        \
		calls += 2;             \
		if ((large) != (small)) \
			return -1;          \
	} while (0)
	SAME(cu.cuMemcpyHtoD_v2(d, host, BYTES), cu.cuMemcpyHtoD_v2(d, host, 4));
	SAME(cu.cuMemcpyDtoH_v2(host, d, BYTES), cu.cuMemcpyDtoH_v2(host, d, 4));
	SAME(cu.cuMemcpyHtoD_v2_ptds(d, host, BYTES), cu.cuMemcpyHtoD_v2_ptds(d, host, 4));
	SAME(cu.cuMemcpy(d, (CUdeviceptr)host, BYTES), cu.cuMemcpy(d, (CUdeviceptr)host, 4));
	SAME(cu.cuMemcpyAsync((CUdeviceptr)host, d, BYTES, stream),
		 cu.cuMemcpyAsync((CUdeviceptr)host, d, 4, stream));
	SAME(cu.cuMemcpyHtoDAsync_v2(d, host, BYTES, stream), cu.cuMemcpyHtoDAsync_v2(d, host, 4, stream));
	SAME(cu.cuMemcpyDtoHAsync_v2_ptsz(host, d, BYTES, NULL), cu.cuMemcpyDtoHAsync_v2_ptsz(host, d, 4, NULL));
	/* The calls that libturbo takes for other reasons. */
	cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
	cu.cuStreamEndCapture(stream, &graph);
	cu.cuStreamDestroy_v2(stream);
	cu.cuCtxDestroy_v2(fx.ctx);
	cu.cuDevicePrimaryCtxReset_v2(0);
	cu.cuDevicePrimaryCtxRelease_v2(0);
	cu.cuInit(0);
	return calls + 7;
}

static void a_child_gets_the_drivers_own_error(void **state)
{
	(void)state;
	copies_work(1);
	for (int i = 0; i < 4; i++) {
		uint64_t before = sim.calls_in_child ? sim.calls_in_child() : 0;
		pid_t pid = fork();
		if (pid == 0) {
			int calls = calls_in_child();
			/* By both ways out: one runs the destructors. */
			if (i % 2)
				exit(calls < 0 ? 1 : 40 + calls);
			_exit(calls < 0 ? 1 : 40 + calls);
		}
		int status = status_of(pid);
		assert_true(WIFEXITED(status));
		assert_int_not_equal(WEXITSTATUS(status), 1);
		/* The calls that it made, and not one more. */
		if (sim.calls_in_child)
			assert_int_equal(sim.calls_in_child() - before, WEXITSTATUS(status) - 40);
		copies_work(2 + (uint32_t)i);
	}
}

static void a_child_of_a_child(void **state)
{
	(void)state;
	uint64_t before = sim.calls_in_child ? sim.calls_in_child() : 0;
	pid_t pid = fork();
	if (pid == 0) {
		pid_t second = fork();
		int status = 0;
		if (second == 0)
			exit(cu.cuMemcpyHtoD_v2(d, host, BYTES) != CUDA_SUCCESS ? 0 : 1);
		waitpid(second, &status, 0);
		exit(status);
	}
	assert_int_equal(status_of(pid), 0);
	if (sim.calls_in_child)
		assert_int_equal(sim.calls_in_child() - before, 1);
	copies_work(9);
}

/* ---- children born while copies run ---- */

static _Atomic int stop;
static char thread_wrong[80];

static void *copy_main(void *arg)
{
	uint32_t seed = *(const uint32_t *)arg;
	unsigned char *h = pages_new(BYTES, 0);
	CUdeviceptr own;
	if (cu.cuCtxSetCurrent(fx.ctx) || cu.cuMemAlloc_v2(&own, BYTES))
		return NULL;
	for (uint32_t i = 0; !stop && !thread_wrong[0]; i++) {
		pattern_fill(h, BYTES, seed + i);
		CUresult in = cu.cuMemcpyHtoD_v2(own, h, BYTES);
		memset(h, 0, BYTES);
		CUresult out = cu.cuMemcpyDtoH_v2(h, own, BYTES);
		if (in || out || pattern_check(h, BYTES, seed + i) != -1)
			snprintf(thread_wrong, sizeof(thread_wrong), "round %u: in %d, out %d", i, in, out);
	}
	cu.cuMemFree_v2(own);
	pages_free(h, BYTES);
	return NULL;
}

/* Locks, memory and stdio work in the child, and it ends cleanly. */
static void child_main(int way)
{
	for (int i = 0; i < 50; i++) {
		void *p = malloc((size_t)1 << (i % 22));
		memset(p, 1, 1);
		free(p);
	}
	char text[64];
	snprintf(text, sizeof(text), "%d %p", way, (void *)text);
	if (way % 3 == 0)
		_exit(7);
	if (way % 3 == 1)
		exit(7);
	execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
	_exit(1);
}

static void children_born_while_copies_run(void **state)
{
	(void)state;
	pthread_t thread[3];
	uint32_t seeds[3] = {0, 1000, 2000};
	stop = 0;
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, copy_main, &seeds[i]), 0);
	int bad = 0;
	for (int i = 0; i < 30; i++) {
		pid_t pid = fork();
		if (pid == 0)
			child_main(i);
		int status = status_of(pid);
		bad += !(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	}
	stop = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	if (thread_wrong[0])
		fail_msg("%s", thread_wrong);
	assert_int_equal(bad, 0);
	copies_work(33);
}

static void other_ways_to_start_a_process(void **state)
{
	(void)state;
	char *const argv[] = {"sh", "-c", "exit 5", NULL};
	extern char **environ;
	for (int i = 0; i < 3; i++) {
		pid_t pid;
		copies_work(50 + (uint32_t)i);
		assert_int_equal(posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ), 0);
		assert_int_equal(WEXITSTATUS(status_of(pid)), 5);
		pid = vfork();
		if (pid == 0) {
			execv("/bin/sh", argv);
			_exit(1);
		}
		assert_int_equal(WEXITSTATUS(status_of(pid)), 5);
		int status = system("exit 5");
		assert_int_equal(WEXITSTATUS(status), 5);
		copies_work(60 + (uint32_t)i);
	}
}

/* ---- a child that starts the driver itself ---- */

static int own_driver(void)
{
	copy_open();
	CUstream s;
	if (cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) || cu.cuMemAlloc_v2(&d, BYTES))
		return 1;
	unsigned char *h = pages_new(BYTES, 1);
	uint64_t staged = copy_staged();
	if (cu.cuMemcpyHtoDAsync_v2(d, h, BYTES, s))
		return 2;
	memset(h, 0, BYTES);
	if (cu.cuMemcpyDtoHAsync_v2(h, d, BYTES, s) || pattern_check(h, BYTES, 1) != -1)
		return 3;
	if (fx.preloaded && copy_staged() - staged != 2)
		return 4;
	return 0;
}

/* Before this process has called cuInit. */
static int children_with_drivers(void)
{
	int bad = 0;
	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();
		if (pid == 0)
			exit(own_driver());
		int status;
		waitpid(pid, &status, 0);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
			return 77;
		if (status != 0)
			printf("a child with a driver of its own: status %#x\n", (unsigned)status);
		bad += status != 0;
	}
	return bad;
}

int main(void)
{
	copy_limit();
	int bad = children_with_drivers();
	if (bad)
		return bad == 77 ? 77 : 1;
	copy_open();
	if (cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) || cu.cuMemAlloc_v2(&d, BYTES))
		return 1;
	host = pages_new(BYTES, 0);
	if (fx.san)
		unsetenv("LD_PRELOAD"); /* /bin/sh has no sanitizer runtime */
	const struct CMUnitTest tests[] = {
		STAGED(a_child_gets_the_drivers_own_error),
		STAGED(a_child_of_a_child),
		STAGED(children_born_while_copies_run),
		STAGED(other_ways_to_start_a_process),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

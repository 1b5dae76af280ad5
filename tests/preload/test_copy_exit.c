/* ENV: TURBO_COPY_THREADS=2 TURBO_COPY_MIN_KB=64 TURBO_COPY_RING_MB=8 SIM_JITTER_US=50 */
/*
 * Ends in the middle: a process that exits while its threads copy, and a thread that is cancelled
 * while it copies.
 */
#include "common/copy_fixture.h"
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES (5 * MIB)

/* ---- a process ---- */

static void *copy_for_ever(void *arg)
{
	(void)arg;
	unsigned char *h = pages_new(BYTES, 1);
	CUdeviceptr d;
	if (cu.cuCtxSetCurrent(fx.ctx) || cu.cuMemAlloc_v2(&d, BYTES))
		return NULL;
	for (;;) {
		/* Once the driver is gone calls fail, which is no reason to spin. */
		if (cu.cuMemcpyHtoD_v2(d, h, BYTES) || cu.cuMemcpyDtoH_v2(h, d, BYTES))
			usleep(1000);
	}
	return NULL;
}

/* Leaves by exit(), by _exit(), or by the end of main's thread alone. */
static int exit_while_copying(unsigned way)
{
	copy_open();
	for (int i = 0; i < 3; i++) {
		pthread_t t;
		if (pthread_create(&t, NULL, copy_for_ever, NULL))
			return 1;
	}
	uint64_t give_up = now_ns() + 20000000000ull;
	while (copy_staged() < 3 && now_ns() < give_up)
		usleep(500);
	usleep(way * 700);
	if (fx.preloaded && copy_staged() < 3)
		return 2;
	if (way % 2)
		_exit(0);
	exit(0);
}

enum { EXITS = 12 };
static int exit_status[EXITS];

/* Children of a process that has no driver yet. */
static void run_exits(void)
{
	for (unsigned i = 0; i < EXITS; i++) {
		pid_t pid = fork();
		if (pid == 0)
			_exit(exit_while_copying(i));
		waitpid(pid, &exit_status[i], 0);
		if (WIFEXITED(exit_status[i]) && WEXITSTATUS(exit_status[i]) == 77)
			exit(77);
	}
}

static void exits_while_copies_run(void **state)
{
	(void)state;
	for (unsigned i = 0; i < EXITS; i++)
		if (exit_status[i] != 0)
			fail_msg("exit %u: status %#x", i, (unsigned)exit_status[i]);
}

/* ---- a thread ---- */

static CUdeviceptr device;
static CUresult in, out;
static int64_t bad;

/* The cancellation is pending when the copies begin; it acts after them. */
static void *cancelled_main(void *arg)
{
	unsigned char *h = arg;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	CUresult r = cu.cuCtxSetCurrent(fx.ctx);
	pthread_cancel(pthread_self());
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	in = r ? r : cu.cuMemcpyHtoD_v2(device, h, BYTES);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	memset(h, 0, BYTES);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	out = cu.cuMemcpyDtoH_v2(h, device, BYTES);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	bad = pattern_check(h, BYTES, 4);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	pthread_testcancel();
	return NULL;
}

static void a_thread_is_cancelled(void **state)
{
	(void)state;
	device = device_new(BYTES);
	for (unsigned i = 0; i < 10; i++) {
		pthread_t t;
		void *result = NULL;
		unsigned char *h = pages_new(BYTES, 4);
		uint64_t staged = copy_staged();
		in = out = CUDA_ERROR_UNKNOWN;
		bad = -2;
		assert_int_equal(pthread_create(&t, NULL, cancelled_main, h), 0);
		pthread_join(t, &result);
		assert_ptr_equal(result, PTHREAD_CANCELED);
		OK(in);
		OK(out);
		assert_int_equal(bad, -1);
		assert_int_equal(copy_staged() - staged, 2);
		pages_free(h, BYTES);
	}
	device_free(device);
}

int main(void)
{
	copy_limit();
	if (!counters_preloaded()) {
		print_message("needs libturbo.so\n");
		return 77;
	}
	run_exits();
	copy_open();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exits_while_copies_run),
		STAGED(a_thread_is_cancelled),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

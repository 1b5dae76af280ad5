/* LINK: timeline   ENV: TURBO_TIMELINE=launch TURBO_TIMELINE_MB=16 TURBO_TIMELINE_DIR=/tmp TURBO_COPY=off   SAN: thread
 *
 * test_timeline_fork.c - forks while threads launch and CUPTI gives buffers back: each child leaves by exit(), which
 * waits for nobody, takes nothing away from its parent's recording, and keeps nothing of it open.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/copy_fixture.h" /* first: it says how cuda.h names its functions */
#include "common/timeline_file.h"

#define THREADS 3
#define FORKS 50

static CUdeviceptr memory;
static _Atomic bool stop;
static _Atomic uint64_t launched;

static void *launcher(void *arg)
{
	uint64_t words = 256;
	uint32_t value = 1;
	void *args[] = {&memory, &words, &value};
	CUstream s;
	OK(cu.cuCtxSetCurrent(fx.ctx));
	OK(cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	while (!stop) {
		for (int i = 0; i < 100; i++)
			OK(cu.cuLaunchKernel(fx.fill32, 1, 1, 1, 32, 1, 1, 0, s, args, NULL));
		launched += 100;
		OK(cu.cuStreamSynchronize(s));
		usleep(1000);
	}
	return arg;
}

/* The recording's is one of them. */
static int high_descriptors(void)
{
	int n = 0;
	for (int fd = 512; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) != -1;
	return n;
}

static void children_exit(void **state)
{
	pthread_t thread[THREADS];
	int parents = high_descriptors();
	(void)state;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, launcher, NULL), 0);
	while (launched < 1000)
		sleep_ms(1);
	for (int i = 0; i < (fx.san ? FORKS / 5 : FORKS); i++) {
		int status = -1;
		pid_t pid = fork();
		if (pid == 0) {
			alarm(20);
			exit(high_descriptors() != parents - 1);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		sleep_ms(5);
	}
	stop = true;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	assert_int_equal(high_descriptors(), parents);
}

/* What is launched now is in the file within some seconds. */
static void the_parent_records_on(void **state)
{
	struct timeline_sum s = {0};
	uint64_t since;
	(void)state;
	assert_true(timeline_sum(&s, getpid()));
	since = s.now;
	stop = false;
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, launcher, NULL), 0);
	for (int i = 0; i < 100 && s.last < since; i++) {
		sleep_ms(50);
		assert_true(timeline_sum(&s, getpid()));
	}
	stop = true;
	pthread_join(thread, NULL);
	assert_true(s.last >= since);
	assert_int_equal(s.count[TIMELINE_COUNT_DROPPED], 0);
	timeline_remove(getpid());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(children_exit),
		cmocka_unit_test(the_parent_records_on),
	};
	copy_open();
	copy_limit();
	memory = device_new(4096);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

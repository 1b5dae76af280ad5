/* ENV: TURBO_DEVMEM_CACHE_MB=64 TURBO_COPY=off BARE */
/*
 * One thread captures again and again, in a mode in which other threads may do as they like; others
 * allocate, launch and free all the time. No capture is broken, and no free is refused.
 *
 * The program runs itself once for each mode.
 */
#include "common/devmem_fixture.h"
#include <cmocka.h>

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 2
#define CAPTURES 3000

static _Atomic int stop;
static _Atomic int wrong; /* a CUresult */
static _Atomic unsigned rounds;

static void *allocate_and_free(void *arg)
{
	CUstream s;
	(void)arg;
	if (cu.cuCtxSetCurrent(fx.ctx) || cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING))
		wrong = CUDA_ERROR_UNKNOWN;
	while (!stop && !wrong) {
		CUdeviceptr p[4] = {0};
		CUresult r = CUDA_SUCCESS;
		for (int i = 0; i < 4 && !r; i++)
			r = cu.cuMemAlloc_v2(&p[i], (size_t)(i + 1) * 64 * KIB);
		for (int i = 0; i < 4 && !r; i++)
			r = cu.cuMemsetD32Async(p[i], 1, 64, s);
		for (int i = 0; i < 4 && !r; i++)
			r = cu.cuMemFree_v2(p[i]);
		if (r)
			wrong = (int)r;
		rounds++;
	}
	return NULL;
}

static void captures_and_frees_go_on_side_by_side(void **state)
{
	(void)state;
	pthread_t thread[THREADS];
	CUstream s;
	CUdeviceptr q = device_new(4096);
	OK(cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, allocate_and_free, NULL), 0);
	for (int i = 0; i < CAPTURES && !wrong; i++) {
		CUgraph graph = NULL;
		OK(cu.cuStreamBeginCapture_v2(s, i % 2 ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
											   : CU_STREAM_CAPTURE_MODE_RELAXED));
		OK(cu.cuMemsetD32Async(q, 2, 64, s));
		OK(cu.cuStreamEndCapture(s, &graph));
		OK(cu.cuGraphDestroy(graph));
		if (i % 16 == 0)
			usleep(200);
	}
	stop = 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	if (wrong)
		fail_msg("a thread got %s", cuda_dl_error((CUresult)wrong));
	assert_true(rounds > 20);
	device_free(q);
	OK(cu.cuStreamDestroy_v2(s));
}

static int run(void)
{
	devmem_open();
	const struct CMUnitTest tests[] = {EITHER(captures_and_frees_go_on_side_by_side)};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	if (fx.preloaded && !hits()) {
		printf("nothing was handed out again\n");
		return 1;
	}
	return failed;
}

int main(int argc, char **argv)
{
	static const char *const modes[] = {"cache", "deferred"};
	int worst = 0;
	if (argc > 1)
		return run();
	for (unsigned i = 0; i < (counters_preloaded() ? 2 : 1); i++) {
		int status = 0;
		pid_t pid = fork();
		if (pid == 0) {
			setenv("TURBO_DEVMEM", modes[i], 1);
			execl("/proc/self/exe", argv[0], modes[i], (char *)NULL);
			_exit(126);
		}
		waitpid(pid, &status, 0);
		if (status)
			worst = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
	}
	return worst;
}

/*
 * timeline_work.c - work that can be counted, for the scripts that look at timelines.
 *
 *   timeline_work STEP...
 *     kernels=N   launches of fill32       copies=N   host-to-device copies of 4 KiB, waited for
 *     memsets=N   cuMemsetD8_v2            graph=N    launches of a graph of three kernels
 *     spin=MS     a kernel that takes so long
 *     sync        waits for the device     sleep=MS   rate=US    pause after each launch from here on
 *     say=WORD    prints it                wait       until a line comes in
 *     fork        a child does the rest too, and both go on
 *     exec        starts itself anew with the rest     leave      _exit(0), without flush
 *     become=NAME starts that program with the argument 60
 *     die         SIGKILL to itself
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/common/cuda_dl.h"
#include "tests/gpu/common/kernels.h"
#include "tests/gpu/common/util.h"

#define BYTES 4096

static CUdeviceptr memory;
static struct kernels kernels;
static CUstream stream;
static char host[BYTES];
static useconds_t pause_us;
static pid_t child;

static void check(CUresult r, const char *what)
{
	if (r == CUDA_SUCCESS)
		return;
	fprintf(stderr, "timeline_work: %s: %s\n", what, cuda_dl_error(r));
	exit(1);
}

#define CHECK(call) check(call, #call)

static void open_device(void)
{
	const char *why = cuda_dl_open();
	CUcontext ctx;
	CUdevice dev;
	if (why) {
		fprintf(stderr, "timeline_work: %s\n", why);
		exit(77);
	}
	CHECK(cu.cuDeviceGet(&dev, 0));
	CHECK(cu.cuDevicePrimaryCtxRetain(&ctx, dev));
	CHECK(cu.cuCtxSetCurrent(ctx));
	why = kernels_load(&kernels);
	if (why) {
		fprintf(stderr, "timeline_work: %s\n", why);
		exit(1);
	}
	CHECK(cu.cuMemAlloc_v2(&memory, BYTES));
	CHECK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

static void launch(void)
{
	uint64_t n = BYTES / 4;
	uint32_t value = 7;
	void *args[] = {&memory, &n, &value};
	CHECK(cu.cuLaunchKernel(kernels.fill32, 2, 1, 1, 64, 1, 1, 0, stream, args, NULL));
	if (pause_us)
		usleep(pause_us);
}

static void graph(long times)
{
	CUgraph g;
	CUgraphExec exec;
	CHECK(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	for (int i = 0; i < 3; i++)
		launch();
	CHECK(cu.cuStreamEndCapture(stream, &g));
	CHECK(cu.cuGraphInstantiateWithFlags(&exec, g, 0));
	for (long i = 0; i < times; i++)
		CHECK(cu.cuGraphLaunch(exec, stream));
	CHECK(cu.cuStreamSynchronize(stream));
	CHECK(cu.cuGraphExecDestroy(exec));
	CHECK(cu.cuGraphDestroy(g));
}

static bool is(const char *step, const char *name, long *value)
{
	size_t n = strlen(name);
	if (strncmp(step, name, n) != 0 || (step[n] && step[n] != '='))
		return false;
	*value = step[n] ? atol(step + n + 1) : 0;
	return true;
}

static void step(const char *s, char **argv, char **rest)
{
	long n;
	if (is(s, "kernels", &n)) {
		while (n-- > 0)
			launch();
	} else if (is(s, "copies", &n)) {
		while (n-- > 0)
			CHECK(cu.cuMemcpyHtoD_v2(memory, host, BYTES));
	} else if (is(s, "memsets", &n)) {
		while (n-- > 0)
			CHECK(cu.cuMemsetD8_v2(memory, 1, BYTES));
	} else if (is(s, "graph", &n)) {
		graph(n);
	} else if (is(s, "spin", &n)) {
		uint64_t us = (uint64_t)n * 1000;
		CHECK(cu.cuLaunchKernel(kernels.spin_us, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&us}, NULL));
	} else if (is(s, "sync", &n)) {
		CHECK(cu.cuCtxSynchronize());
	} else if (is(s, "sleep", &n)) {
		sleep_ms((unsigned)n);
	} else if (is(s, "rate", &n)) {
		pause_us = (useconds_t)n;
	} else if (is(s, "say", &n)) {
		printf("%s\n", strchr(s, '=') + 1);
		fflush(stdout);
	} else if (is(s, "wait", &n)) {
		while ((n = getchar()) != EOF && n != '\n')
			;
	} else if (is(s, "fork", &n)) {
		child = fork();
		if (child == 0)
			_exit(cu.cuMemAlloc_v2(&memory, BYTES) ==
				  CUDA_SUCCESS); /* the driver refuses: that is all it can do */
		waitpid(child, NULL, 0);
	} else if (is(s, "exec", &n)) {
		rest[-1] = argv[0];
		execv("/proc/self/exe", rest - 1);
		exit(1);
	} else if (is(s, "become", &n)) {
		execlp(strchr(s, '=') + 1, strchr(s, '=') + 1, "60", (char *)NULL);
		exit(1);
	} else if (is(s, "leave", &n)) {
		_exit(0);
	} else if (is(s, "die", &n)) {
		kill(getpid(), SIGKILL);
	} else {
		fprintf(stderr, "timeline_work: what is %s?\n", s);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	open_device();
	for (int i = 1; i < argc; i++)
		step(argv[i], argv, argv + i + 1);
	return 0;
}

/*
 * timeline_bench.c - what recording a timeline costs the thread that launches, and the device.
 *
 *   timeline_bench [discard LIBCUPTI]
 *
 * Takes turns as the scripts do (tests/gpu/turns.py): prints READY, then runs what each line of its standard input
 * names and answers with TURN and JSON, and ends with RESULT at the end of its input.
 *   launch      nanoseconds a launch of an empty kernel, one figure for each block of LAUNCHES
 *   graph       microseconds a launch of a graph of NODES kernels of 20 us
 *   bound       microseconds a kernel of 50 us, launched one by one: the device is never waited for
 *   many N      launches graphs of 1000 empty kernels until N kernels have run; the seconds it took
 * With `discard` the process is a CUPTI client itself that enables the kinds of TURBO_TIMELINE=kernel
 * and gives every buffer back unread: what recording costs at the least.
 * Exit: 0, 1 a driver error, 77 no GPU.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/common/cuda_dl.h"
#include "tests/gpu/common/kernels.h"
#include "tests/gpu/common/util.h"

#define BLOCKS 21
#define LAUNCHES 1000
#define NODES 200
#define EMPTY_NODES 1000

#define MUST(call)                                                           \
	do {                                                                     \
		CUresult must_ = (call);                                             \
		if (must_ != CUDA_SUCCESS) {                                         \
			fprintf(stderr, "%s answers %s\n", #call, cuda_dl_error(must_)); \
			exit(1);                                                         \
		}                                                                    \
	} while (0)

static const char empty_ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry empty() { ret; }\n";

static CUfunction empty;
static CUstream stream;
static CUgraphExec graph_of_20_us, graph_of_empty;

/* ---- the client that discards ---- */

#define BUFFERS 64
#define BUFFER_BYTES (1 << 20)
static const int client_kinds[] = {10 /* CONCURRENT_KERNEL */, 1 /* MEMCPY */, 22 /* MEMCPY2 */,
								   2 /* MEMSET */, 51 /* GRAPH_TRACE */};

static struct {
	uint8_t *at;
	_Atomic int taken;
} buffer[BUFFERS];

static void give(uint8_t **at, size_t *size, size_t *most)
{
	*at = NULL;
	*size = 0;
	*most = 0;
	for (int i = 0; i < BUFFERS; i++) {
		int no = 0;
		if (atomic_compare_exchange_strong(&buffer[i].taken, &no, 1)) {
			*at = buffer[i].at;
			*size = BUFFER_BYTES;
			return;
		}
	}
}

static void take_back(void *ctx, uint32_t stream_id, uint8_t *at, size_t size, size_t valid)
{
	(void)ctx, (void)stream_id, (void)size, (void)valid;
	for (int i = 0; i < BUFFERS; i++)
		if (buffer[i].at == at)
			atomic_store(&buffer[i].taken, 0);
}

static void discard(const char *path)
{
	void *cupti = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!cupti) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	int (*callbacks)(void *, void *) =
		(int (*)(void *, void *))dlsym(cupti, "cuptiActivityRegisterCallbacks");
	int (*enable)(int) = (int (*)(int))dlsym(cupti, "cuptiActivityEnable");
	for (int i = 0; i < BUFFERS; i++)
		buffer[i].at = calloc(1, BUFFER_BYTES);
	int r = callbacks && enable ? callbacks((void *)give, (void *)take_back) : -1;
	for (size_t i = 0; r == 0 && i < sizeof(client_kinds) / sizeof(client_kinds[0]); i++)
		r = enable(client_kinds[i]);
	if (r) {
		fprintf(stderr, "CUPTI answers %d\n", r);
		exit(1);
	}
}

/* ---- what is timed ---- */

static void launch_empty(void)
{
	MUST(cu.cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
}

static CUgraphExec graph_make(int nodes, bool spinning)
{
	CUgraph graph;
	CUgraphExec exec;
	MUST(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	for (int i = 0; i < nodes; i++) {
		if (spinning)
			MUST(launch_spin_us(stream, 20));
		else
			launch_empty();
	}
	MUST(cu.cuStreamEndCapture(stream, &graph));
	MUST(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	MUST(cu.cuGraphDestroy(graph));
	return exec;
}

static void turn_begin(void)
{
	MUST(cu.cuCtxSynchronize());
	printf("TURN [");
}

static void turn_launch(void)
{
	turn_begin();
	for (int b = -1; b < BLOCKS; b++) { /* the first is not counted */
		uint64_t since = now_ns();
		for (int i = 0; i < LAUNCHES; i++)
			launch_empty();
		double each = (double)(now_ns() - since) / LAUNCHES;
		MUST(cu.cuStreamSynchronize(stream));
		if (b >= 0)
			printf("%s%.1f", b ? ", " : "", each);
	}
	puts("]");
}

static void turn_graph(void)
{
	turn_begin();
	for (int b = -1; b < BLOCKS; b++) {
		uint64_t since = now_ns();
		for (int i = 0; i < 5; i++)
			MUST(cu.cuGraphLaunch(graph_of_20_us, stream));
		MUST(cu.cuStreamSynchronize(stream));
		if (b >= 0)
			printf("%s%.2f", b ? ", " : "", (double)(now_ns() - since) / 5e3);
	}
	puts("]");
}

static void turn_bound(void)
{
	turn_begin();
	for (int b = -1; b < BLOCKS; b++) {
		uint64_t since = now_ns();
		for (int i = 0; i < 300; i++)
			MUST(launch_spin_us(stream, 50));
		MUST(cu.cuStreamSynchronize(stream));
		if (b >= 0)
			printf("%s%.3f", b ? ", " : "", (double)(now_ns() - since) / 300e3);
	}
	puts("]");
}

static void turn_many(uint64_t kernels)
{
	turn_begin();
	uint64_t since = now_ns();
	for (uint64_t done = 0; done < kernels; done += EMPTY_NODES) {
		MUST(cu.cuGraphLaunch(graph_of_empty, stream));
		if (done / EMPTY_NODES % 64 == 63)
			MUST(cu.cuStreamSynchronize(stream));
	}
	MUST(cu.cuStreamSynchronize(stream));
	printf("%.3f]\n", (double)(now_ns() - since) / 1e9);
}

static void turns(void)
{
	char line[64];
	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("READY");
	while (fgets(line, sizeof(line), stdin)) {
		if (!strcmp(line, "launch\n"))
			turn_launch();
		else if (!strcmp(line, "graph\n"))
			turn_graph();
		else if (!strcmp(line, "bound\n"))
			turn_bound();
		else if (!strncmp(line, "many ", 5))
			turn_many(strtoull(line + 5, NULL, 10));
	}
	puts("RESULT {}");
}

int main(int argc, char **argv)
{
	static struct kernels kernels;
	CUdevice device;
	CUcontext ctx;
	CUmodule module;
	const char *why = cuda_dl_open();
	if (why) {
		printf("skipped: %s\n", why);
		return 77;
	}
	MUST(cu.cuDeviceGet(&device, 0));
	MUST(cu.cuDevicePrimaryCtxRetain(&ctx, device));
	MUST(cu.cuCtxSetCurrent(ctx));
	if (argc == 3 && !strcmp(argv[1], "discard"))
		discard(argv[2]);
	why = kernels_load(&kernels);
	if (why) {
		fprintf(stderr, "%s\n", why);
		return 1;
	}
	kernels_current = &kernels;
	MUST(cu.cuModuleLoadData(&module, empty_ptx));
	MUST(cu.cuModuleGetFunction(&empty, module, "empty"));
	MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	graph_of_20_us = graph_make(NODES, true);
	graph_of_empty = graph_make(EMPTY_NODES, false);
	turns();
	return 0;
}

#include "devmem_answers.h"

#include <stdio.h>

#define BYTES (3 * MIB)
#define LESS (BYTES - 4096) /* close enough to get the block of BYTES */

static CUdeviceptr live, freed;

static void without_a_context(void)
{
	OK(cu.cuCtxSetCurrent(NULL));
	print_all("without a context", live);
	print_all("without a context, freed", freed);
	OK(cu.cuCtxSetCurrent(fx.ctx));
}

/* The driver permits hardly anything there. */
static void in_a_function(void *arg)
{
	CUdeviceptr p = 0;
	CUipcMemHandle handle;

	(void)arg;
	print_all("in a host function", live);
	print_all("in a host function, freed", freed);
	printf("in a host function: ipc %d", ipc_handle(&handle, live));
	printf(", alloc %d", cu.cuMemAlloc_v2(&p, BYTES));
	printf(", free %d", cu.cuMemFree_v2(live));
	printf(", free of freed %d\n", cu.cuMemFree_v2(freed));
}

static void in_a_host_function(void)
{
	CUstream stream;
	OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cu.cuLaunchHostFunc(stream, in_a_function, NULL));
	OK(cu.cuStreamSynchronize(stream));
	OK(cu.cuStreamDestroy_v2(stream));
	print_all("after it", live);
	OK(launch_fill(NULL, live, LESS / 4, 9));
	printf("  bytes %d\n", (int)device_differs_word(live, LESS, 9));
}

static void during_a_capture(void)
{
	CUstream stream;
	CUgraph graph;
	CUresult r;

	OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	print_all("during a capture", live);
	print_all("during a capture, freed", freed);
	OK(launch_fill(stream, live, 4, 1));
	r = cu.cuStreamEndCapture(stream, &graph);
	printf("  captured %d\n", r);
	if (r == CUDA_SUCCESS)
		OK(cu.cuGraphDestroy(graph));
	OK(cu.cuStreamDestroy_v2(stream));
}

static void in_another_context(void)
{
	CUcontext other;
	CUdevice device;
	CUdeviceptr p;

	OK(cu.cuDeviceGet(&device, 0));
	OK(cu.cuCtxCreate_v2(&other, 0, device));
	print_all("in another context", live);
	print_all("in another context, freed", freed);
	p = again(device_new(BYTES), BYTES);
	print_all("its own", p);
	OK(cu.cuCtxSetCurrent(fx.ctx));
	print_all("its own, asked from outside", p);
	OK(cu.cuMemFree_v2(p));
	print_all("its own, freed from outside", p);
	OK(cu.cuCtxDestroy_v2(other));
	print_all("after its end", p);
	OK(cu.cuCtxSetCurrent(fx.ctx));
}

void print_where(void)
{
	live = again(device_new(BYTES), LESS);
	freed = again(device_new(2 * BYTES), 2 * BYTES);
	OK(cu.cuMemFree_v2(freed));
	without_a_context();
	in_a_host_function();
	during_a_capture();
	in_another_context();
	OK(cu.cuMemFree_v2(live));
}

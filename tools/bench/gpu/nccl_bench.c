/*
 * nccl_bench.c - what watching collectives costs the thread that issues them.
 *
 *   nccl_bench
 *
 * A communicator of one rank. Takes turns as the scripts do (tests/gpu/turns.py):
 *   call        nanoseconds an ncclAllReduce of 16 floats in place, one figure for each block of CALLS
 *   group       nanoseconds a group of GROUPED of them
 *   lone        nanoseconds of an ncclAllGather of 4 KiB and a wait for its stream
 *   lone_event  the same by an event behind it, for which another stream waits
 * The device is idle before each block and has room for all of its launches. Finds libnccl.so.2 as the loader does.
 * Exit: 0, 1 an error of the driver or of NCCL, 77 no GPU or no NCCL.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/common/cuda_dl.h"
#include "tests/gpu/common/nccl_dl.h"
#include "tests/gpu/common/util.h"

#define BLOCKS 15
#define CALLS 200
#define GROUPED 8
#define LONE 4096

static CUstream stream;
static ncclComm_t comm;
static CUdeviceptr data;
static CUstream other;
static CUevent event;

static void must(int result, const char *what)
{
	if (result == 0)
		return;
	fprintf(stderr, "nccl_bench: %s answers %d\n", what, result);
	exit(1);
}
#define MUST(call) must((int)(call), #call)

static void all_reduce(void)
{
	MUST(nccl.ncclAllReduce((void *)data, (void *)data, 16, ncclFloat32, ncclSum, comm, (void *)stream));
}

static void one_group(void)
{
	MUST(nccl.ncclGroupStart());
	for (int i = 0; i < GROUPED; i++)
		all_reduce();
	MUST(nccl.ncclGroupEnd());
}

static void lone(void)
{
	MUST(nccl.ncclAllGather((void *)data, (void *)(data + LONE), LONE, ncclUint8, comm, (void *)stream));
	MUST(cu.cuStreamSynchronize(stream));
}

static void lone_event(void)
{
	MUST(nccl.ncclAllGather((void *)data, (void *)(data + LONE), LONE, ncclUint8, comm, (void *)stream));
	MUST(cu.cuEventRecord(event, stream));
	MUST(cu.cuStreamWaitEvent(other, event, 0));
	MUST(cu.cuStreamSynchronize(other));
}

static void turn(void (*once)(void), int calls)
{
	printf("TURN [");
	for (int block = -1; block < BLOCKS; block++) { /* the first warms up */
		MUST(cu.cuStreamSynchronize(stream));
		uint64_t since = now_ns();
		for (int i = 0; i < calls; i++)
			once();
		if (block >= 0)
			printf("%s%.1f", block ? ", " : "", (double)(now_ns() - since) / calls);
		MUST(cu.cuStreamSynchronize(stream));
	}
	puts("]");
}

static void turns(void)
{
	char line[64];
	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("READY");
	while (fgets(line, sizeof(line), stdin)) {
		if (!strcmp(line, "call\n"))
			turn(all_reduce, CALLS);
		else if (!strcmp(line, "group\n"))
			turn(one_group, CALLS / GROUPED);
		else if (!strcmp(line, "lone\n"))
			turn(lone, CALLS);
		else if (!strcmp(line, "lone_event\n"))
			turn(lone_event, CALLS);
	}
	puts("RESULT {}");
}

int main(void)
{
	CUdevice device;
	CUcontext ctx;
	ncclUniqueId id;
	const char *why = cuda_dl_open();
	if (!why)
		why = nccl_dl_open();
	if (why) {
		printf("skipped: %s\n", why);
		return 77;
	}
	MUST(cu.cuDeviceGet(&device, 0));
	MUST(cu.cuDevicePrimaryCtxRetain(&ctx, device));
	MUST(cu.cuCtxSetCurrent(ctx));
	MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	MUST(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	MUST(cu.cuMemAlloc_v2(&data, 2 * LONE));
	MUST(nccl.ncclGetUniqueId(&id));
	MUST(nccl.ncclCommInitRank(&comm, 1, id, 0));
	all_reduce();
	lone();
	turns();
	MUST(nccl.ncclCommDestroy(comm));
	return 0;
}

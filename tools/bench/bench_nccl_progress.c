/* LINK: turbo */
/*
 * bench_nccl_progress.c - what following a collective on the GPU costs the thread that issues it: two event records
 * and what libturbo does besides; and a wait that is shown. On the simulated driver, whose records are also measured
 * alone, and with a driver that does nothing.
 */
#include <dlfcn.h>
#include <stdlib.h>

#include <cuda.h>

#include "bench.h"
#include "policy/nccl/flight.h"
#include "policy/nccl/flight_thread.h"
#include "policy/nccl/progress.h"
#include "policy/policy.h"
#include "shim/guard.h"
#include "shim/life.h"
#include "shim/real.h"

#define BATCHES 15
#define CALLS 1000 /* fewer than the table holds, so that none goes unfollowed */
#define WAITS 100000

static struct flight_comm *comm;
static CUcontext ctx;
static CUstream stream;
static CUevent events[2 * CALLS];

static void records(int n)
{
	for (int i = 0; i < 2 * n; i++)
		REAL(cuEventRecord)(events[i], stream);
}

static void calls(int n)
{
	for (int i = 0; i < n; i++) {
		uint64_t index = comm->issued + 1;
		uint32_t launch = progress_before(comm, stream);
		if (!launch)
			exit(1);
		comm->op[index % FLIGHT_OPS].index = index;
		atomic_store(&comm->issued, index);
		progress_after(launch, index);
	}
}

static void waits(int n)
{
	for (int i = 0; i < n; i++)
		progress_wait_end(progress_wait_begin(FLIGHT_WAIT_GPU));
}

static CUresult record_nothing(CUevent event, CUstream on)
{
	(void)event, (void)on;
	return CUDA_SUCCESS;
}

static CUresult same_context(CUstream on, CUcontext *of)
{
	(void)on;
	*of = ctx;
	return CUDA_SUCCESS;
}

static CUresult always_passed(CUevent event)
{
	(void)event;
	return CUDA_SUCCESS;
}

/* The median of BATCHES; `limit` 0: the simulator's speed, which is no promise. Between them the sampler takes in what was issued. */
static double measure(const char *title, void (*body)(int), int n, double limit)
{
	double ns[BATCHES];
	for (int b = -1; b < BATCHES; b++) {
		double since = bench_now_ns();
		body(n);
		if (b >= 0)
			ns[b] = (bench_now_ns() - since) / n;
		do
			usleep(55000);
		while (comm->done < comm->issued);
	}
	double median = bench_median(ns, BATCHES);
	if (limit > 0)
		printf("%-64s %8.1f %8.0f  %s\n", title, median, limit, median <= limit ? "PASS" : "MISS");
	else
		printf("%-64s %8.1f\n", title, median);
	return median;
}

static void begin(void)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/libcuda.so.1", bench_env("SIM_DIR"));
	life_start(true, true);
	if (!dlopen(path, RTLD_NOW) || cuInit(0) != CUDA_SUCCESS || !life_cuda() ||
		REAL(cuDevicePrimaryCtxRetain)(&ctx, 0) != CUDA_SUCCESS ||
		REAL(cuCtxSetCurrent)(ctx) != CUDA_SUCCESS ||
		REAL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
		exit(1);
	for (int i = 0; i < 2 * CALLS; i++)
		REAL(cuEventCreate)(&events[i], CU_EVENT_DISABLE_TIMING);
	comm = aligned_alloc(64, sizeof(*comm));
	memset(comm, 0, sizeof(*comm));
	atomic_store(&flight_on, true);
	if (!flight_open(NULL))
		exit(1);
	guard_enter();
}

int main(void)
{
	begin();
	printf("following collectives on the GPU, ns, median of %d\n%-64s %8s %8s\n", BATCHES, "", "", "limit");
	measure("two event records, on the simulated driver", records, CALLS, 0);
	measure("progress_before() and after(), on the simulated driver", calls, CALLS, 0);
	__atomic_store_n(&real_fn[HOOK_cuEventRecord], (void *)record_nothing, __ATOMIC_RELEASE);
	__atomic_store_n(&real_fn[HOOK_cuStreamGetCtx], (void *)same_context, __ATOMIC_RELEASE);
	__atomic_store_n(&real_fn[HOOK_cuEventQuery], (void *)always_passed, __ATOMIC_RELEASE);
	double own = measure("the same, of a driver that does nothing", calls, CALLS, 150);
	double wait = measure("a wait that is shown, begun and ended", waits, WAITS, 20);
	puts("");
	policies_stop();
	return own > 150 || wait > 20;
}

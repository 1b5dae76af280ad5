/* devmem.c - device memory: the modes, the policy's life, and which part serves which call. */
#define _GNU_SOURCE
#include "devmem.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#include "answers_peers.h"
#include "block.h"
#include "bound.h"
#include "cache.h"
#include "cache_fault.h"
#include "debugger.h"
#include "info.h"
#include "keeper.h"
#include "life.h"
#include "log.h"
#include "oom.h"
#include "options.h"
#include "real.h"
#include "sites.h"
#include "stats.h"
#include "stream.h"
#include "torch_env.h"

int devmem_mode = DEVMEM_OFF;

static void set_mode(int mode)
{
	__atomic_store_n(&devmem_mode, mode, __ATOMIC_RELAXED);
}

static int mode_now(void)
{
	return __atomic_load_n(&devmem_mode, __ATOMIC_RELAXED);
}

/* ---- around the program's calls ---- */

struct entry {
	int saved, cancel;
};

/* We wait, which is where a thread may be cancelled: it would leave what it holds behind. */
static struct entry enter(void)
{
	struct entry e = {.saved = errno};
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &e.cancel);
	return e;
}

static void leave(struct entry e)
{
	pthread_setcancelstate(e.cancel, NULL);
	errno = e.saved;
}

/* A debugger has attached: it is to see every allocation and every free from now on. What another
 * thread keeps at this moment, the keeper gives back. */
static bool left_to_driver(void)
{
	if (__builtin_expect(!debugger_came(), 1))
		return false;
	log_once(LOG_INFO, "devmem: a CUDA debugger has attached; allocations are left to the driver");
	set_mode(DEVMEM_OFF);
	cache_release_all();
	return true;
}

bool devmem_alloc(CUdeviceptr *ptr, size_t bytes, CUresult *status)
{
	if (mode_now() == DEVMEM_OFF)
		return false;
	struct entry e = enter();
	bool taken = !left_to_driver() && cache_alloc(ptr, bytes, status);
	if (taken && *status == CUDA_SUCCESS)
		sites_alloc(*ptr, bytes);
	leave(e);
	return taken;
}

bool devmem_free(CUdeviceptr ptr, CUresult *status)
{
	/* Blocks of the heap are ours also after the policy has switched itself off. */
	bool off = mode_now() == DEVMEM_OFF;
	struct entry e = enter();
	if (!off)
		sites_free(ptr);
	bool taken = (!off && !left_to_driver() && cache_free(ptr, status)) || stream_free_sync(ptr, status);
	leave(e);
	return taken;
}

void devmem_info(size_t *free_bytes, size_t total_bytes)
{
	if (mode_now() == DEVMEM_OFF || !free_bytes)
		return;
	struct entry e = enter();
	info_add(free_bytes, total_bytes);
	leave(e);
}

uint64_t devmem_synchronizing(CUcontext ctx)
{
	int saved = errno;
	uint64_t token = mode_now() == DEVMEM_STREAM ? stream_synchronizing(ctx) : DEVMEM_SYNC_NONE;
	errno = saved;
	return token;
}

void devmem_synchronized(CUcontext ctx, uint64_t token)
{
	if (mode_now() == DEVMEM_OFF)
		return;
	struct entry e = enter();
	cache_synchronized(ctx);
	if (mode_now() == DEVMEM_STREAM)
		stream_synchronized(ctx, token);
	leave(e);
}

void devmem_failed(CUresult status)
{
	int saved = errno;
	if (mode_now() != DEVMEM_OFF)
		fault_told(status);
	errno = saved;
}

void devmem_resetting(int device)
{
	if (mode_now() == DEVMEM_OFF || device < 0 || device >= SPACE_DEVICES)
		return;
	struct entry e = enter();
	keeper_release_all(device);
	leave(e);
}

void devmem_no_memory(size_t bytes)
{
	CUdevice device;
	struct entry e = enter();
	if (REAL(cuCtxGetDevice)(&device) == CUDA_SUCCESS)
		oom_report(device, bytes);
	leave(e);
}

/* ---- life ---- */

static bool driver_complete(void)
{
	return REAL_HAS(cuMemAlloc_v2) && REAL_HAS(cuMemFree_v2) && REAL_HAS(cuCtxGetCurrent) &&
		   REAL_HAS(cuCtxGetDevice) && REAL_HAS(cuCtxPushCurrent_v2) && REAL_HAS(cuCtxPopCurrent_v2) &&
		   REAL_HAS(cuCtxSynchronize) && REAL_HAS(cuThreadExchangeStreamCaptureMode) &&
		   REAL_HAS(cuDeviceTotalMem_v2) && REAL_HAS(cuDevicePrimaryCtxGetState) &&
		   REAL_HAS(cuDevicePrimaryCtxRetain) && REAL_HAS(cuDevicePrimaryCtxRelease_v2) &&
		   REAL_HAS(cuEventCreate) && REAL_HAS(cuEventQuery) && REAL_HAS(cuEventDestroy_v2);
}

static void start(void)
{
	/* A preset never changes what PyTorch allocates with. */
	if (option_is_set(OPT_DEVMEM) && option_get(OPT_DEVMEM) == DEVMEM_STREAM)
		torch_env_start();
}

static void cuda_ready(void)
{
	int mode = (int)option_get(OPT_DEVMEM);
	if (mode == DEVMEM_OFF)
		return;
	const char *debugger = debugger_attached();
	if (debugger) {
		log_once(LOG_INFO, "devmem: allocations are left to the driver: %s", debugger);
		return;
	}
	if (!driver_complete()) {
		log_info("devmem: this driver lacks functions that the cache needs; allocations pass through");
		return;
	}
	if (mode == DEVMEM_DEFERRED && !REAL_HAS(cuCtxRecordEvent)) {
		log_warn("devmem: this driver has no cuCtxRecordEvent; TURBO_DEVMEM=deferred acts as cache");
		mode = DEVMEM_CACHE;
	}
	if (mode == DEVMEM_STREAM && !stream_start())
		mode = DEVMEM_CACHE;
	torch_env_done();
	bound_start();
	keeper_start();
	set_mode(mode);
}

static void context_gone(void *ctx, int device)
{
	/* The program's mistake, and an error: its memory is there still, and so is what is kept of it. */
	if (ctx && space_is_primary(ctx))
		return;
	space_context_gone(ctx, device);
	stream_context_gone(ctx, device);
	if (ctx)
		peers_forget(ctx);
}

static void fork_child(void)
{
	set_mode(DEVMEM_OFF);
	/* No lock was ever taken: each page that is written here costs every fork some 3 us. */
	if (!life_is_forked_child())
		return;
	block_fork_child();
	space_fork_child();
	keeper_fork_child();
	bound_fork_child();
	peers_fork_child();
	sites_fork_child();
	stream_fork_child();
}

/* The driver may be gone: what is kept goes with the process. */
static void stop(void)
{
	set_mode(DEVMEM_OFF);
	stream_stop();
	keeper_quiet(true);
	bound_stop();
}

static int summary(char *buf, int size)
{
	uint64_t hits = stats_get(STATS_DEVMEM_CACHE_HITS), misses = stats_get(STATS_DEVMEM_CACHE_MISSES);
	uint64_t served = stats_get(STATS_DEVMEM_STREAM_SERVED);
	int n = 0;
	if (hits)
		n = snprintf(buf, (size_t)size, "cuMemAlloc       %llu of %llu allocation%s without a driver call\n",
					 (unsigned long long)hits, (unsigned long long)(hits + misses), PLURAL(hits + misses));
	if (served && n < size)
		n += snprintf(buf + n, (size_t)(size - n),
					  "cuMemAllocAsync  %llu allocation%s from a heap of our own\n",
					  (unsigned long long)served, PLURAL(served));
	return n < size ? n : size;
}

const struct policy devmem_policy = {
	.name = "devmem",
	.start = start,
	.cuda_ready = cuda_ready,
	.context_gone = context_gone,
	.quiet = keeper_quiet,
	.fork_child = fork_child,
	.stop = stop,
	.summary = summary,
};

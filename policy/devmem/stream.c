/* stream.c - cuMemAllocAsync, cuMemAllocFromPoolAsync and cuMemFreeAsync on default pools. */
#define _GNU_SOURCE
#include "stream.h"

#include <errno.h>
#include <pthread.h>

#include "cache.h"
#include "calls.h"
#include "capture.h"
#include "clock.h"
#include "debugger.h"
#include "devmem.h"
#include "log.h"
#include "oom.h"
#include "sites.h"
#include "stats.h"
#include "stream_table.h"
#include "vmm_calls.h"

#define PARKED 256
#define CAPTURE_NS 100000000ull /* an allocation that would fail waits that long for a capture's end */

int stream_state;

/* Blocks that cuMemFree got during a capture, when nothing can be waited for. */
static struct {
	pthread_mutex_t lock; /* guards the rest */
	_Atomic unsigned n;   /* read relaxed without the lock: 0 on every path that matters */
	CUdeviceptr ptr[PARKED];
} parked = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool stream_start(void)
{
	if (!vmm_driver_complete() || !REAL_HAS(cuMemAllocAsync) || !REAL_HAS(cuMemFreeAsync) ||
		!REAL_HAS(cuStreamGetId) || !REAL_HAS(cuStreamGetCtx) || !REAL_HAS(cuStreamIsCapturing) ||
		!REAL_HAS(cuStreamIsCapturing_ptsz) || !REAL_HAS(cuCtxGetCurrent) || !REAL_HAS(cuStreamSynchronize) ||
		!REAL_HAS(cuStreamSynchronize_ptsz) || !REAL_HAS(cuDeviceGetDefaultMemPool) ||
		!REAL_HAS(cuDeviceGetMemPool) || !REAL_HAS(cuDeviceGetCount) || !REAL_HAS(cuDeviceTotalMem_v2) ||
		!REAL_HAS(cuMemPoolGetAttribute) || !REAL_HAS(cuMemPoolTrimTo)) {
		log_warn("devmem: this driver lacks functions that TURBO_DEVMEM=stream needs; acting as cache");
		return false;
	}
	__atomic_store_n(&stream_state, STREAM_SERVING, __ATOMIC_RELEASE);
	return true;
}

void stream_stop(void)
{
	if (stream_state == STREAM_SERVING)
		__atomic_store_n(&stream_state, STREAM_STOPPED, __ATOMIC_RELEASE);
}

void stream_fork_child(void)
{
	stream_state = STREAM_NONE;
}

static bool serving(void)
{
	return __atomic_load_n(&stream_state, __ATOMIC_RELAXED) == STREAM_SERVING;
}

/* ---- allocation ---- */

/* The entry of this stream for the pool that the call names; NULL: the real call. */
static struct stream_entry *entry_for(CUmemoryPool pool, CUstream stream, bool per_thread)
{
	uint64_t key = stream_key(stream, per_thread);
	struct stream_entry *e = key ? stream_table_find(key, NULL) : NULL;
	if (!e && key)
		e = stream_table_open(key, stream, per_thread, NULL);
	if (!e)
		return NULL;
	if (!pool)
		return atomic_load_explicit(&e->dev->current, memory_order_relaxed) ? e : NULL;
	if (pool == e->dev->pool)
		return e;
	struct stream_device *dev = stream_device_of_pool(pool);
	if (!dev)
		return NULL;
	struct stream_entry *other = stream_table_find(key, dev);
	return other ? other : stream_table_open(key, stream, per_thread, dev);
}

/* Memory is out for the heap: what others keep goes back to the driver. True: some did. */
static bool give_up_rest(struct stream_device *dev, size_t bytes)
{
	cuuint64_t before = 0, after = 0;
	size_t released = cache_release(NULL, dev->ordinal, bytes, RELEASE_PRESSURE);
	if (capture_live())
		return released > 0;
	/* What was freed in the driver's own pool: memory that graphs left, or other pools' users. */
	RELAXED(REAL(cuMemPoolGetAttribute)(dev->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &before));
	RELAXED(REAL(cuMemPoolTrimTo)(dev->pool, 0));
	RELAXED(REAL(cuMemPoolGetAttribute)(dev->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &after));
	return released > 0 || after < before;
}

static void free_parked(void);

/* While a capture is live, what other streams freed cannot be had. Those of other threads are short, and nobody
 * waits for this thread to end its own. */
static bool capture_ended(void)
{
	uint64_t since = clock_ns();
	if (!capture_live())
		return false;
	while (capture_live() && clock_ns() - since < CAPTURE_NS)
		pause_poll(since);
	return !capture_live();
}

static int alloc(struct stream_entry *e, size_t bytes, uint64_t *va)
{
	int r = heap_alloc(e->blocks, bytes, va);
	if (r != HEAP_NO_MEMORY || bytes > e->dev->total)
		return r;
	free_parked();
	if (give_up_rest(e->dev, bytes))
		r = heap_alloc(e->blocks, bytes, va);
	if (r == HEAP_NO_MEMORY && capture_ended())
		r = heap_alloc(e->blocks, bytes, va);
	if (r == HEAP_NO_MEMORY)
		oom_report(e->dev->ordinal, bytes);
	return r;
}

bool devmem_alloc_async(CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool, CUstream stream, bool per_thread,
						CUresult *status)
{
	int saved = errno, cancel;
	uint64_t va;
	/* The heap may wait, which is where a thread may be cancelled, and it holds locks. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	struct stream_entry *e = NULL;
	/* On a capturing stream the allocation is a node of the graph. */
	if (ptr && bytes && serving() && !debugger_came() && !(capture_live() && capture_on(stream, per_thread)))
		e = entry_for(pool, stream, per_thread);
	bool taken = e && alloc(e, bytes, &va) == HEAP_OK;
	stats_add(taken ? STATS_DEVMEM_STREAM_SERVED : STATS_DEVMEM_STREAM_PASS, 1);
	if (taken) {
		sites_alloc(va, bytes);
		*ptr = va;
		*status = CUDA_SUCCESS;
		sites_alloc(va, bytes);
	}
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
	return taken;
}

/* ---- frees ---- */

/* The block is ours and no entry can be had for the stream: its order is waited for instead. */
static bool free_waited(struct stream_device *dev, CUdeviceptr ptr, CUstream stream, bool per_thread)
{
	CUresult r = per_thread ? RELAXED(REAL(cuStreamSynchronize_ptsz)(stream))
							: RELAXED(REAL(cuStreamSynchronize)(stream));
	return r == CUDA_SUCCESS &&
		   heap_free(stream_device_heap(dev), atomic_load_explicit(&dev->waited_blocks, memory_order_acquire),
					 ptr) == HEAP_OK;
}

/* No entry of the stream's own device knows the block. */
static bool free_elsewhere(CUdeviceptr ptr, uint64_t key, CUstream stream, bool per_thread)
{
	uint64_t base;
	size_t bytes;
	struct stream_device *dev = stream_device_owner(ptr, &base, &bytes);
	if (!dev || base != ptr || !key)
		return false;
	struct stream_entry *e = stream_table_find(key, dev);
	if (!e)
		e = stream_table_open(key, stream, per_thread, dev);
	if (!e)
		return free_waited(dev, ptr, stream, per_thread);
	return heap_free(stream_device_heap(dev), e->blocks, ptr) == HEAP_OK;
}

static bool free_async(CUdeviceptr ptr, CUstream stream, bool per_thread)
{
	/* The driver allows no node that frees memory from outside; its error is the program's. */
	if (capture_live() && capture_on(stream, per_thread))
		return false;
	sites_free(ptr);
	uint64_t key = stream_key(stream, per_thread);
	struct stream_entry *e = key ? stream_table_find(key, NULL) : NULL;
	if (e && heap_free(stream_device_heap(e->dev), e->blocks, ptr) == HEAP_OK)
		return true;
	return free_elsewhere(ptr, key, stream, per_thread);
}

/* The process exits: what the program frees now is ours to forget. */
static bool forget(CUdeviceptr ptr)
{
	uint64_t base;
	size_t bytes;
	return __atomic_load_n(&stream_state, __ATOMIC_RELAXED) == STREAM_STOPPED &&
		   stream_device_owner(ptr, &base, &bytes) && base == ptr;
}

bool devmem_free_async(CUdeviceptr ptr, CUstream stream, bool per_thread, CUresult *status)
{
	int saved = errno;
	sites_free(ptr);
	bool taken = ptr && (serving() ? free_async(ptr, stream, per_thread) : forget(ptr));
	if (taken)
		*status = CUDA_SUCCESS;
	errno = saved;
	return taken;
}

/* ---- cuMemFree of a block of ours ---- */

static bool park(CUdeviceptr ptr)
{
	pthread_mutex_lock(&parked.lock);
	unsigned n = atomic_load_explicit(&parked.n, memory_order_relaxed);
	for (unsigned i = 0; i < n; i++)
		if (parked.ptr[i] == ptr)
			n = PARKED; /* freed twice */
	if (n < PARKED) {
		parked.ptr[n] = ptr;
		atomic_store_explicit(&parked.n, n + 1, memory_order_relaxed);
	}
	pthread_mutex_unlock(&parked.lock);
	return n < PARKED;
}

/* Where nothing can be waited for now, somebody later waits. What fails leaves the block to the program, as the
 * driver does: in a host function, and with an error that sticks. */
static CUresult free_after_wait(struct stream_device *dev, CUdeviceptr ptr)
{
	CUcontext now = NULL;
	struct vmm_context *ctx;
	bool waited;
	if (REAL(cuCtxGetCurrent)(&now) == CUDA_SUCCESS && (ctx = vmm_context_get(now)))
		vmm_context_put(ctx); /* it is among those that are waited for */
	CUresult r = vmm_synchronize(dev->vmm.accesses > 1 ? -1 : dev->ordinal, &waited);
	if (r == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED || r == CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
		waited = false; /* one that began at this moment */
	else if (r != CUDA_SUCCESS)
		return r;
	if (!waited)
		return park(ptr) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	heap_free(stream_device_heap(dev), atomic_load_explicit(&dev->waited_blocks, memory_order_acquire), ptr);
	return CUDA_SUCCESS;
}

static void free_parked(void)
{
	CUdeviceptr list[PARKED];
	uint64_t base;
	size_t bytes;
	if (!atomic_load_explicit(&parked.n, memory_order_relaxed) || capture_live())
		return;
	pthread_mutex_lock(&parked.lock);
	unsigned n = atomic_load_explicit(&parked.n, memory_order_relaxed);
	for (unsigned i = 0; i < n; i++)
		list[i] = parked.ptr[i];
	atomic_store_explicit(&parked.n, 0, memory_order_relaxed);
	pthread_mutex_unlock(&parked.lock);
	for (unsigned i = 0; i < n; i++) {
		struct stream_device *dev = stream_device_owner(list[i], &base, &bytes);
		if (dev)
			free_after_wait(dev, list[i]);
	}
}

bool stream_free_sync(CUdeviceptr ptr, CUresult *status)
{
	int saved = errno;
	uint64_t base;
	size_t bytes;
	if (!serving()) {
		*status = CUDA_SUCCESS;
		return forget(ptr);
	}
	struct stream_device *dev = stream_device_owner(ptr, &base, &bytes);
	bool taken = dev && base == ptr;
	if (taken && capture_live()) {
		taken = park(ptr);
		*status = CUDA_SUCCESS;
	} else if (taken) {
		free_parked();
		*status = free_after_wait(dev, ptr);
	}
	errno = saved;
	return taken;
}

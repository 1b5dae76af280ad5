/*
 * pool.c - attributes, trim, access and release of default pools.
 *
 * The release threshold. The driver's default is 0: every synchronisation gives all unused memory
 * back, and the next iteration pays for it again. Until the program sets one, ours keeps what
 * the program has used at its peak within the last two seconds or so, and a fiftieth of the
 * device; once set, it is obeyed as it is. The attribute still reads as the driver's does.
 */
#define _GNU_SOURCE
#include "pool.h"

#include "clock.h"
#include "calls.h"
#include "stats.h"
#include "torch_env.h"
#include "vmm_calls.h"

#define WINDOW_NS 1000000000ull
#define SLACK_OF(total) ((total) / 50)

/* Lock held. The heap's peak moves into the windows' and the program's. */
static void take_peak(struct stream_device *dev, struct heap_usage *usage)
{
	heap_usage(stream_device_heap(dev), usage);
	if (usage->live_high > dev->used_high)
		dev->used_high = usage->live_high;
	if (usage->live_high > dev->peak[0])
		dev->peak[0] = usage->live_high;
}

static void obey_reuse(struct stream_device *dev)
{
	pthread_mutex_lock(&dev->lock);
	unsigned reuse = (dev->reuse_done ? HEAP_REUSE_DONE : 0u) | (dev->reuse_wait ? HEAP_REUSE_WAIT : 0u);
	pthread_mutex_unlock(&dev->lock);
	heap_reuse_set(stream_device_heap(dev), reuse);
}

static void ask_peers(struct stream_device *dev)
{
	int n = 0;
	if (!REAL_HAS(cuMemPoolGetAccess) || REAL(cuDeviceGetCount)(&n) != CUDA_SUCCESS)
		return;
	for (int peer = 0; peer < n; peer++) {
		CUmemAccessDesc desc = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = peer}};
		if (peer != dev->ordinal &&
			REAL(cuMemPoolGetAccess)(&desc.flags, dev->pool, &desc.location) == CUDA_SUCCESS && desc.flags)
			vmm_device_access(&dev->vmm, &desc, 1);
	}
}

void pool_init(struct stream_device *dev)
{
	int done = 1, wait = 1;
	cuuint64_t threshold = 0;
	REAL(cuMemPoolGetAttribute)(dev->pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &done);
	REAL(cuMemPoolGetAttribute)(dev->pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &wait);
	REAL(cuMemPoolGetAttribute)(dev->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
	dev->reuse_done = done;
	dev->reuse_wait = wait;
	dev->threshold = threshold;
	dev->threshold_is_set = threshold != 0;
	dev->window_ns = clock_ns();
	ask_peers(dev);
	obey_reuse(dev);
}

/* ---- attributes ---- */

void pool_got(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	struct stream_device *dev = stream_device_known(pool);
	struct heap_usage usage;
	if (!dev || attribute < CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT || attribute > CU_MEMPOOL_ATTR_USED_MEM_HIGH)
		return;
	pthread_mutex_lock(&dev->lock);
	take_peak(dev, &usage);
	size_t used_high = dev->used_high;
	pthread_mutex_unlock(&dev->lock);
	cuuint64_t *n = value;
	switch (attribute) {
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: *n += usage.reserved; break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: *n += usage.reserved_high; break;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: *n += usage.live; break;
	default: *n += used_high; break;
	}
}

static void reset_used_high(struct stream_device *dev)
{
	struct heap_usage usage;
	pthread_mutex_lock(&dev->lock);
	take_peak(dev, &usage);
	heap_usage_reset_high(stream_device_heap(dev), true, false);
	dev->used_high = usage.live;
	pthread_mutex_unlock(&dev->lock);
}

void pool_set(CUmemoryPool pool, CUmemPool_attribute attribute, const void *value)
{
	struct stream_device *dev = stream_device_of_pool(pool);
	if (!dev)
		return;
	pthread_mutex_lock(&dev->lock);
	switch ((int)attribute) {
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC: dev->reuse_done = *(const int *)value; break;
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: dev->reuse_wait = *(const int *)value; break;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		dev->threshold = *(const cuuint64_t *)value;
		dev->threshold_is_set = true;
		break;
	default: break;
	}
	pthread_mutex_unlock(&dev->lock);
	obey_reuse(dev);
	torch_env_done(); /* PyTorch sets attributes before it first allocates */
	if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
		reset_used_high(dev);
	if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
		heap_usage_reset_high(stream_device_heap(dev), false, true);
}

CUresult pool_access(CUmemoryPool pool, const CUmemAccessDesc *desc, size_t count)
{
	struct stream_device *dev = stream_device_of_pool(pool);
	if (!dev || !vmm_device_access(&dev->vmm, desc, count))
		return CUDA_SUCCESS;
	int r = heap_access_again(stream_device_heap(dev));
	return r == HEAP_NO_MEMORY ? CUDA_ERROR_OUT_OF_MEMORY : (CUresult)r;
}

void pool_current_changed(void)
{
	STREAM_EACH_DEVICE(dev)
	{
		CUmemoryPool now = NULL;
		CUresult r = RELAXED(REAL(cuDeviceGetMemPool)(&now, dev->ordinal));
		atomic_store_explicit(&dev->current, r == CUDA_SUCCESS && now == dev->pool, memory_order_relaxed);
	}
}

/* ---- giving back ---- */

static size_t trim(struct stream_device *dev, size_t keep, uint64_t ns)
{
	size_t bytes = heap_trim(stream_device_heap(dev), keep, ns);
	stats_add(STATS_DEVMEM_STREAM_RELEASED, bytes);
	return bytes;
}

size_t pool_trim(CUmemoryPool pool, size_t keep)
{
	struct stream_device *dev = stream_device_known(pool);
	struct heap_usage usage;
	if (!dev)
		return keep;
	trim(dev, keep, HEAP_TRIM_NS);
	heap_usage(stream_device_heap(dev), &usage);
	return keep > usage.reserved ? keep - usage.reserved : 0;
}

/* Bytes that may stay reserved. */
static size_t keep_bytes(struct stream_device *dev, size_t *reserved)
{
	struct heap_usage usage;
	uint64_t now = clock_ns();
	pthread_mutex_lock(&dev->lock);
	take_peak(dev, &usage);
	size_t keep = dev->threshold;
	if (!dev->threshold_is_set) {
		keep = dev->peak[0] > dev->peak[1] ? dev->peak[0] : dev->peak[1];
		keep += SLACK_OF(dev->total);
	}
	if (now - dev->window_ns >= WINDOW_NS) {
		/* Two windows that ended long ago say nothing about now. */
		dev->peak[1] = now - dev->window_ns < 2 * WINDOW_NS ? dev->peak[0] : usage.live;
		dev->peak[0] = usage.live;
		dev->window_ns = now;
		heap_usage_reset_high(stream_device_heap(dev), true, false);
	}
	pthread_mutex_unlock(&dev->lock);
	*reserved = usage.reserved;
	return keep;
}

void pool_synchronized(struct stream_device *dev)
{
	size_t reserved, keep = keep_bytes(dev, &reserved);
	if (reserved > keep)
		trim(dev, keep, 0);
}

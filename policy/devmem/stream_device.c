#define _GNU_SOURCE
#include "stream_device.h"

#include <stdlib.h>

#include "capture.h"
#include "log.h"
#include "pool.h"
#include "calls.h"
#include "stats.h"
#include "vmm_calls.h"

static _Atomic(struct stream_device *) devices[STREAM_DEVICES]; /* release when complete; never freed */

/* Every device's default pool, asked once. */
static struct {
	pthread_mutex_t lock; /* guards the writing */
	_Atomic int count;    /* release when `pool` is filled in; -1: not yet */
	CUmemoryPool pool[STREAM_DEVICES];
} defaults = {.lock = PTHREAD_MUTEX_INITIALIZER, .count = -1};

struct stream_device *stream_device_at(int ordinal)
{
	if (ordinal < 0 || ordinal >= STREAM_DEVICES)
		return NULL;
	return atomic_load_explicit(&devices[ordinal], memory_order_acquire);
}

static bool heap_new(struct stream_device *dev)
{
	struct heap *heap = heap_create(&dev->vmm.backend, dev->total);
	struct heap_stream *waited = heap ? heap_stream_open(heap, &dev->waited) : NULL;
	if (!waited)
		return false;
	atomic_store_explicit(&dev->waited_blocks, waited, memory_order_release);
	atomic_store_explicit(&dev->heap, heap, memory_order_release);
	return true;
}

static struct stream_device *make(int ordinal)
{
	CUmemoryPool current = NULL;
	struct stream_device *dev = calloc(1, sizeof(*dev));
	if (!dev)
		return NULL;
	pthread_mutex_init(&dev->lock, NULL);
	dev->ordinal = ordinal;
	atomic_init(&dev->waited.kind, VMM_DONE);
	if (REAL(cuDeviceGetDefaultMemPool)(&dev->pool, ordinal) == CUDA_SUCCESS &&
		REAL(cuDeviceGetMemPool)(&current, ordinal) == CUDA_SUCCESS &&
		REAL(cuDeviceTotalMem_v2)(&dev->total, ordinal) == CUDA_SUCCESS &&
		vmm_device_init(&dev->vmm, ordinal) && heap_new(dev)) {
		atomic_init(&dev->current, current == dev->pool);
		pool_init(dev);
		log_info("devmem: stream-ordered memory of device %d comes from a heap", ordinal);
		return dev;
	}
	log_once(LOG_WARN, "devmem: device %d cannot be served; its stream-ordered memory is the driver's",
			 ordinal);
	stats_add(STATS_ERRORS, 1);
	free(dev);
	return NULL;
}

/* One device is made at a time; calls that come meanwhile are the driver's. */
struct stream_device *stream_device_get(int ordinal)
{
	static atomic_flag making = ATOMIC_FLAG_INIT;
	static bool failed[STREAM_DEVICES]; /* guarded by `making` */
	struct stream_device *dev = stream_device_at(ordinal);
	if (dev || ordinal < 0 || ordinal >= STREAM_DEVICES)
		return dev;
	if (atomic_flag_test_and_set_explicit(&making, memory_order_acquire))
		return NULL;
	dev = stream_device_at(ordinal);
	if (!dev && !failed[ordinal]) {
		dev = RELAXED(make(ordinal));
		failed[ordinal] = !dev;
		atomic_store_explicit(&devices[ordinal], dev, memory_order_release);
	}
	atomic_flag_clear_explicit(&making, memory_order_release);
	return dev;
}

void stream_device_renew(struct stream_device *dev)
{
	heap_abandon(atomic_load(&dev->heap));
	vmm_device_forget(&dev->vmm);
	/* The old heap is left behind: another thread may be looking at it. */
	if (!heap_new(dev)) {
		log_once(LOG_WARN, "devmem: no memory for a new heap; stream-ordered memory is the driver's");
		atomic_store_explicit(&devices[dev->ordinal], NULL, memory_order_release);
	}
}

struct stream_device *stream_device_owner(CUdeviceptr va, uint64_t *base, size_t *bytes)
{
	STREAM_EACH_DEVICE(dev)
	if (heap_owns(stream_device_heap(dev), va) && heap_find(stream_device_heap(dev), va, base, bytes))
		return dev;
	return NULL;
}

/* ---- by pool ---- */

static int ask_defaults(void)
{
	int n = 0;
	CUmemoryPool pool[STREAM_DEVICES] = {NULL};
	if (REAL(cuDeviceGetCount)(&n) != CUDA_SUCCESS)
		return 0;
	if (n > STREAM_DEVICES)
		n = STREAM_DEVICES;
	for (int i = 0; i < n; i++)
		if (REAL(cuDeviceGetDefaultMemPool)(&pool[i], i) != CUDA_SUCCESS)
			pool[i] = NULL;
	pthread_mutex_lock(&defaults.lock);
	if (atomic_load(&defaults.count) < 0) {
		for (int i = 0; i < n; i++)
			defaults.pool[i] = pool[i];
		atomic_store_explicit(&defaults.count, n, memory_order_release);
	}
	pthread_mutex_unlock(&defaults.lock);
	return n;
}

static int ordinal_of(CUmemoryPool pool)
{
	int n = atomic_load_explicit(&defaults.count, memory_order_acquire);
	if (n < 0)
		n = RELAXED(ask_defaults());
	for (int i = 0; pool && i < n; i++)
		if (defaults.pool[i] == pool)
			return i;
	return -1;
}

struct stream_device *stream_device_of_pool(CUmemoryPool pool)
{
	return stream_device_get(ordinal_of(pool));
}

struct stream_device *stream_device_known(CUmemoryPool pool)
{
	STREAM_EACH_DEVICE(dev)
	if (dev->pool == pool)
		return dev;
	return NULL;
}

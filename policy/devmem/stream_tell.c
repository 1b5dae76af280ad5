/* stream_tell.c - what others ask of the stream-ordered allocator, and what they tell it. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>

#include "cache.h"
#include "calls.h"
#include "capture.h"
#include "devmem.h"
#include "pool.h"
#include "stream.h"
#include "stream_table.h"

static bool serving(void)
{
	return __atomic_load_n(&stream_state, __ATOMIC_RELAXED) == STREAM_SERVING;
}

/* ---- questions ---- */

bool stream_find(CUdeviceptr va, CUdeviceptr *base, size_t *bytes)
{
	uint64_t at;
	size_t n;
	if (!stream_device_owner(va, &at, &n))
		return false;
	if (base)
		*base = at;
	if (bytes)
		*bytes = n;
	return true;
}

size_t stream_free_bytes(int device)
{
	struct stream_device *dev = stream_device_at(device);
	struct heap_usage usage;
	if (!dev)
		return 0;
	heap_usage(stream_device_heap(dev), &usage);
	return usage.reserved > usage.live ? usage.reserved - usage.live : 0;
}

size_t stream_held_bytes(int device)
{
	struct stream_device *dev = stream_device_at(device);
	struct heap_usage usage;
	if (!dev)
		return 0;
	heap_usage(stream_device_heap(dev), &usage);
	return usage.reserved;
}

size_t stream_release(int device)
{
	struct stream_device *dev = serving() ? stream_device_at(device) : NULL;
	return dev ? heap_make_room(stream_device_heap(dev)) : 0;
}

bool stream_make_room(CUmemoryPool pool, CUstream stream, bool per_thread)
{
	int saved = errno;
	uint64_t key = stream_key(stream, per_thread);
	struct stream_entry *e = key ? stream_table_find(key, NULL) : NULL;
	CUdevice current;
	struct stream_device *dev = pool ? stream_device_known(pool) : NULL;
	if (!dev && e)
		dev = e->dev;
	if (!dev && REAL(cuCtxGetDevice)(&current) == CUDA_SUCCESS)
		dev = stream_device_at(current);
	bool made = dev && stream_release(dev->ordinal) > 0;
	errno = saved;
	return made;
}

/* The only context that there is (the current one for NULL), on a device that is served. */
static struct stream_device *only_device(CUcontext ctx)
{
	if (!ctx && REAL(cuCtxGetCurrent)(&ctx) != CUDA_SUCCESS)
		return NULL;
	return stream_device_at(vmm_context_only(ctx));
}

uint64_t stream_synchronizing(CUcontext ctx)
{
	/* Where there are more contexts, the wait for one of them says nothing about the others' streams. */
	struct stream_device *dev = serving() ? only_device(ctx) : NULL;
	return dev ? heap_sync_begin(stream_device_heap(dev)) : DEVMEM_SYNC_NONE;
}

void stream_synchronized(CUcontext ctx, uint64_t token)
{
	CUdevice device;
	if (!serving())
		return;
	struct stream_device *dev = token == DEVMEM_SYNC_NONE ? NULL : only_device(ctx);
	if (dev)
		heap_synchronized(stream_device_heap(dev), NULL, token);
	if (!dev && !ctx && REAL(cuCtxGetDevice)(&device) == CUDA_SUCCESS)
		dev = stream_device_at(device);
	if (dev && !capture_live())
		pool_synchronized(dev);
}

void devmem_stream_gone(CUstream stream)
{
	int saved = errno, cancel;
	if (!serving())
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	stream_table_close(stream);
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
}

void stream_context_gone(CUcontext ctx, int device)
{
	if (!serving())
		return;
	vmm_context_gone(ctx, device);
	struct stream_device *dev = ctx ? NULL : stream_device_at(device);
	if (!dev || vmm_device_alive(&dev->vmm)) {
		stream_table_sweep(NULL);
		return;
	}
	/* The reset has taken the memory too. */
	stream_table_sweep(dev);
	stream_device_renew(dev);
}

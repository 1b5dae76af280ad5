/*
 * sim_pool.c - stream-ordered allocation: cuMemAllocAsync, cuMemFreeAsync and pools.
 *
 * Memory exists from the call on, and goes when its stream reaches the free; nothing is
 * kept in a pool afterwards, whatever the release threshold.
 */
#include <stdlib.h>

#include "sim_internal.h"

struct sim_pool {
	struct sim_device *dev;
	uint64_t attribute[CU_MEMPOOL_ATTR_USED_MEM_HIGH + 1]; /* as set; 64-bit or int */
	bool program;                                          /* from cuMemPoolCreate */
};

static struct sim_pool *pool_new(struct sim_device *dev)
{
	struct sim_pool *p = calloc(1, sizeof *p);
	if (p) {
		p->dev = dev;
		p->attribute[CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = 1;
		p->attribute[CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC] = 1;
		p->attribute[CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES] = 1;
	}
	return p;
}

/* Lock held. */
static struct sim_pool *default_pool(struct sim_device *dev)
{
	if (!dev->default_pool)
		dev->pool = dev->default_pool = pool_new(dev);
	return dev->default_pool;
}

static CUresult alloc(bool per_thread, CUdeviceptr *out, size_t size, CUmemoryPool pool, CUstream stream)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_stream *s;
	uintptr_t at = 0;
	sim_lock();
	CUresult result = sim_stream_get(stream, per_thread, &s);
	if (result == CUDA_SUCCESS && !s->capture)
		result = sim_capture_unsafe_locked();
	/* In a capture: a node that does nothing, since the memory is there from now on. */
	if (result == CUDA_SUCCESS && s->capture)
		result = sim_submit(s, sim_cmd_new(CMD_NOP), NULL);
	if (result == CUDA_SUCCESS) {
		struct sim_pool *p = (struct sim_pool *)pool;
		if (!p && default_pool(s->ctx->dev))
			p = s->ctx->dev->pool;
		result = p ? sim_device_alloc(s->ctx, size, p, true, &at) : CUDA_ERROR_OUT_OF_MEMORY;
	}
	sim_unlock();
	if (result == CUDA_SUCCESS)
		*out = at;
	return result;
}
SIM_TWIN(cuMemAllocAsync, _ptsz, S_DEV, (CUdeviceptr * out, size_t n, CUstream s), alloc, out, n, NULL, s)

static CUresult alloc_from(bool per_thread, CUdeviceptr *out, size_t size, CUmemoryPool pool, CUstream stream)
{
	return pool ? alloc(per_thread, out, size, pool, stream) : CUDA_ERROR_INVALID_VALUE;
}
SIM_TWIN(cuMemAllocFromPoolAsync, _ptsz, S_DEV, (CUdeviceptr * out, size_t n, CUmemoryPool pool, CUstream s),
		 alloc_from, out, n, pool, s)

static CUresult free_async(bool per_thread, CUdeviceptr ptr, CUstream stream)
{
	if (!ptr)
		return CUDA_SUCCESS;
	struct sim_stream *s;
	sim_lock();
	CUresult result = sim_stream_get(stream, per_thread, &s);
	struct sim_range *r = sim_range_find(ptr);
	if (result == CUDA_SUCCESS && (!r || r->base != ptr || r->kind != MEM_DEVICE)) {
		if (sim_range_was_freed(ptr))
			sim_complain("cuMemFreeAsync of %p, which was freed", (void *)(uintptr_t)ptr);
		result = CUDA_ERROR_INVALID_VALUE;
	}
	if (result == CUDA_SUCCESS) {
		/* Captured, the memory stays for the next replay, until its context ends. */
		struct sim_cmd *cmd = sim_cmd_new(s->capture ? CMD_NOP : CMD_FREE);
		cmd->free = ptr;
		result = sim_submit(s, cmd, NULL);
	}
	sim_unlock();
	return result;
}
SIM_TWIN(cuMemFreeAsync, _ptsz, S_DEV, (CUdeviceptr ptr, CUstream s), free_async, ptr, s)

/* ---- pools ---- */

CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props)
{
	SIM_ENTER(cuMemPoolCreate, S_DEV | S_UNSAFE);
	if (!out || !props || props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_device *dev = sim_device_get(props->location.id);
	if (!dev)
		return CUDA_ERROR_INVALID_DEVICE;
	struct sim_pool *p = pool_new(dev);
	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	p->program = true;
	*out = (CUmemoryPool)p;
	return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	SIM_ENTER(cuMemPoolDestroy, S_DEV | S_UNSAFE);
	struct sim_pool *p = (struct sim_pool *)pool;
	if (!p || !p->program)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (p->dev->pool == p)
		p->dev->pool = p->dev->default_pool;
	for (struct sim_range *r = sim_range_first(); r; r = r->next)
		if (r->pool == p)
			r->pool = NULL;
	sim_unlock();
	free(p);
	return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
	SIM_ENTER(cuMemPoolTrimTo, S_DEV);
	(void)keep; /* nothing is kept anyway */
	return pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool attribute_is_int(CUmemPool_attribute which)
{
	return which <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void *value)
{
	SIM_ENTER(cuMemPoolSetAttribute, S_DEV);
	struct sim_pool *p = (struct sim_pool *)pool;
	if (!p || !value || which <= 0 || which > CU_MEMPOOL_ATTR_USED_MEM_HIGH)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	p->attribute[which] = attribute_is_int(which) ? (uint64_t) * (int *)value : *(cuuint64_t *)value;
	sim_unlock();
	return CUDA_SUCCESS;
}

static uint64_t pool_used(const struct sim_pool *p)
{
	uint64_t used = 0;
	for (struct sim_range *r = sim_range_first(); r; r = r->next)
		if (r->pool == p)
			used += r->size;
	return used;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void *value)
{
	SIM_ENTER(cuMemPoolGetAttribute, S_DEV);
	struct sim_pool *p = (struct sim_pool *)pool;
	if (!p || !value || which <= 0 || which > CU_MEMPOOL_ATTR_USED_MEM_HIGH)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	uint64_t now = p->attribute[which];
	if (which == CU_MEMPOOL_ATTR_USED_MEM_CURRENT || which == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
		now = pool_used(p);
	sim_unlock();
	if (attribute_is_int(which))
		*(int *)value = (int)now;
	else
		*(cuuint64_t *)value = now;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice dev)
{
	SIM_ENTER(cuDeviceGetDefaultMemPool, S_DEV);
	struct sim_device *device = sim_device_get(dev);
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	*out = (CUmemoryPool)default_pool(device);
	sim_unlock();
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *out, CUdevice dev)
{
	SIM_ENTER(cuDeviceGetMemPool, S_DEV);
	struct sim_device *device = sim_device_get(dev);
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	default_pool(device);
	*out = (CUmemoryPool)device->pool;
	sim_unlock();
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
	SIM_ENTER(cuDeviceSetMemPool, S_DEV);
	struct sim_device *device = sim_device_get(dev);
	struct sim_pool *p = (struct sim_pool *)pool;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!p || p->dev != device)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	default_pool(device);
	device->pool = p;
	sim_unlock();
	return CUDA_SUCCESS;
}

/*
 * sim_pool.c - stream-ordered allocation: cuMemAllocAsync, cuMemFreeAsync and pools as the
 * program sees them. The blocks are in sim_pool_heap.c, memory of graphs in sim_graph_mem.c.
 */
#include <stdlib.h>

#include "sim_graph_mem.h"
#include "sim_pool.h"

static struct sim_pool *pools;

struct sim_pool *sim_pool_first(void)
{
	return pools;
}

void sim_pool_forget(struct sim_pool *p)
{
	for (struct sim_pool **at = &pools; *at; at = &(*at)->next) {
		if (*at == p) {
			*at = p->next;
			break;
		}
	}
	free(p);
}

/* Lock held, as for all static functions here that take a pool. */
static struct sim_pool *pool_new(struct sim_device *dev, bool program)
{
	struct sim_pool *p = calloc(1, sizeof *p);
	if (!p)
		return NULL;
	p->dev = dev;
	p->program = program;
	p->access = 1u << dev->ordinal;
	p->follow_events = p->opportunistic = p->internal = 1;
	p->next = pools;
	pools = p;
	return p;
}

static struct sim_pool *default_pool(struct sim_device *dev)
{
	if (!dev->default_pool)
		dev->pool = dev->default_pool = pool_new(dev, false);
	return dev->default_pool;
}

/* NULL: there is no such pool. */
static struct sim_pool *pool_get(CUmemoryPool handle)
{
	for (struct sim_pool *p = pools; p; p = p->next)
		if (p == (struct sim_pool *)handle && !p->destroyed)
			return p;
	return NULL;
}

/* ---- allocating and freeing ---- */

static CUresult alloc(bool per_thread, CUdeviceptr *out, size_t size, CUmemoryPool handle, bool given,
					  CUstream stream)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_stream *s;
	struct sim_pool *p = NULL;
	uintptr_t at = 0;
	sim_lock();
	CUresult result = sim_stream_get(stream, per_thread, &s);
	if (result == CUDA_SUCCESS)
		result = __atomic_load_n(&s->ctx->sticky, __ATOMIC_ACQUIRE);
	if (result == CUDA_SUCCESS && !s->capture)
		result = sim_capture_unsafe_locked();
	if (result == CUDA_SUCCESS) {
		p = given ? pool_get(handle) : default_pool(s->ctx->dev) ? s->ctx->dev->pool : NULL;
		if (!p)
			result = given ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (result == CUDA_SUCCESS)
		result = s->capture ? sim_graph_mem_alloc(p->dev, size, s, &at) : sim_pool_alloc(p, size, s, &at);
	sim_unlock();
	if (result == CUDA_SUCCESS)
		*out = at;
	return result;
}
SIM_TWIN(cuMemAllocAsync, _ptsz, S_DEV, (CUdeviceptr * out, size_t n, CUstream s), alloc, out, n, NULL, false,
		 s)
SIM_TWIN(cuMemAllocFromPoolAsync, _ptsz, S_DEV, (CUdeviceptr * out, size_t n, CUmemoryPool pool, CUstream s),
		 alloc, out, n, pool, true, s)

/* Memory of cuMemAlloc goes too when its stream comes to the free, and is kept in no pool. */
static CUresult free_plain(struct sim_range *r, struct sim_stream *s)
{
	struct sim_cmd *cmd = sim_cmd_new(CMD_FREE);
	cmd->free = r->base;
	CUresult result = sim_submit(s, cmd, NULL);
	if (result == CUDA_SUCCESS)
		sim_range_freeing(r);
	return result;
}

static CUresult free_range(struct sim_range *r, struct sim_stream *s)
{
	if (s->capture || r->graph)
		return sim_graph_mem_free(r, s);
	return r->async ? sim_pool_free_on(r, s) : free_plain(r, s);
}

static CUresult free_async(bool per_thread, CUdeviceptr ptr, CUstream stream)
{
	if (!ptr)
		return CUDA_SUCCESS;
	struct sim_stream *s;
	sim_lock();
	CUresult result = sim_stream_get(stream, per_thread, &s);
	struct sim_range *r = sim_range_find(ptr);
	bool stale = r ? r->freeing : sim_range_was_freed(ptr);
	if (result == CUDA_SUCCESS && !s->capture)
		result = sim_capture_unsafe_locked();
	if (result == CUDA_SUCCESS && (!r || stale || r->base != ptr || r->kind != MEM_DEVICE || r->imported)) {
		if (stale)
			sim_complain("cuMemFreeAsync of %p, which was freed", (void *)(uintptr_t)ptr);
		result = CUDA_ERROR_INVALID_VALUE;
	}
	if (result == CUDA_SUCCESS)
		result = free_range(r, s);
	sim_unlock();
	return result;
}
SIM_TWIN(cuMemFreeAsync, _ptsz, S_DEV, (CUdeviceptr ptr, CUstream s), free_async, ptr, s)

/* ---- pools ---- */

CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props)
{
	SIM_ENTER(cuMemPoolCreate, S_DEV | S_UNSAFE);
	if (!out || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
		props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_device *dev = sim_device_get(props->location.id);
	if (!dev)
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	struct sim_pool *p = pool_new(dev, true);
	if (p)
		p->max_size = props->maxSize;
	sim_unlock();
	*out = (CUmemoryPool)p;
	return p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* What is allocated of it stays, and the pool until it is freed. */
CUresult cuMemPoolDestroy(CUmemoryPool handle)
{
	SIM_ENTER(cuMemPoolDestroy, S_DEV | S_UNSAFE);
	sim_lock();
	struct sim_pool *p = pool_get(handle);
	bool ok = p && p->program;
	if (ok) {
		if (p->dev->pool == p)
			p->dev->pool = p->dev->default_pool;
		p->destroyed = true;
		sim_pool_end_if_unused(p);
	}
	sim_unlock();
	return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep)
{
	SIM_ENTER(cuMemPoolTrimTo, S_DEV);
	sim_lock();
	struct sim_pool *p = pool_get(handle);
	if (p)
		sim_pool_release(p, keep, false);
	sim_unlock();
	return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* NULL: not one that is set as an int. */
static int *int_attribute(struct sim_pool *p, CUmemPool_attribute which)
{
	switch (which) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES: return &p->follow_events;
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC: return &p->opportunistic;
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: return &p->internal;
	default: return NULL;
	}
}

static uint64_t *wide_attribute(struct sim_pool *p, CUmemPool_attribute which)
{
	switch (which) {
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: return &p->threshold;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: return &p->reserved;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: return &p->reserved_high;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: return &p->used;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH: return &p->used_high;
	default: return NULL;
	}
}

static CUresult attribute_set(struct sim_pool *p, CUmemPool_attribute which, const void *value)
{
	if (int_attribute(p, which)) {
		*int_attribute(p, which) = *(const int *)value != 0;
		return CUDA_SUCCESS;
	}
	cuuint64_t wide = wide_attribute(p, which) ? *(const cuuint64_t *)value : 1;
	if (which == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		p->threshold = wide;
	else if (which == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH && !wide)
		p->reserved_high = p->reserved; /* marks can only be reset */
	else if (which == CU_MEMPOOL_ATTR_USED_MEM_HIGH && !wide)
		p->used_high = p->used;
	else
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void *value)
{
	SIM_ENTER(cuMemPoolSetAttribute, S_DEV);
	sim_lock();
	struct sim_pool *p = pool_get(pool);
	CUresult result = p && value ? attribute_set(p, which, value) : CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	return result;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void *value)
{
	SIM_ENTER(cuMemPoolGetAttribute, S_DEV);
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	struct sim_pool *p = pool_get(pool);
	if (p && value && int_attribute(p, which)) {
		*(int *)value = *int_attribute(p, which);
		result = CUDA_SUCCESS;
	} else if (p && value && wide_attribute(p, which)) {
		*(cuuint64_t *)value = *wide_attribute(p, which);
		result = CUDA_SUCCESS;
	}
	sim_unlock();
	return result;
}

/* ---- the current pool of a device ---- */

static CUresult device_pool(CUmemoryPool *out, CUdevice dev, bool current)
{
	struct sim_device *device = sim_device_get(dev);
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	struct sim_pool *p = default_pool(device);
	*out = (CUmemoryPool)(current && p ? device->pool : p);
	sim_unlock();
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
SIM_FN(cuDeviceGetDefaultMemPool, S_DEV, (CUmemoryPool * out, CUdevice dev), device_pool(out, dev, false))
SIM_FN(cuDeviceGetMemPool, S_DEV, (CUmemoryPool * out, CUdevice dev), device_pool(out, dev, true))

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
	SIM_ENTER(cuDeviceSetMemPool, S_DEV);
	struct sim_device *device = sim_device_get(dev);
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	default_pool(device);
	struct sim_pool *p = pool_get(pool);
	bool ok = p && p->dev == device;
	if (ok)
		device->pool = p;
	sim_unlock();
	return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

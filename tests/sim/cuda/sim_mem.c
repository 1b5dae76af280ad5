/*
 * sim_mem.c - device and managed memory: cuMemAlloc and its relatives.
 */
#include <sys/mman.h>

#include "sim_cost.h"
#include "sim_pool.h"

#define ALIGN 512
#define BIG (2u << 20) /* from here on addresses are 2 MiB aligned */

/* Lock held. */
CUresult sim_device_alloc(struct sim_device *dev, struct sim_ctx *ctx, size_t size, uintptr_t *out)
{
	if (!size || size > sim_conf.mem_bytes * 4)
		return size ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	size_t whole = (size + ALIGN - 1) / ALIGN * ALIGN;
	struct sim_phys *phys = sim_phys_new(dev, whole);
	uintptr_t at = phys ? sim_va_take(dev, whole, whole >= BIG ? BIG : ALIGN) : 0;
	if (!at) {
		if (phys)
			sim_phys_put(phys);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	struct sim_range range = {
		.base = at,
		.size = size,
		.kind = MEM_DEVICE,
		.ctx = ctx,
		.dev = dev,
		.phys = phys,
	};
	sim_range_add(&range);
	*out = at;
	return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t size)
{
	SIM_ENTER(cuMemAlloc_v2, S_CTX | S_UNSAFE);
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	uintptr_t at = 0;
	sim_lock();
	CUresult result = sim_device_alloc(sim_current()->dev, sim_current(), size, &at);
	sim_unlock();
	if (result == CUDA_SUCCESS) {
		sim_cost(COST_ALLOC, size, 1);
		*out = at;
	}
	return result;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
							unsigned int element)
{
	SIM_ENTER(cuMemAllocPitch_v2, S_CTX | S_UNSAFE);
	if (!out || !pitch || !width || !height || (element != 4 && element != 8 && element != 16))
		return CUDA_ERROR_INVALID_VALUE;
	size_t row = (width + ALIGN - 1) / ALIGN * ALIGN;
	uintptr_t at = 0;
	sim_lock();
	CUresult result = sim_device_alloc(sim_current()->dev, sim_current(), row * height, &at);
	sim_unlock();
	if (result == CUDA_SUCCESS) {
		*out = at;
		*pitch = row;
	}
	return result;
}

/* Readable and writable by both sides, at one address. */
CUresult cuMemAllocManaged(CUdeviceptr *out, size_t size, unsigned int flags)
{
	SIM_ENTER(cuMemAllocManaged, S_CTX | S_UNSAFE);
	if (!out || !size || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_ctx *ctx = sim_current();
	size_t whole = (size + 4095) / 4096 * 4096;
	void *at = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	sim_lock();
	if (sim_charge(ctx->dev, size)) {
		struct sim_range range = {
			.base = (uintptr_t)at,
			.size = size,
			.kind = MEM_MANAGED,
			.ctx = ctx,
			.dev = ctx->dev,
			.flags = flags,
		};
		if (sim_range_add(&range))
			result = CUDA_SUCCESS;
		else
			sim_uncharge(ctx->dev, size);
	}
	sim_unlock();
	if (result == CUDA_SUCCESS)
		*out = (CUdeviceptr)at;
	else
		munmap(at, whole);
	return result;
}

/* The real one waits for the whole device, and holds up launches meanwhile. */
static CUresult free_plain(struct sim_range *r)
{
	uintptr_t base = r->base;
	unsigned long long id = r->id;
	sim_device_stop_and_drain(r->dev);
	r = sim_range_find(base);
	if (!r || r->id != id)
		return CUDA_ERROR_INVALID_VALUE; /* another thread has freed it meanwhile */
	CUresult result = __atomic_load_n(&r->ctx->sticky, __ATOMIC_ACQUIRE);
	if (result == CUDA_SUCCESS)
		sim_release_range(r);
	return result;
}

/* Of stream-ordered memory it does not wait: the caller says that nothing uses it any more. */
static CUresult free_ordered(struct sim_range *r)
{
	if (sim_pending_use(r->base, r->size))
		sim_complain("cuMemFree of stream-ordered memory at %p, which queued work uses", (void *)r->base);
	if (!r->graph)
		sim_pool_free_now(r);
	return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr ptr)
{
	SIM_ENTER(cuMemFree_v2, S_DEV | S_UNSAFE);
	if (!ptr)
		return CUDA_SUCCESS;
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	struct sim_range *r = sim_range_find(ptr);
	size_t plain = r && !r->async ? r->size : 0;
	if (r ? r->freeing : sim_range_was_freed(ptr))
		sim_complain("cuMemFree of %p, which was freed", (void *)(uintptr_t)ptr);
	else if (r && r->base == ptr && (r->kind == MEM_DEVICE || r->kind == MEM_MANAGED) && !r->imported)
		result = r->async ? free_ordered(r) : free_plain(r);
	sim_unlock();
	if (result == CUDA_SUCCESS && plain)
		sim_cost(COST_FREE, plain, 1);
	return result;
}

CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
	SIM_ENTER(cuMemGetInfo_v2, S_CTX);
	if (!available || !total)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	*available = sim_free_bytes(sim_current()->dev);
	*total = sim_conf.mem_bytes;
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr ptr)
{
	SIM_ENTER(cuMemGetAddressRange_v2, S_CTX);
	CUresult result = CUDA_ERROR_NOT_FOUND;
	sim_lock();
	struct sim_range *r = sim_range_live(ptr);
	if (r && (r->kind != MEM_VMM || r->may_read)) {
		if (base)
			*base = r->base;
		if (size)
			*size = sim_range_size(r);
		result = CUDA_SUCCESS;
	}
	sim_unlock();
	return result;
}

CUresult cuMemAdvise(CUdeviceptr ptr, size_t size, CUmem_advise advice, CUdevice dev)
{
	SIM_ENTER(cuMemAdvise, S_CTX);
	(void)size;
	(void)advice;
	(void)dev;
	sim_lock();
	struct sim_range *r = sim_range_live(ptr);
	bool managed = r && r->kind == MEM_MANAGED;
	sim_unlock();
	return managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/*
 * sim_mem.c - device and managed memory: cuMemAlloc and its relatives.
 */
#include <sys/mman.h>

#include "sim_internal.h"

#define ALIGN 512
#define BIG (2u << 20) /* from here on addresses are 2 MiB aligned */

/* Lock held. */
CUresult sim_device_alloc(struct sim_ctx *ctx, size_t size, struct sim_pool *pool, bool async, uintptr_t *out)
{
	if (!size || size > sim_conf.mem_bytes * 4)
		return size ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	size_t whole = (size + ALIGN - 1) / ALIGN * ALIGN;
	struct sim_phys *phys = sim_phys_new(ctx->dev, whole);
	uintptr_t at = phys ? sim_va_take(ctx->dev, whole, whole >= BIG ? BIG : ALIGN) : 0;
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
		.dev = ctx->dev,
		.phys = phys,
		.pool = pool,
		.async = async,
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
	CUresult result = sim_device_alloc(sim_current(), size, NULL, false, &at);
	sim_unlock();
	if (result == CUDA_SUCCESS)
		*out = at;
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
	CUresult result = sim_device_alloc(sim_current(), row * height, NULL, false, &at);
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

CUresult cuMemFree_v2(CUdeviceptr ptr)
{
	SIM_ENTER(cuMemFree_v2, S_DEV | S_UNSAFE);
	if (!ptr)
		return CUDA_SUCCESS;
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	struct sim_range *r = sim_range_find(ptr);
	if (r && r->base == ptr && (r->kind == MEM_DEVICE || r->kind == MEM_MANAGED) && !r->imported) {
		/* The real one waits for the whole device, and holds up launches meanwhile. */
		sim_device_stop_and_drain(r->dev);
		r = sim_range_find(ptr);
		if (r && r->base == ptr)
			result = __atomic_load_n(&r->ctx->sticky, __ATOMIC_ACQUIRE);
		if (result == CUDA_SUCCESS)
			sim_release_range(r);
	} else if (!r && sim_range_was_freed(ptr)) {
		sim_complain("cuMemFree of %p, which was freed", (void *)(uintptr_t)ptr);
	}
	sim_unlock();
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
	struct sim_range *r = sim_range_find(ptr);
	if (r && (r->kind != MEM_VMM || r->accessible)) {
		if (base)
			*base = r->base;
		if (size)
			*size = r->size;
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
	struct sim_range *r = sim_range_find(ptr);
	bool managed = r && r->kind == MEM_MANAGED;
	sim_unlock();
	return managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

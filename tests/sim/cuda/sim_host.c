/*
 * sim_host.c - pinned host memory: allocated here, or the program's own, registered.
 */
#include <sys/mman.h>

#include "sim_internal.h"

static CUresult host_alloc(void **out, size_t size, unsigned flags)
{
	const unsigned known =
		CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
	if (!out || flags & ~known)
		return CUDA_ERROR_INVALID_VALUE;
	*out = NULL;
	if (!size)
		return CUDA_SUCCESS;
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct sim_ctx *ctx = sim_current();
	sim_lock();
	struct sim_range range = {
		.base = (uintptr_t)at,
		.size = size,
		.kind = MEM_PINNED,
		.ctx = ctx,
		.dev = ctx->dev,
		.flags = flags,
	};
	bool added = sim_range_add(&range);
	if (!added)
		sim_complain("host allocation at %p lies in a range that is still registered", at);
	sim_unlock();
	if (!added) {
		munmap(at, size);
		return CUDA_ERROR_UNKNOWN;
	}
	*out = at;
	return CUDA_SUCCESS;
}
SIM_FN(cuMemHostAlloc, S_CTX | S_UNSAFE, (void **out, size_t size, unsigned flags),
	   host_alloc(out, size, flags))
SIM_FN(cuMemAllocHost_v2, S_CTX | S_UNSAFE, (void **out, size_t size), host_alloc(out, size, 0))

CUresult cuMemFreeHost(void *ptr)
{
	SIM_ENTER(cuMemFreeHost, S_DEV | S_UNSAFE);
	if (!ptr)
		return CUDA_SUCCESS;
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	struct sim_range *r = sim_range_find((uintptr_t)ptr);
	if (r && r->base == (uintptr_t)ptr && r->kind == MEM_PINNED) {
		sim_device_stop_and_drain(r->dev);
		r = sim_range_find((uintptr_t)ptr);
		if (r && r->base == (uintptr_t)ptr)
			result = __atomic_load_n(&r->ctx->sticky, __ATOMIC_ACQUIRE);
		if (result == CUDA_SUCCESS)
			sim_release_range(r);
	}
	sim_unlock();
	return result;
}

static CUresult host_register(void *ptr, size_t size, unsigned flags)
{
	const unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
						   CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
	if (!ptr || !size || flags & ~known || (uintptr_t)ptr + size < (uintptr_t)ptr)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = CUDA_SUCCESS;
	struct sim_ctx *ctx = sim_current();
	sim_lock();
	struct sim_range *other = sim_range_overlap((uintptr_t)ptr, size);
	struct sim_range range = {
		.base = (uintptr_t)ptr,
		.size = size,
		.kind = MEM_REGISTERED,
		.ctx = ctx,
		.dev = ctx->dev,
		.flags = flags,
	};
	if (other)
		result = other->kind == MEM_REGISTERED ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
											   : CUDA_ERROR_INVALID_VALUE;
	else if (sim_in_device_space((uintptr_t)ptr))
		result = CUDA_ERROR_INVALID_VALUE;
	else
		sim_range_add(&range);
	sim_unlock();
	return result;
}
SIM_FN(cuMemHostRegister, S_CTX | S_UNSAFE, (void *ptr, size_t size, unsigned flags),
	   host_register(ptr, size, flags))
SIM_FN(cuMemHostRegister_v2, S_CTX | S_UNSAFE, (void *ptr, size_t size, unsigned flags),
	   host_register(ptr, size, flags))

CUresult cuMemHostUnregister(void *ptr)
{
	SIM_ENTER(cuMemHostUnregister, S_DEV | S_UNSAFE);
	CUresult result = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	sim_lock();
	struct sim_range *r = sim_range_find((uintptr_t)ptr);
	if (r && (r->base != (uintptr_t)ptr || r->kind != MEM_REGISTERED))
		result = CUDA_ERROR_INVALID_VALUE;
	else if (r) {
		sim_device_stop_and_drain(r->dev);
		r = sim_range_find((uintptr_t)ptr);
		if (r && r->base == (uintptr_t)ptr && r->kind == MEM_REGISTERED) {
			sim_range_remove(r);
			result = CUDA_SUCCESS;
		}
	}
	sim_unlock();
	return result;
}

/* Unified addressing: the device uses the host's own address. */
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *ptr, unsigned int flags)
{
	SIM_ENTER(cuMemHostGetDevicePointer_v2, S_CTX);
	if (!out || flags)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	struct sim_range *r = sim_range_find((uintptr_t)ptr);
	bool pinned = r && (r->kind == MEM_PINNED || r->kind == MEM_REGISTERED);
	sim_unlock();
	if (!pinned)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUdeviceptr)ptr;
	return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int *flags, void *ptr)
{
	SIM_ENTER(cuMemHostGetFlags, S_CTX);
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	struct sim_range *r = sim_range_find((uintptr_t)ptr);
	if (r && (r->kind == MEM_PINNED || r->kind == MEM_REGISTERED)) {
		*flags = r->flags | CU_MEMHOSTALLOC_DEVICEMAP;
		result = CUDA_SUCCESS;
	}
	sim_unlock();
	return result;
}

/*
 * sim_pool_share.c - which devices reach a pool's memory, and what sharing pools with other
 * processes answers here: that it is not supported.
 */
#include "sim_pool.h"

bool sim_pool_reaches(const struct sim_range *r, uint32_t device_bit)
{
	return !r->pool || r->pool->access & device_bit;
}

static struct sim_pool *pool_get(CUmemoryPool handle)
{
	for (struct sim_pool *p = sim_pool_first(); p; p = p->next)
		if (p == (struct sim_pool *)handle && !p->destroyed)
			return p;
	return NULL;
}

static CUresult access_check(const struct sim_pool *p, const CUmemAccessDesc *d)
{
	if (d->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_device *dev = sim_device_get(d->location.id);
	if (!dev)
		return CUDA_ERROR_INVALID_DEVICE;
	/* The device of the pool always reaches it. */
	if (dev == p->dev)
		return d->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	return d->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || d->flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
				   d->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE
			   ? CUDA_SUCCESS
			   : CUDA_ERROR_INVALID_VALUE;
}

/* Also of memory that is allocated already. */
CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
	SIM_ENTER(cuMemPoolSetAccess, S_DEV);
	if (!map || !count)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	struct sim_pool *p = pool_get(pool);
	CUresult result = p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = access_check(p, &map[i]);
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		uint32_t bit = 1u << map[i].location.id;
		p->access &= ~bit;
		p->read_only &= ~bit;
		if (map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
			p->access |= bit;
		if (map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
			p->read_only |= bit;
	}
	sim_unlock();
	return result;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
	SIM_ENTER(cuMemPoolGetAccess, S_DEV);
	if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_get(location->id))
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	struct sim_pool *p = pool_get(pool);
	uint32_t bit = 1u << location->id;
	if (p)
		*flags = !(p->access & bit)   ? CU_MEM_ACCESS_FLAGS_PROT_NONE
				 : p->read_only & bit ? CU_MEM_ACCESS_FLAGS_PROT_READ
									  : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	sim_unlock();
	return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

#pragma GCC diagnostic ignored "-Wunused-parameter"

SIM_FN(cuMemPoolExportToShareableHandle, S_DEV,
	   (void *out, CUmemoryPool pool, CUmemAllocationHandleType type, unsigned long long flags),
	   CUDA_ERROR_NOT_SUPPORTED)
SIM_FN(cuMemPoolImportFromShareableHandle, S_DEV,
	   (CUmemoryPool * out, void *handle, CUmemAllocationHandleType type, unsigned long long flags),
	   CUDA_ERROR_NOT_SUPPORTED)
SIM_FN(cuMemPoolExportPointer, S_DEV, (CUmemPoolPtrExportData * out, CUdeviceptr ptr),
	   CUDA_ERROR_NOT_SUPPORTED)
SIM_FN(cuMemPoolImportPointer, S_DEV, (CUdeviceptr * out, CUmemoryPool pool, CUmemPoolPtrExportData *data),
	   CUDA_ERROR_NOT_SUPPORTED)

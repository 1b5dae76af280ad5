/*
 * sim_vmm.c - virtual memory management: reservations and physical memory.
 *
 * Physical memory (struct sim_phys) lives as long as a handle or a mapping refers to it, or work
 * that is running. Mappings are in sim_vmm_map.c.
 */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "sim_cost.h"
#include "sim_vmm.h"

/* ---- reservations: a tree in which those that overlap are equal ---- */

static void *reservations;

static int compare_reservations(const void *a, const void *b)
{
	const struct sim_reservation *x = a, *y = b;
	if (x->base + x->size <= y->base)
		return -1;
	return y->base + y->size <= x->base;
}

static struct sim_reservation *reservation_at(uintptr_t at, size_t size)
{
	const struct sim_reservation key = {at, size};
	struct sim_reservation **found = tfind(&key, &reservations, compare_reservations);
	return found ? *found : NULL;
}

struct sim_reservation *sim_reservation_of(uintptr_t at, size_t size)
{
	struct sim_reservation *r = reservation_at(at, 1);
	return r && size <= r->size - (at - r->base) ? r : NULL;
}

uintptr_t sim_va_conflict(uintptr_t at, size_t size)
{
	struct sim_range *range = sim_range_overlap(at, size);
	struct sim_reservation *r = range ? NULL : reservation_at(at, size);
	if (range)
		return range->base + range->size;
	return r ? r->base + r->size : sim_va_held(at, size);
}

bool sim_vmm_reserved(uintptr_t at, uintptr_t *base, size_t *size)
{
	struct sim_reservation *r = reservation_at(at, 1);
	*base = r ? r->base : 0;
	*size = r ? r->size : 0;
	return r != NULL;
}

CUresult cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *prop,
									   CUmemAllocationGranularity_flags option)
{
	SIM_ENTER(cuMemGetAllocationGranularity, S_DEV);
	if (!out || !prop || (unsigned)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
		return CUDA_ERROR_INVALID_VALUE;
	*out = SIM_GRANULARITY;
	return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *out, size_t size, size_t align, CUdeviceptr hint,
							 unsigned long long flags)
{
	SIM_ENTER(cuMemAddressReserve, S_DEV);
	(void)hint; /* real drivers need not honour it either */
	if (!out || !sim_granular(size) || flags || (align & (align - 1)))
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_reservation *r = calloc(1, sizeof *r);
	sim_lock();
	uintptr_t at = r ? sim_va_take(&sim.dev[0], size, align > SIM_GRANULARITY ? align : SIM_GRANULARITY) : 0;
	if (at) {
		r->base = at;
		r->size = size;
		if (!tsearch(r, &reservations, compare_reservations))
			abort();
		*out = at;
	}
	sim_unlock();
	if (!at)
		free(r);
	return at ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	SIM_ENTER(cuMemAddressFree, S_DEV);
	sim_lock();
	struct sim_reservation *r = reservation_at(ptr, 1);
	bool ok = r && r->base == ptr && r->size == size && !sim_range_overlap(ptr, size);
	if (ok) {
		tdelete(r, &reservations, compare_reservations);
		free(r);
	}
	sim_unlock();
	return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- handles: numbers that are never used again ---- */

struct sim_handle {
	CUmemGenericAllocationHandle number;
	struct sim_phys *phys; /* holds a reference */
	int refs;              /* of the program: cuMemCreate, cuMemRetainAllocationHandle */
};

static void *handles;

static int compare_handles(const void *a, const void *b)
{
	const struct sim_handle *x = a, *y = b;
	return x->number < y->number ? -1 : x->number > y->number;
}

static struct sim_handle *handle_get(CUmemGenericAllocationHandle number)
{
	const struct sim_handle key = {.number = number};
	struct sim_handle **found = tfind(&key, &handles, compare_handles);
	return found ? *found : NULL;
}

struct sim_phys *sim_handle_phys(CUmemGenericAllocationHandle number)
{
	struct sim_handle *h = handle_get(number);
	return h ? h->phys : NULL;
}

/* Takes over the reference to phys. */
static CUmemGenericAllocationHandle handle_new(struct sim_phys *phys)
{
	static CUmemGenericAllocationHandle last = 0x10000;
	struct sim_handle *h = calloc(1, sizeof *h);
	if (!h)
		abort();
	h->number = ++last;
	h->phys = phys;
	h->refs = 1;
	phys->handle = h;
	if (!tsearch(h, &handles, compare_handles))
		abort();
	return h->number;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t size, const CUmemAllocationProp *prop,
					 unsigned long long flags)
{
	SIM_ENTER(cuMemCreate, S_DEV);
	if (!out || !prop || !sim_granular(size) || flags || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_device *dev = NULL;
	if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
		dev = sim_device_get(prop->location.id);
		if (!dev)
			return CUDA_ERROR_INVALID_DEVICE;
	} else if (prop->location.type != CU_MEM_LOCATION_TYPE_HOST_NUMA) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	sim_lock();
	struct sim_phys *phys = sim_phys_new(dev, size);
	if (phys) {
		phys->prop = *prop;
		*out = handle_new(phys);
	}
	sim_unlock();
	if (phys)
		sim_cost(COST_CREATE, size, 1);
	return phys ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	SIM_ENTER(cuMemRelease, S_DEV);
	sim_lock();
	struct sim_handle *h = handle_get(handle);
	if (!h && handle)
		sim_complain("cuMemRelease of %llx, which is no handle", handle);
	if (h && --h->refs == 0) {
		h->phys->handle = NULL;
		sim_phys_put(h->phys);
		tdelete(h, &handles, compare_handles);
		free(h);
	}
	sim_unlock();
	return h ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *ptr)
{
	SIM_ENTER(cuMemRetainAllocationHandle, S_DEV);
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	struct sim_range *r = sim_range_find((uintptr_t)ptr);
	if (out && r && r->kind == MEM_VMM) {
		struct sim_handle *h = r->phys->handle;
		if (h) {
			h->refs++;
			*out = h->number;
		} else {
			r->phys->refs++;
			*out = handle_new(r->phys);
		}
		result = CUDA_SUCCESS;
	}
	sim_unlock();
	return result;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
												CUmemGenericAllocationHandle handle)
{
	SIM_ENTER(cuMemGetAllocationPropertiesFromHandle, S_DEV);
	sim_lock();
	struct sim_phys *phys = sim_handle_phys(handle);
	if (prop && phys)
		*prop = phys->prop;
	sim_unlock();
	return prop && phys ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

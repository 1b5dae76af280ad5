/*
 * sim_vmm.c - virtual memory management: reservations, handles, mappings.
 */
#include <stdlib.h>
#include <string.h>

#include "sim_internal.h"

struct reservation {
	uintptr_t base;
	size_t size;
	struct reservation *next;
};

static struct reservation *reservations;

static struct reservation *reservation_of(uintptr_t at, size_t size)
{
	for (struct reservation *r = reservations; r; r = r->next)
		if (at >= r->base && at - r->base < r->size && size <= r->size - (at - r->base))
			return r;
	return NULL;
}

uintptr_t sim_va_conflict(uintptr_t at, size_t size)
{
	struct sim_range *range = sim_range_overlap(at, size);
	if (range)
		return range->base + range->size;
	for (struct reservation *r = reservations; r; r = r->next)
		if (at < r->base + r->size && r->base < at + size)
			return r->base + r->size;
	return 0;
}

bool sim_vmm_reserved(uintptr_t at, uintptr_t *base, size_t *size)
{
	struct reservation *r = reservation_of(at, 1);
	*base = r ? r->base : 0;
	*size = r ? r->size : 0;
	return r != NULL;
}

static bool granular(uint64_t n)
{
	return n && n % SIM_GRANULARITY == 0;
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
	if (!out || !granular(size) || flags || (align & (align - 1)))
		return CUDA_ERROR_INVALID_VALUE;
	struct reservation *r = calloc(1, sizeof *r);
	sim_lock();
	uintptr_t at = r ? sim_va_take(&sim.dev[0], size, align > SIM_GRANULARITY ? align : SIM_GRANULARITY) : 0;
	if (at) {
		r->base = at;
		r->size = size;
		r->next = reservations;
		reservations = r;
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
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	for (struct reservation **p = &reservations; *p; p = &(*p)->next) {
		struct reservation *r = *p;
		if (r->base != ptr || r->size != size)
			continue;
		if (!sim_range_overlap(r->base, r->size)) {
			*p = r->next;
			free(r);
			result = CUDA_SUCCESS;
		}
		break;
	}
	sim_unlock();
	return result;
}

/* ---- handles: a reference to a struct sim_phys ---- */

CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t size, const CUmemAllocationProp *prop,
					 unsigned long long flags)
{
	SIM_ENTER(cuMemCreate, S_DEV);
	if (!out || !prop || !granular(size) || flags || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
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
		*out = (CUmemGenericAllocationHandle)(uintptr_t)phys;
	}
	sim_unlock();
	return phys ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	SIM_ENTER(cuMemRelease, S_DEV);
	struct sim_phys *phys = (struct sim_phys *)(uintptr_t)handle;
	if (!phys)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	sim_phys_put(phys);
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *ptr)
{
	SIM_ENTER(cuMemRetainAllocationHandle, S_DEV);
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	struct sim_range *r = sim_range_find((uintptr_t)ptr);
	if (out && r && r->kind == MEM_VMM) {
		r->phys->refs++;
		*out = (CUmemGenericAllocationHandle)(uintptr_t)r->phys;
		result = CUDA_SUCCESS;
	}
	sim_unlock();
	return result;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
												CUmemGenericAllocationHandle handle)
{
	SIM_ENTER(cuMemGetAllocationPropertiesFromHandle, S_DEV);
	if (!prop || !handle)
		return CUDA_ERROR_INVALID_VALUE;
	*prop = ((struct sim_phys *)(uintptr_t)handle)->prop;
	return CUDA_SUCCESS;
}

/* ---- mappings ---- */

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
				  unsigned long long flags)
{
	SIM_ENTER(cuMemMap, S_DEV);
	struct sim_phys *phys = (struct sim_phys *)(uintptr_t)handle;
	if (!phys || !granular(size) || ptr % SIM_GRANULARITY || offset || flags)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	struct reservation *r = reservation_of(ptr, size);
	if (r && size <= phys->size) {
		struct sim_range range = {
			.base = ptr,
			.size = size,
			.kind = MEM_VMM,
			.dev = phys->dev ? phys->dev : &sim.dev[0],
			.phys = phys,
			.va_base = r->base,
			.va_size = r->size,
		};
		if (sim_range_add(&range)) {
			phys->refs++;
			result = CUDA_SUCCESS;
		}
	}
	sim_unlock();
	return result;
}

/* True when [ptr, ptr + size) is exactly a run of whole mappings. */
static bool whole_mappings(uintptr_t ptr, size_t size)
{
	uintptr_t at = ptr;
	while (at < ptr + size) {
		struct sim_range *r = sim_range_find(at);
		if (!r || r->kind != MEM_VMM || r->base != at)
			return false;
		at += r->size;
	}
	return at == ptr + size;
}

/* Does not wait for the device, as the real one does not. Addresses that are reserved and
 * not mapped are passed over. */
CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	SIM_ENTER(cuMemUnmap, S_DEV);
	sim_lock();
	bool ok = granular(size) && reservation_of(ptr, size);
	struct sim_range *first = sim_range_find(ptr), *last = sim_range_find(ptr + size - 1);
	if ((first && first->base < ptr) || (last && last->base + last->size > ptr + size))
		ok = false; /* cuts a mapping */
	for (struct sim_range *r; ok && (r = sim_range_overlap(ptr, size));)
		sim_release_range(r);
	sim_unlock();
	return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	SIM_ENTER(cuMemSetAccess, S_DEV);
	if (!desc || !count)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	bool ok = granular(size) && whole_mappings(ptr, size);
	for (uintptr_t at = ptr; ok && at < ptr + size;) {
		struct sim_range *r = sim_range_find(at);
		r->accessible = desc[0].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
		at += r->size;
	}
	sim_unlock();
	return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
	SIM_ENTER(cuMemGetAccess, S_DEV);
	if (!flags || !location)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	struct sim_range *r = sim_range_find(ptr);
	if (r && r->kind == MEM_VMM) {
		*flags = r->accessible ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
		result = CUDA_SUCCESS;
	}
	sim_unlock();
	return result;
}

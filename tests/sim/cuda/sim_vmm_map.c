/*
 * sim_vmm_map.c - mappings of physical memory, and which devices may use them.
 */
#include "sim_cost.h"
#include "sim_vmm.h"

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
				  unsigned long long flags)
{
	SIM_ENTER(cuMemMap, S_DEV);
	if (ptr % SIM_GRANULARITY)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!sim_granular(size) || offset || flags)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	struct sim_phys *phys = sim_handle_phys(handle);
	struct sim_reservation *r = sim_reservation_of(ptr, size);
	if (phys && r && size <= phys->size) {
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
	if (result == CUDA_SUCCESS)
		sim_cost(COST_MAP, size, 1);
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
	bool ok = sim_granular(size) && sim_reservation_of(ptr, size);
	struct sim_range *first = sim_range_find(ptr), *last = sim_range_find(ptr + size - 1);
	if ((first && first->base < ptr) || (last && last->base + last->size > ptr + size))
		ok = false; /* cuts a mapping */
	if (ok && sim_pending_use(ptr, size))
		sim_complain("cuMemUnmap of %p, which queued work uses", (void *)(uintptr_t)ptr);
	for (struct sim_range *r; ok && (r = sim_range_overlap(ptr, size));)
		sim_release_range(r);
	sim_unlock();
	return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult desc_check(const CUmemAccessDesc *desc, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
			desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
			desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			return CUDA_ERROR_INVALID_VALUE;
		if (desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE && !sim_device_get(desc[i].location.id))
			return CUDA_ERROR_INVALID_DEVICE;
	}
	return CUDA_SUCCESS;
}

/* Devices that no descriptor names keep what they have. Access of the host is not kept: it
 * never reaches device memory here. */
static void access_set(struct sim_range *r, const CUmemAccessDesc *desc)
{
	if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return;
	uint32_t bit = 1u << desc->location.id;
	r->may_read &= ~bit;
	r->may_write &= ~bit;
	if (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
		r->may_read |= bit;
	if (desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		r->may_write |= bit;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	SIM_ENTER(cuMemSetAccess, S_DEV);
	if (!desc || !count)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = desc_check(desc, count);
	if (result != CUDA_SUCCESS)
		return result;
	sim_lock();
	bool ok = sim_granular(size) && whole_mappings(ptr, size);
	int mappings = 0;
	for (uintptr_t at = ptr; ok && at < ptr + size; mappings++) {
		struct sim_range *r = sim_range_find(at);
		for (size_t i = 0; i < count; i++)
			access_set(r, &desc[i]);
		at += r->size;
	}
	sim_unlock();
	if (ok)
		sim_cost(COST_ACCESS, size, mappings);
	return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
	SIM_ENTER(cuMemGetAccess, S_DEV);
	if (!flags || !location)
		return CUDA_ERROR_INVALID_VALUE;
	if (location->type == CU_MEM_LOCATION_TYPE_DEVICE && !sim_device_get(location->id))
		return CUDA_ERROR_INVALID_DEVICE;
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	struct sim_range *r = sim_range_find(ptr);
	if (r && r->kind == MEM_VMM) {
		uint32_t bit = location->type == CU_MEM_LOCATION_TYPE_DEVICE ? 1u << location->id : 0;
		*flags = r->may_write & bit  ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
				 : r->may_read & bit ? CU_MEM_ACCESS_FLAGS_PROT_READ
									 : CU_MEM_ACCESS_FLAGS_PROT_NONE;
		result = CUDA_SUCCESS;
	}
	sim_unlock();
	return result;
}

/*
 * sim_pointer.c - cuPointerGetAttribute(s): what the driver says about an address.
 */
#include <string.h>

#include "sim_internal.h"

static size_t attribute_size(CUpointer_attribute which)
{
	switch (which) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID: return 8;
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS: return sizeof(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS);
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: return 4;
	/* The documentation says bool; drivers have written four bytes, programs pass int. */
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: return 4;
	default: return 0;
	}
}

static bool device_kind(const struct sim_range *r)
{
	return sim_kind_device(r->kind) || r->kind == MEM_MANAGED;
}

/* Blocks that the driver itself cuts allocations from. */
static uint64_t mapping_size(const struct sim_range *r)
{
	uint64_t unit = r->kind == MEM_DEVICE || r->kind == MEM_MANAGED ? (r->async ? 32u << 20 : 2u << 20) : 1;
	return (sim_range_size(r) + unit - 1) / unit * unit;
}

/* Value of one attribute of a known address; false: it has none. */
static bool attribute(const struct sim_range *r, uintptr_t ptr, CUpointer_attribute which, uint64_t *value)
{
	bool vmm = r->kind == MEM_VMM, usable = !vmm || r->may_read;
	switch (which) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*value = vmm || r->async ? 0 : (uintptr_t)r->ctx; /* VMM and pool memory belong to no context */
		return true;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*value = device_kind(r) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
		return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *value = usable ? ptr : 0; return usable;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		*value = sim_kind_device(r->kind) ? 0 : ptr;
		return !sim_kind_device(r->kind);
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID: *value = r->id; return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *value = (uint64_t)r->dev->ordinal; return true;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED: *value = r->kind == MEM_MANAGED; return true;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *value = vmm ? r->va_base : r->base; return true;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *value = vmm ? r->va_size : sim_range_size(r); return true;
	case CU_POINTER_ATTRIBUTE_MAPPED: *value = 1; return true;
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: *value = r->base; return true;
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: *value = mapping_size(r); return true;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*value = r->kind == MEM_DEVICE && !r->async;
		return true;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		*value =
			(r->kind == MEM_DEVICE && !r->async) || (vmm && r->phys->prop.allocFlags.gpuDirectRDMACapable);
		return true;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*value = vmm && usable && !r->may_write ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
				 : usable                       ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
												: CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
		return true;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: *value = (uintptr_t)r->pool; return true;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: *value = r->kind == MEM_MANAGED || r->sync_memops; return true;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*value = vmm ? r->phys->prop.requestedHandleTypes : 0;
		return true;
	default: return false;
	}
}

/* Memory of cuMemAlloc: of it alone is there a per-pointer setting, and tokens. */
static bool plain(const struct sim_range *r)
{
	return r && r->kind == MEM_DEVICE && !r->async;
}

/* Whoever asks for them wants to read the memory behind the driver's back. */
static CUresult tokens(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS *out, CUdeviceptr ptr)
{
	sim_lock();
	struct sim_range *r = sim_range_live(ptr);
	bool ok = plain(r) && !r->imported;
	if (ok) {
		*out = (CUDA_POINTER_ATTRIBUTE_P2P_TOKENS){.p2pToken = r->id, .vaSpaceToken = 1};
		r->sync_memops = true;
	}
	sim_unlock();
	return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute which, CUdeviceptr ptr)
{
	SIM_ENTER(cuPointerGetAttribute, S_DEV);
	size_t size = attribute_size(which);
	if (!data || !size)
		return CUDA_ERROR_INVALID_VALUE;
	if (which == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
		return tokens(data, ptr);
	uint64_t value = 0;
	sim_lock();
	struct sim_range *r = sim_range_live(ptr);
	bool known = r && attribute(r, ptr, which, &value);
	sim_unlock();
	if (known || (r && size == 8)) /* the pointers are cleared when there is none */
		memcpy(data, &value, size < 8 ? size : 8);
	return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* What the plural call says of an address that is no memory of the driver's; false: it
 * leaves the answer alone. */
static bool unknown_address(uintptr_t ptr, CUpointer_attribute which, uint64_t *value)
{
	uintptr_t base;
	size_t size;
	bool reserved = sim_vmm_reserved(ptr, &base, &size);
	switch (which) {
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *value = (uint32_t)CU_DEVICE_INVALID; return true;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER: *value = ptr; return true;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *value = base; return reserved;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *value = size; return reserved;
	default: *value = 0; return true;
	}
}

/* Unlike in the singular call an unknown address is no error. */
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *which, void **data, CUdeviceptr ptr)
{
	SIM_ENTER(cuPointerGetAttributes, S_DEV);
	if (!count || !which || !data)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count; i++)
		if (!attribute_size(which[i]) || which[i] == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
			return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	struct sim_range *r = sim_range_live(ptr);
	for (unsigned i = 0; i < count; i++) {
		uint64_t value = 0;
		if (!r && !unknown_address(ptr, which[i], &value))
			continue;
		if (r && !attribute(r, ptr, which[i], &value))
			value = 0;
		memcpy(data[i], &value, attribute_size(which[i]));
	}
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute which, CUdeviceptr ptr)
{
	SIM_ENTER(cuPointerSetAttribute, S_CTX);
	if (!value || which != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	struct sim_range *r = sim_range_live(ptr);
	bool ok = plain(r);
	if (ok)
		r->sync_memops = *(const unsigned *)value != 0;
	if (ok && r->sync_memops)
		sim_ctx_drain(sim_current()); /* what is pending was to be synchronous */
	sim_unlock();
	return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

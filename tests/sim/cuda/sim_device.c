/*
 * sim_device.c - cuInit and questions about devices.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sim_internal.h"

#ifdef SIM_TSAN
#define VA_PER_DEVICE (64ull << 30) /* what ThreadSanitizer leaves for programs is narrow */
#else
#define VA_PER_DEVICE (1ull << 40)
#endif

/* Address space for device pointers: reserved, never accessible, so that a program that
 * dereferences a device pointer faults. A raw system call, because the sanitizers'
 * interceptors would set up shadow memory for all of it. */
static bool device_reserve(struct sim_device *dev)
{
	uint64_t span = VA_PER_DEVICE;
	while (span < sim_conf.mem_bytes * 16)
		span *= 2;
	long at = syscall(SYS_mmap, NULL, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L);
	if (at == -1)
		return false;
	dev->va_base = ((uintptr_t)at + SIM_GRANULARITY - 1) & ~(uintptr_t)(SIM_GRANULARITY - 1);
	dev->va_next = dev->va_base;
	dev->va_end = (uintptr_t)at + span;
	dev->arena = sim_arena_new();
	return dev->arena != NULL;
}

CUresult cuInit(unsigned int flags)
{
	SIM_ENTER(cuInit, S_ANY);
	if (sim_in_child())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (sim_conf.devices == 0)
		return CUDA_ERROR_NO_DEVICE;
	CUresult result = CUDA_SUCCESS;
	sim_resolve_check_self();
	sim_lock();
	for (int i = 0; !sim.inited && i < sim_conf.devices; i++) {
		sim.dev[i].ordinal = i;
		if (!device_reserve(&sim.dev[i]))
			result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (!sim.inited && result == CUDA_SUCCESS && !sim_account_join())
		result = CUDA_ERROR_OPERATING_SYSTEM;
	if (!sim.inited && result == CUDA_SUCCESS) {
		sim_entry_mark_process();
		__atomic_store_n(&sim.inited, true, __ATOMIC_RELEASE);
	}
	sim_unlock();
	return result;
}

CUresult cuDriverGetVersion(int *version)
{
	SIM_ENTER(cuDriverGetVersion, S_ANY);
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = sim_conf.version;
	return CUDA_SUCCESS;
}

struct sim_device *sim_device_get(CUdevice dev)
{
	return dev >= 0 && dev < sim_conf.devices ? &sim.dev[dev] : NULL;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	SIM_ENTER(cuDeviceGet, S_DEV);
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_get(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
	SIM_ENTER(cuDeviceGetCount, S_DEV);
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = sim_conf.devices;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
	SIM_ENTER(cuDeviceGetName, S_DEV);
	if (!sim_device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!name || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(name, (size_t)len, "Simulated GPU");
	return CUDA_SUCCESS;
}

static CUresult device_uuid(CUuuid *uuid, CUdevice dev)
{
	if (!sim_device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!uuid)
		return CUDA_ERROR_INVALID_VALUE;
	/* Tests that run side by side do not share a machine. */
	const char *machine = getenv("SIM_MACHINE");
	memset(uuid->bytes, 0x5a, sizeof uuid->bytes);
	if (machine)
		uuid->bytes[14] = (char)atoi(machine);
	uuid->bytes[15] = (char)dev;
	return CUDA_SUCCESS;
}
SIM_FN(cuDeviceGetUuid, S_DEV, (CUuuid * uuid, CUdevice dev), device_uuid(uuid, dev))
SIM_FN(cuDeviceGetUuid_v2, S_DEV, (CUuuid * uuid, CUdevice dev), device_uuid(uuid, dev))

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	SIM_ENTER(cuDeviceTotalMem_v2, S_DEV);
	if (!sim_device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	*bytes = sim_conf.mem_bytes;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *text, int len, CUdevice dev)
{
	SIM_ENTER(cuDeviceGetPCIBusId, S_DEV);
	if (!sim_device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!text || len < 13)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(text, (size_t)len, "0000:%02X:00.0", dev + 1);
	return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
	SIM_ENTER(cuDeviceComputeCapability, S_DEV);
	if (!sim_device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!major || !minor)
		return CUDA_ERROR_INVALID_VALUE;
	*major = 9;
	*minor = 0;
	return CUDA_SUCCESS;
}

/* What an H200 answers, where something may depend on it; 0 for the rest. */
static int attribute(CUdevice_attribute which, CUdevice dev)
{
	static const struct {
		CUdevice_attribute which;
		int value;
	} table[] = {
		{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
		{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
		{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
		{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
		{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff},
		{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
		{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
		{CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
		{CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
		{CU_DEVICE_ATTRIBUTE_MAX_PITCH, 0x7fffffff},
		{CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
		{CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
		{CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
		{CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
		{CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
		{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
		{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
		{CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
		{CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
		{CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
		{CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
		{CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
		{CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
		{CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
		{CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, 1},
		{CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
		{CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
		{CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
		{CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1},
		{CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 1},
		{CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 1},
		{CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 0},
		{CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
		{CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 60 << 20},
		{CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
	};
	if (which == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
		return dev + 1;
	if (which == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS)
		return sim_conf.hmm || sim_conf.ats;
	if (which == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES)
		return sim_conf.ats;
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
		if (table[i].which == which)
			return table[i].value;
	return 0;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice dev)
{
	SIM_ENTER(cuDeviceGetAttribute, S_DEV);
	if (!value || which <= 0 || which >= CU_DEVICE_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*value = attribute(which, dev);
	return CUDA_SUCCESS;
}

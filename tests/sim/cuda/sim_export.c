/*
 * sim_export.c - device memory as a file descriptor, for devices that reach it directly.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "sim_internal.h"

/* All of [ptr, ptr + size) is memory of one device that a dma-buf can be made of. Lock held. */
static struct sim_device *exportable(uintptr_t ptr, size_t size)
{
	struct sim_device *dev = NULL;
	for (uintptr_t at = ptr; at < ptr + size;) {
		struct sim_range *r = sim_range_live(at);
		bool plain = r && r->kind == MEM_DEVICE && !r->async && !r->imported;
		bool mapped = r && r->kind == MEM_VMM && r->phys->dev;
		if ((!plain && !mapped) || (dev && dev != r->dev))
			return NULL;
		dev = r->dev;
		/* What an allocation is rounded up to is its own. */
		at = r->base + (r->size + 4095) / 4096 * 4096;
		if (plain && at < ptr + size)
			return NULL;
	}
	return dev;
}

/* A descriptor of the device's memory: the simulator's file, not a dma-buf. */
CUresult cuMemGetHandleForAddressRange(void *out, CUdeviceptr ptr, size_t size, CUmemRangeHandleType type,
									   unsigned long long flags)
{
	SIM_ENTER(cuMemGetHandleForAddressRange, S_CTX);
	if (!out || !size || ptr % 4096 || size % 4096 || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD ||
		flags & ~(unsigned long long)CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	struct sim_device *dev = exportable(ptr, size);
	int from = dev ? sim_arena_fd(dev->arena) : -1;
	sim_unlock();
	if (!dev)
		return CUDA_ERROR_INVALID_VALUE;
	char path[64];
	snprintf(path, sizeof path, "/proc/self/fd/%d", from);
	int fd = open(path, O_RDWR | O_CLOEXEC); /* with an offset of its own */
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	*(int *)out = fd;
	return CUDA_SUCCESS;
}

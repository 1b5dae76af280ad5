/* device.c - see device.h. */
#include "device.h"

#include <string.h>

#include <cuda.h>

#include "real.h"

static uint32_t number(CUdevice_attribute which, CUdevice device)
{
	int value = 0;
	if (REAL(cuDeviceGetAttribute)(&value, which, device) != CUDA_SUCCESS || value < 0)
		value = 0;
	return (uint32_t)value;
}

static void describe(struct timeline_device *d, CUdevice device)
{
	CUuuid uuid;
	size_t bytes = 0;
	if (REAL(cuDeviceGetName)(d->name, (int)sizeof(d->name) - 1, device) != CUDA_SUCCESS)
		d->name[0] = '\0';
	if (REAL(cuDeviceTotalMem_v2)(&bytes, device) == CUDA_SUCCESS)
		d->memory_bytes = bytes;
	if (REAL(cuDeviceGetUuid_v2)(&uuid, device) == CUDA_SUCCESS)
		memcpy(d->uuid, uuid.bytes, sizeof(d->uuid));
	d->multiprocessors = number(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
	d->major = (uint16_t)number(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
	d->minor = (uint16_t)number(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
	d->warp = number(CU_DEVICE_ATTRIBUTE_WARP_SIZE, device);
	d->threads_a_block = number(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device);
	d->threads_a_multiprocessor = number(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device);
	d->registers_a_multiprocessor = number(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, device);
	d->shared_a_block = number(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, device);
	d->shared_a_multiprocessor = number(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, device);
}

uint32_t device_describe(struct timeline_device *device, uint32_t most)
{
	int count = 0;
	CUdevice handle;
	uint32_t i;
	if (REAL(cuDeviceGetCount)(&count) != CUDA_SUCCESS || count < 0)
		count = 0;
	for (i = 0; i < (uint32_t)count && i < most; i++) {
		memset(&device[i], 0, sizeof(device[i]));
		if (REAL(cuDeviceGet)(&handle, (int)i) == CUDA_SUCCESS)
			describe(&device[i], handle);
	}
	return i;
}

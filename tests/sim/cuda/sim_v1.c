/*
 * sim_v1.c - the 32-bit ABI of CUDA 2: exported, as in the real driver, and useless with
 * the contexts of today.
 */
#include "sim_internal.h"

#define OLD(sym, params)                   \
	CUresult sym params                    \
	{                                      \
		SIM_ENTER(sym, S_CTX);             \
		return CUDA_ERROR_INVALID_CONTEXT; \
	}

#pragma GCC diagnostic ignored "-Wunused-parameter"

OLD(cuMemGetInfo, (unsigned int *available, unsigned int *total))
OLD(cuMemAlloc, (CUdeviceptr_v1 * ptr, unsigned int n))
OLD(cuMemAllocPitch,
	(CUdeviceptr_v1 * ptr, unsigned int *pitch, unsigned int w, unsigned int h, unsigned int element))
OLD(cuMemFree, (CUdeviceptr_v1 ptr))
OLD(cuMemGetAddressRange, (CUdeviceptr_v1 * base, unsigned int *size, CUdeviceptr_v1 ptr))
OLD(cuMemAllocHost, (void **ptr, unsigned int n))
OLD(cuMemHostGetDevicePointer, (CUdeviceptr_v1 * out, void *ptr, unsigned int flags))
OLD(cuMemcpyHtoD, (CUdeviceptr_v1 dst, const void *src, unsigned int n))
OLD(cuMemcpyDtoH, (void *dst, CUdeviceptr_v1 src, unsigned int n))
OLD(cuMemcpyDtoD, (CUdeviceptr_v1 dst, CUdeviceptr_v1 src, unsigned int n))
OLD(cuMemcpyHtoDAsync, (CUdeviceptr_v1 dst, const void *src, unsigned int n, CUstream s))
OLD(cuMemcpyDtoHAsync, (void *dst, CUdeviceptr_v1 src, unsigned int n, CUstream s))
OLD(cuMemcpyDtoDAsync, (CUdeviceptr_v1 dst, CUdeviceptr_v1 src, unsigned int n, CUstream s))
OLD(cuMemcpy2D, (const CUDA_MEMCPY2D_v1 *c))
OLD(cuMemcpy2DUnaligned, (const CUDA_MEMCPY2D_v1 *c))
OLD(cuMemcpy2DAsync, (const CUDA_MEMCPY2D_v1 *c, CUstream s))
OLD(cuMemcpy3D, (const CUDA_MEMCPY3D_v1 *c))
OLD(cuMemcpy3DAsync, (const CUDA_MEMCPY3D_v1 *c, CUstream s))
OLD(cuMemsetD8, (CUdeviceptr_v1 dst, unsigned char v, unsigned int n))
OLD(cuMemsetD16, (CUdeviceptr_v1 dst, unsigned short v, unsigned int n))
OLD(cuMemsetD32, (CUdeviceptr_v1 dst, unsigned int v, unsigned int n))
OLD(cuMemsetD2D8, (CUdeviceptr_v1 dst, unsigned int pitch, unsigned char v, unsigned int w, unsigned int h))
OLD(cuMemsetD2D16, (CUdeviceptr_v1 dst, unsigned int pitch, unsigned short v, unsigned int w, unsigned int h))
OLD(cuMemsetD2D32, (CUdeviceptr_v1 dst, unsigned int pitch, unsigned int v, unsigned int w, unsigned int h))

CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice dev)
{
	SIM_ENTER(cuDeviceTotalMem, S_DEV);
	if (!sim_device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	*bytes = sim_conf.mem_bytes > UINT32_MAX ? UINT32_MAX : (unsigned int)sim_conf.mem_bytes;
	return CUDA_SUCCESS;
}

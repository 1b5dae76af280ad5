/*
 * simrt_driver.h - the driver functions of the tiny runtime: name, version, flags.
 *
 * DRIVER(member, symbol for the type, name, version, flags). Versions are those that
 * NVIDIA's runtime asks for.
 */
#ifndef SIMRT_DRIVER_H
#define SIMRT_DRIVER_H

#define __CUDA_API_VERSION_INTERNAL /* every symbol under its own name */
#include <cuda.h>

#define DRIVER_TABLE(DRIVER)                                                              \
	DRIVER(init, cuInit, "cuInit", 2000, 0)                                               \
	DRIVER(primary_retain, cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, 0) \
	DRIVER(ctx_set, cuCtxSetCurrent, "cuCtxSetCurrent", 4000, 0)                          \
	DRIVER(ctx_get, cuCtxGetCurrent, "cuCtxGetCurrent", 4000, 0)                          \
	DRIVER(ctx_sync, cuCtxSynchronize, "cuCtxSynchronize", 2000, 0)                       \
	DRIVER(alloc, cuMemAlloc_v2, "cuMemAlloc", 3020, 0)                                   \
	DRIVER(free, cuMemFree_v2, "cuMemFree", 3020, 0)                                      \
	DRIVER(host_alloc, cuMemHostAlloc, "cuMemHostAlloc", 2020, 0)                         \
	DRIVER(host_free, cuMemFreeHost, "cuMemFreeHost", 2000, 0)                            \
	DRIVER(host_register, cuMemHostRegister_v2, "cuMemHostRegister", 6050, 0)             \
	DRIVER(host_unregister, cuMemHostUnregister, "cuMemHostUnregister", 4000, 0)          \
	DRIVER(alloc_async, cuMemAllocAsync, "cuMemAllocAsync", 11020, 0)                     \
	DRIVER(free_async, cuMemFreeAsync, "cuMemFreeAsync", 11020, 0)                        \
	DRIVER(h2d, cuMemcpyHtoD_v2, "cuMemcpyHtoD", 3020, 0)                                 \
	DRIVER(d2h, cuMemcpyDtoH_v2, "cuMemcpyDtoH", 3020, 0)                                 \
	DRIVER(d2d, cuMemcpyDtoD_v2, "cuMemcpyDtoD", 3020, 0)                                 \
	DRIVER(copy, cuMemcpy, "cuMemcpy", 4000, 0)                                           \
	DRIVER(h2d_async, cuMemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync", 3020, 0)                 \
	DRIVER(d2h_async, cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync", 3020, 0)                 \
	DRIVER(d2d_async, cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync", 3020, 0)                 \
	DRIVER(copy_async, cuMemcpyAsync, "cuMemcpyAsync", 4000, 0)                           \
	DRIVER(h2d_ptds, cuMemcpyHtoD_v2_ptds, "cuMemcpyHtoD", 7000, 2)                       \
	DRIVER(d2h_ptds, cuMemcpyDtoH_v2_ptds, "cuMemcpyDtoH", 7000, 2)                       \
	DRIVER(d2d_ptds, cuMemcpyDtoD_v2_ptds, "cuMemcpyDtoD", 7000, 2)                       \
	DRIVER(copy_ptds, cuMemcpy_ptds, "cuMemcpy", 7000, 2)                                 \
	DRIVER(h2d_async_ptsz, cuMemcpyHtoDAsync_v2_ptsz, "cuMemcpyHtoDAsync", 7000, 2)       \
	DRIVER(d2h_async_ptsz, cuMemcpyDtoHAsync_v2_ptsz, "cuMemcpyDtoHAsync", 7000, 2)       \
	DRIVER(d2d_async_ptsz, cuMemcpyDtoDAsync_v2_ptsz, "cuMemcpyDtoDAsync", 7000, 2)       \
	DRIVER(copy_async_ptsz, cuMemcpyAsync_ptsz, "cuMemcpyAsync", 7000, 2)                 \
	DRIVER(memset8, cuMemsetD8_v2, "cuMemsetD8", 3020, 0)                                 \
	DRIVER(memset8_async, cuMemsetD8Async, "cuMemsetD8Async", 3020, 0)                    \
	DRIVER(stream_create, cuStreamCreate, "cuStreamCreate", 2000, 0)                      \
	DRIVER(stream_destroy, cuStreamDestroy_v2, "cuStreamDestroy", 4000, 0)                \
	DRIVER(stream_sync, cuStreamSynchronize, "cuStreamSynchronize", 2000, 0)              \
	DRIVER(stream_sync_ptsz, cuStreamSynchronize_ptsz, "cuStreamSynchronize", 7000, 2)    \
	DRIVER(stream_query, cuStreamQuery, "cuStreamQuery", 2000, 0)                         \
	DRIVER(stream_wait, cuStreamWaitEvent, "cuStreamWaitEvent", 3020, 0)                  \
	DRIVER(host_func, cuLaunchHostFunc, "cuLaunchHostFunc", 10000, 0)                     \
	DRIVER(event_create, cuEventCreate, "cuEventCreate", 2000, 0)                         \
	DRIVER(event_destroy, cuEventDestroy_v2, "cuEventDestroy", 4000, 0)                   \
	DRIVER(event_record, cuEventRecordWithFlags, "cuEventRecordWithFlags", 11010, 0)      \
	DRIVER(event_query, cuEventQuery, "cuEventQuery", 2000, 0)                            \
	DRIVER(event_sync, cuEventSynchronize, "cuEventSynchronize", 2000, 0)                 \
	DRIVER(module_load, cuModuleLoadData, "cuModuleLoadData", 2000, 0)                    \
	DRIVER(module_function, cuModuleGetFunction, "cuModuleGetFunction", 2000, 0)          \
	DRIVER(launch, cuLaunchKernel, "cuLaunchKernel", 4000, 0)                             \
	DRIVER(launch_ex, cuLaunchKernelEx, "cuLaunchKernelEx", 11060, 0)

#endif

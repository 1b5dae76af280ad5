/*
 * cuda_dl.h - the driver API by dlopen, for programs that run on a real GPU.
 *
 * The programs here are built where there is no driver and must say "no GPU"
 * rather than fail to start, so nothing links with libcuda. Every symbol keeps
 * its exact name, ABI suffix included: cu.cuMemcpyHtoD_v2_ptds(...).
 */
#ifndef TURBO_TEST_CUDA_DL_H
#define TURBO_TEST_CUDA_DL_H

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL /* cuda.h then renames nothing */
#endif
#include <cuda.h>

/* clang-format off */
#define CUDA_DL_FUNCTIONS(X) \
	X(cuInit) X(cuDriverGetVersion) X(cuDeviceGet) X(cuDeviceGetCount) X(cuDeviceGetName) \
	X(cuDeviceGetAttribute) X(cuGetErrorName) \
	X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease_v2) X(cuDevicePrimaryCtxReset_v2) \
	X(cuCtxCreate_v2) X(cuCtxDestroy_v2) X(cuCtxSetCurrent) X(cuCtxGetCurrent) X(cuCtxSynchronize) \
	X(cuCtxGetId) X(cuCtxRecordEvent) X(cuCtxGetDevice) \
	X(cuMemAlloc_v2) X(cuMemFree_v2) X(cuMemHostAlloc) X(cuMemFreeHost) X(cuMemHostGetDevicePointer_v2) \
	X(cuMemHostRegister_v2) X(cuMemHostUnregister) X(cuMemAllocManaged) \
	X(cuMemAllocAsync) X(cuMemFreeAsync) X(cuMemGetAddressRange_v2) X(cuMemGetInfo_v2) \
	X(cuPointerGetAttribute) X(cuPointerGetAttributes) \
	X(cuMemcpyHtoD_v2) X(cuMemcpyDtoH_v2) X(cuMemcpyHtoD_v2_ptds) X(cuMemcpyDtoH_v2_ptds) \
	X(cuMemcpyHtoDAsync_v2) X(cuMemcpyDtoHAsync_v2) X(cuMemcpyHtoDAsync_v2_ptsz) \
	X(cuMemcpyDtoHAsync_v2_ptsz) X(cuMemcpyDtoD_v2) X(cuMemcpyDtoDAsync_v2) \
	X(cuMemcpy) X(cuMemcpy_ptds) X(cuMemcpyAsync) X(cuMemcpyAsync_ptsz) X(cuMemsetD8_v2) \
	X(cuStreamCreate) X(cuStreamDestroy_v2) X(cuStreamSynchronize) X(cuStreamSynchronize_ptsz) \
	X(cuStreamQuery) X(cuStreamWaitEvent) X(cuStreamWaitValue32_v2) X(cuStreamIsCapturing) \
	X(cuStreamBeginCapture_v2) X(cuStreamEndCapture) X(cuThreadExchangeStreamCaptureMode) \
	X(cuEventCreate) X(cuEventDestroy_v2) X(cuEventRecord) X(cuEventQuery) X(cuEventSynchronize) \
	X(cuIpcGetEventHandle) X(cuIpcOpenEventHandle) X(cuStreamGetId) \
	X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction) X(cuLaunchKernel) X(cuLaunchKernel_ptsz) \
	X(cuLaunchHostFunc) X(cuGraphInstantiateWithFlags) X(cuGraphLaunch) X(cuGraphExecDestroy) \
	X(cuGraphDestroy) X(cuGetProcAddress_v2) X(cuCtxPushCurrent_v2) X(cuCtxPopCurrent_v2) \
	X(cuCtxEnablePeerAccess) X(cuMemAllocHost_v2) X(cuMemcpyPeer) X(cuMemcpyPeerAsync) X(cuMemcpy2D_v2) \
	X(cuMemsetD32Async) X(cuStreamAddCallback) X(cuStreamWriteValue32_v2) X(cuStreamWaitEvent_ptsz) \
	X(cuStreamQuery_ptsz) X(cuStreamGetCtx) X(cuEventRecord_ptsz) X(cuLaunchHostFunc_ptsz) \
	X(cuStreamBeginCapture) X(cuStreamBeginCapture_v2_ptsz) X(cuStreamEndCapture_ptsz) \
	X(cuDevicePrimaryCtxGetState) X(cuDeviceTotalMem_v2) \
	X(cuMemAllocPitch_v2) X(cuPointerSetAttribute) X(cuIpcGetMemHandle) X(cuIpcOpenMemHandle_v2) \
	X(cuIpcCloseMemHandle) X(cuMemAllocFromPoolAsync) X(cuMemAllocAsync_ptsz) X(cuMemFreeAsync_ptsz) \
	X(cuMemPoolCreate) X(cuMemPoolDestroy) X(cuMemPoolTrimTo) X(cuMemPoolSetAttribute) \
	X(cuMemPoolGetAttribute) X(cuDeviceGetDefaultMemPool) X(cuGraphGetNodes) X(cuGraphNodeGetType) \
	X(cuMemCreate) X(cuMemRelease) X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemMap) X(cuMemUnmap) \
	X(cuMemSetAccess) X(cuDeviceGetMemPool) X(cuDeviceSetMemPool) X(cuMemPoolGetAccess) X(cuMemPoolSetAccess) \
	X(cuMemPoolExportPointer) X(cuMemAllocFromPoolAsync_ptsz) X(cuDeviceGetDevResource) \
	X(cuDevResourceGenerateDesc) X(cuGreenCtxCreate) X(cuGreenCtxDestroy) X(cuCtxFromGreenCtx) \
	X(cuMemHostGetFlags)
/* clang-format on */

struct cuda_dl {
#define CUDA_DL_MEMBER(f) __typeof__(&f) f;
	CUDA_DL_FUNCTIONS(CUDA_DL_MEMBER)
#undef CUDA_DL_MEMBER
};

/* Filled by cuda_dl_open(), constant afterwards. A function the driver lacks is NULL. */
extern struct cuda_dl cu;

/*
 * Loads libcuda.so.1, fills `cu`, calls cuInit and looks for a device. Returns
 * NULL, or one sentence why there is nothing to run on (no driver, no device).
 */
const char *cuda_dl_open(void);

/* "CUDA_ERROR_INVALID_VALUE" and so on; a literal, never NULL. */
const char *cuda_dl_error(CUresult r);

#endif

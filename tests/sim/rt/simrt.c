/*
 * simrt.c - the tiny runtime (simrt.h).
 */
#include "simrt.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "simrt_driver.h"

#include "../cuda/sim_trace.h"

#undef cuGetProcAddress_v2 /* cuda.h makes it the name of an inline wrapper */

#define MAX_DEVICES 16

static struct {
#define DRIVER(member, symbol, name, version, flags) __typeof__(&symbol) member;
	DRIVER_TABLE(DRIVER)
#undef DRIVER
} drv;

/* What the thread's newest driver call answered. */
static __thread int last;

/* An older driver lacks the function: the call answers as a missing feature. */
#define CALL(member, ...) (last = drv.member ? (int)drv.member(__VA_ARGS__) : (int)CUDA_ERROR_NOT_SUPPORTED)
/* First in each function: the runtime's name of it, as a profiler knows it, and a context. */
#define READY(name)                                                                    \
	struct sim_call call_ __attribute__((cleanup(profiled_leave))) = {.tracer = NULL}; \
	int ready_ = rtInit();                                                             \
	if (!ready_ && profiled_enter)                                                     \
		profiled_enter(&call_, name);                                                  \
	ready_ = ready_ ? ready_ : thread_ready();                                         \
	if (ready_)                                                                        \
	return ready_

static __typeof__(&cuGetProcAddress_v2) resolver;
/* The simulated driver tells its profiler of runtime calls; NULL in a real one. */
static __typeof__(&sim_trace_runtime_enter) profiled_enter;
static __typeof__(&sim_trace_runtime_leave) profiled_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int init_result;
static CUmodule module;
static CUcontext primary[MAX_DEVICES]; /* guarded by lock; retained once */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void *rtDriver(const char *name, int version, uint64_t flags)
{
	void *fn = NULL;
	return resolver && resolver(name, &fn, version, flags, NULL) == CUDA_SUCCESS ? fn : NULL;
}

static void init(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (driver)
		resolver = (__typeof__(resolver))dlsym(driver, "cuGetProcAddress_v2");
	if (driver) {
		profiled_end = (__typeof__(profiled_end))dlsym(driver, "sim_trace_runtime_leave");
		profiled_enter = (__typeof__(profiled_enter))dlsym(driver, "sim_trace_runtime_enter");
	}
	if (!resolver) {
		init_result = CUDA_ERROR_NOT_FOUND;
		return;
	}
	rtDriver("", 0, 0);
#define DRIVER(member, symbol, name, version, flags) \
	drv.member = (__typeof__(drv.member))rtDriver(name, version, flags);
	DRIVER_TABLE(DRIVER)
#undef DRIVER
	init_result = CALL(init, 0);
}

int rtInit(void)
{
	pthread_once(&once, init);
	return init_result;
}

int rtSetDevice(int device)
{
	int result = rtInit();
	if (result)
		return result;
	if (device < 0 || device >= MAX_DEVICES)
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	if (!primary[device])
		result = CALL(primary_retain, &primary[device], device);
	CUcontext ctx = primary[device];
	pthread_mutex_unlock(&lock);
	return result ? result : CALL(ctx_set, ctx);
}

static void profiled_leave(struct sim_call *call)
{
	if (call->tracer)
		profiled_end(call, last);
}

static int thread_ready(void)
{
	CUcontext ctx = NULL;
	int result = rtInit();
	if (!result)
		result = CALL(ctx_get, &ctx);
	return result || ctx ? result : rtSetDevice(0);
}

int rtDeviceSynchronize(void)
{
	READY("cudaDeviceSynchronize_v3020");
	return CALL(ctx_sync);
}

int rtMalloc(void **ptr, size_t n)
{
	READY("cudaMalloc_v3020");
	CUdeviceptr at = 0;
	int result = CALL(alloc, &at, n);
	*ptr = (void *)at;
	return result;
}

int rtFree(void *ptr)
{
	READY("cudaFree_v3020");
	return CALL(free, (CUdeviceptr)ptr);
}

int rtMallocHost(void **ptr, size_t n)
{
	READY("cudaMallocHost_v3020");
	return CALL(host_alloc, ptr, n, 0);
}

int rtFreeHost(void *ptr)
{
	READY("cudaFreeHost_v3020");
	return CALL(host_free, ptr);
}

int rtHostRegister(void *ptr, size_t n)
{
	READY("cudaHostRegister_v4000");
	return CALL(host_register, ptr, n, 0);
}

int rtHostUnregister(void *ptr)
{
	READY("cudaHostUnregister_v4000");
	return CALL(host_unregister, ptr);
}

int rtMallocAsync(void **ptr, size_t n, void *stream)
{
	READY("cudaMallocAsync_v11020");
	CUdeviceptr at = 0;
	int result = CALL(alloc_async, &at, n, stream);
	*ptr = (void *)at;
	return result;
}

int rtFreeAsync(void *ptr, void *stream)
{
	READY("cudaFreeAsync_v11020");
	return CALL(free_async, (CUdeviceptr)ptr, stream);
}

/* ---- copies: the runtime picks the driver call by kind ---- */

#define COPY(suffix, name)                                  \
	READY(name);                                            \
	CUdeviceptr d = (CUdeviceptr)dst, s = (CUdeviceptr)src; \
	switch (kind) {                                         \
	case RT_H2D: return CALL(h2d##suffix, d, src, n);       \
	case RT_D2H: return CALL(d2h##suffix, dst, s, n);       \
	case RT_D2D: return CALL(d2d##suffix, d, s, n);         \
	default: return CALL(copy##suffix, d, s, n);            \
	}
#define COPY_ASYNC(suffix, name)                              \
	READY(name);                                              \
	CUdeviceptr d = (CUdeviceptr)dst, s = (CUdeviceptr)src;   \
	switch (kind) {                                           \
	case RT_H2D: return CALL(h2d##suffix, d, src, n, stream); \
	case RT_D2H: return CALL(d2h##suffix, dst, s, n, stream); \
	case RT_D2D: return CALL(d2d##suffix, d, s, n, stream);   \
	default: return CALL(copy##suffix, d, s, n, stream);      \
	}

int rtMemcpy(void *dst, const void *src, size_t n, int kind)
{
	COPY(, "cudaMemcpy_v3020")
}
int rtMemcpy_ptds(void *dst, const void *src, size_t n, int kind)
{
	COPY(_ptds, "cudaMemcpy_ptds_v7000")
}
int rtMemcpyAsync(void *dst, const void *src, size_t n, int kind, void *stream)
{
	COPY_ASYNC(_async, "cudaMemcpyAsync_v3020")
}
int rtMemcpyAsync_ptsz(void *dst, const void *src, size_t n, int kind, void *stream)
{
	COPY_ASYNC(_async_ptsz, "cudaMemcpyAsync_ptsz_v7000")
}

int rtMemset(void *dst, int value, size_t n)
{
	READY("cudaMemset_v3020");
	return CALL(memset8, (CUdeviceptr)dst, (unsigned char)value, n);
}

int rtMemsetAsync(void *dst, int value, size_t n, void *stream)
{
	READY("cudaMemsetAsync_v3020");
	return CALL(memset8_async, (CUdeviceptr)dst, (unsigned char)value, n, stream);
}

/* ---- streams and events ---- */

int rtStreamCreateWithFlags(void **stream, unsigned flags)
{
	READY("cudaStreamCreateWithFlags_v5000");
	return CALL(stream_create, (CUstream *)stream, flags);
}

int rtStreamCreate(void **stream)
{
	return rtStreamCreateWithFlags(stream, 0);
}

#define SIMPLE(function, name, params, ...) \
	int function params                     \
	{                                       \
		READY(name);                        \
		return CALL(__VA_ARGS__);           \
	}
SIMPLE(rtStreamDestroy, "cudaStreamDestroy_v5050", (void *stream), stream_destroy, stream)
SIMPLE(rtStreamSynchronize, "cudaStreamSynchronize_v3020", (void *stream), stream_sync, stream)
SIMPLE(rtStreamSynchronize_ptsz, "cudaStreamSynchronize_ptsz_v7000", (void *stream), stream_sync_ptsz, stream)
SIMPLE(rtStreamQuery, "cudaStreamQuery_v3020", (void *stream), stream_query, stream)
SIMPLE(rtStreamWaitEvent, "cudaStreamWaitEvent_v3020", (void *stream, void *event), stream_wait, stream,
	   event, 0)
SIMPLE(rtLaunchHostFunc, "cudaLaunchHostFunc_v10000", (void *stream, void (*fn)(void *), void *user),
	   host_func, stream, fn, user)
SIMPLE(rtEventCreate, "cudaEventCreateWithFlags_v3020", (void **event, unsigned flags), event_create,
	   (CUevent *)event, flags)
SIMPLE(rtEventDestroy, "cudaEventDestroy_v3020", (void *event), event_destroy, event)
SIMPLE(rtEventRecord, "cudaEventRecord_v3020", (void *event, void *stream), event_record, event, stream, 0)
SIMPLE(rtEventQuery, "cudaEventQuery_v3020", (void *event), event_query, event)
SIMPLE(rtEventSynchronize, "cudaEventSynchronize_v3020", (void *event), event_sync, event)

/* ---- kernels ---- */

int rtLoad(const void *image)
{
	READY("cudaLibraryLoadData_v12060");
	pthread_mutex_lock(&lock);
	int result = module ? 0 : CALL(module_load, &module, image);
	pthread_mutex_unlock(&lock);
	return result;
}

static int find_kernel(const char *name, CUfunction *f)
{
	pthread_mutex_lock(&lock);
	CUmodule m = module;
	pthread_mutex_unlock(&lock);
	return m ? CALL(module_function, f, m, name) : (int)CUDA_ERROR_NOT_INITIALIZED;
}

int rtLaunch(const char *kernel, unsigned blocks, void *stream, void **args)
{
	READY("cudaLaunchKernel_v7000");
	CUfunction f;
	int result = find_kernel(kernel, &f);
	return result ? result : CALL(launch, f, blocks, 1, 1, 256, 1, 1, 0, stream, args, NULL);
}

int rtLaunchEx(const char *kernel, unsigned blocks, void *stream, void **args)
{
	READY("cudaLaunchKernelExC_v11060");
	CUfunction f;
	int result = find_kernel(kernel, &f);
	CUlaunchConfig config;
	memset(&config, 0, sizeof config);
	config.gridDimX = blocks;
	config.gridDimY = config.gridDimZ = 1;
	config.blockDimX = 256;
	config.blockDimY = config.blockDimZ = 1;
	config.hStream = stream;
	return result ? result : CALL(launch_ex, &config, f, args, NULL);
}

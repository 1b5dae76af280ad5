/*
 * simrt.c - the tiny runtime (simrt.h).
 */
#include "simrt.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "simrt_driver.h"

#undef cuGetProcAddress_v2 /* cuda.h makes it the name of an inline wrapper */

#define MAX_DEVICES 16

static struct {
#define DRIVER(member, symbol, name, version, flags) __typeof__(&symbol) member;
	DRIVER_TABLE(DRIVER)
#undef DRIVER
} drv;

/* An older driver lacks the function: the call answers as a missing feature. */
#define CALL(member, ...) (drv.member ? (int)drv.member(__VA_ARGS__) : (int)CUDA_ERROR_NOT_SUPPORTED)
#define READY()                      \
	do {                             \
		int ready_ = thread_ready(); \
		if (ready_)                  \
			return ready_;           \
	} while (0)

static __typeof__(&cuGetProcAddress_v2) resolver;
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
	READY();
	return CALL(ctx_sync);
}

int rtMalloc(void **ptr, size_t n)
{
	READY();
	CUdeviceptr at = 0;
	int result = CALL(alloc, &at, n);
	*ptr = (void *)at;
	return result;
}

int rtFree(void *ptr)
{
	READY();
	return CALL(free, (CUdeviceptr)ptr);
}

int rtMallocHost(void **ptr, size_t n)
{
	READY();
	return CALL(host_alloc, ptr, n, 0);
}

int rtFreeHost(void *ptr)
{
	READY();
	return CALL(host_free, ptr);
}

int rtHostRegister(void *ptr, size_t n)
{
	READY();
	return CALL(host_register, ptr, n, 0);
}

int rtHostUnregister(void *ptr)
{
	READY();
	return CALL(host_unregister, ptr);
}

int rtMallocAsync(void **ptr, size_t n, void *stream)
{
	READY();
	CUdeviceptr at = 0;
	int result = CALL(alloc_async, &at, n, stream);
	*ptr = (void *)at;
	return result;
}

int rtFreeAsync(void *ptr, void *stream)
{
	READY();
	return CALL(free_async, (CUdeviceptr)ptr, stream);
}

/* ---- copies: the runtime picks the driver call by kind ---- */

#define COPY(suffix)                                        \
	READY();                                                \
	CUdeviceptr d = (CUdeviceptr)dst, s = (CUdeviceptr)src; \
	switch (kind) {                                         \
	case RT_H2D: return CALL(h2d##suffix, d, src, n);       \
	case RT_D2H: return CALL(d2h##suffix, dst, s, n);       \
	case RT_D2D: return CALL(d2d##suffix, d, s, n);         \
	default: return CALL(copy##suffix, d, s, n);            \
	}
#define COPY_ASYNC(suffix)                                    \
	READY();                                                  \
	CUdeviceptr d = (CUdeviceptr)dst, s = (CUdeviceptr)src;   \
	switch (kind) {                                           \
	case RT_H2D: return CALL(h2d##suffix, d, src, n, stream); \
	case RT_D2H: return CALL(d2h##suffix, dst, s, n, stream); \
	case RT_D2D: return CALL(d2d##suffix, d, s, n, stream);   \
	default: return CALL(copy##suffix, d, s, n, stream);      \
	}

int rtMemcpy(void *dst, const void *src, size_t n, int kind)
{
	COPY()
}
int rtMemcpy_ptds(void *dst, const void *src, size_t n, int kind)
{
	COPY(_ptds)
}
int rtMemcpyAsync(void *dst, const void *src, size_t n, int kind, void *stream)
{
	COPY_ASYNC(_async)
}
int rtMemcpyAsync_ptsz(void *dst, const void *src, size_t n, int kind, void *stream)
{
	COPY_ASYNC(_async_ptsz)
}

int rtMemset(void *dst, int value, size_t n)
{
	READY();
	return CALL(memset8, (CUdeviceptr)dst, (unsigned char)value, n);
}

int rtMemsetAsync(void *dst, int value, size_t n, void *stream)
{
	READY();
	return CALL(memset8_async, (CUdeviceptr)dst, (unsigned char)value, n, stream);
}

/* ---- streams and events ---- */

int rtStreamCreateWithFlags(void **stream, unsigned flags)
{
	READY();
	return CALL(stream_create, (CUstream *)stream, flags);
}

int rtStreamCreate(void **stream)
{
	return rtStreamCreateWithFlags(stream, 0);
}

#define SIMPLE(function, params, ...) \
	int function params               \
	{                                 \
		READY();                      \
		return CALL(__VA_ARGS__);     \
	}
SIMPLE(rtStreamDestroy, (void *stream), stream_destroy, stream)
SIMPLE(rtStreamSynchronize, (void *stream), stream_sync, stream)
SIMPLE(rtStreamSynchronize_ptsz, (void *stream), stream_sync_ptsz, stream)
SIMPLE(rtStreamQuery, (void *stream), stream_query, stream)
SIMPLE(rtStreamWaitEvent, (void *stream, void *event), stream_wait, stream, event, 0)
SIMPLE(rtLaunchHostFunc, (void *stream, void (*fn)(void *), void *user), host_func, stream, fn, user)
SIMPLE(rtEventCreate, (void **event, unsigned flags), event_create, (CUevent *)event, flags)
SIMPLE(rtEventDestroy, (void *event), event_destroy, event)
SIMPLE(rtEventRecord, (void *event, void *stream), event_record, event, stream, 0)
SIMPLE(rtEventQuery, (void *event), event_query, event)
SIMPLE(rtEventSynchronize, (void *event), event_sync, event)

/* ---- kernels ---- */

int rtLoad(const void *image)
{
	READY();
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
	READY();
	CUfunction f;
	int result = find_kernel(kernel, &f);
	return result ? result : CALL(launch, f, blocks, 1, 1, 256, 1, 1, 0, stream, args, NULL);
}

int rtLaunchEx(const char *kernel, unsigned blocks, void *stream, void **args)
{
	READY();
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

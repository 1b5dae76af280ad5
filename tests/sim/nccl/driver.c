/*
 * driver.c - the simulated driver, found as NCCL's runtime finds it.
 */
#include <dlfcn.h>
#include <stddef.h>

#include "internal.h"

struct driver dr;

#define DEVICES 16
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool ready; /* atomic; release: dr is there */
static struct {
	CUcontext ctx;
	CUfunction kernel[F_COUNT];
} device[DEVICES]; /* lock */

const char *const func_name[F_COUNT] = {
	[F_ALLGATHER] = "AllGather", [F_ALLREDUCE] = "AllReduce", [F_REDUCESCATTER] = "ReduceScatter",
	[F_REDUCE] = "Reduce",       [F_BROADCAST] = "Broadcast", [F_ALLTOALL] = "AlltoAll",
	[F_GATHER] = "Gather",       [F_SCATTER] = "Scatter",     [F_SEND] = "Send",
	[F_RECV] = "Recv",
};

/* Those of 2.28 that are made of sends and receives run as such. */
static const char *const kernel_name[F_COUNT] = {
	[F_ALLGATHER] = "ncclDevKernel_AllGather_RING_LL",
	[F_ALLREDUCE] = "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
	[F_REDUCESCATTER] = "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL",
	[F_REDUCE] = "ncclDevKernel_Reduce_Sum_f32_RING_LL",
	[F_BROADCAST] = "ncclDevKernel_Broadcast_RING_LL",
	[F_ALLTOALL] = "ncclDevKernel_SendRecv",
	[F_GATHER] = "ncclDevKernel_SendRecv",
	[F_SCATTER] = "ncclDevKernel_SendRecv",
	[F_SEND] = "ncclDevKernel_SendRecv",
	[F_RECV] = "ncclDevKernel_SendRecv",
};

typedef CUresult get_proc_fn(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static bool find_all(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	get_proc_fn *get = lib ? (get_proc_fn *)dlsym(lib, "cuGetProcAddress_v2") : NULL;
	if (!get)
		return false;
	dr.load = (int (*)(void *, uint64_t, size_t))dlsym(lib, "sim_device_load");
	dr.store = (int (*)(uint64_t, const void *, size_t))dlsym(lib, "sim_device_store");
	bool ok = dr.load && dr.store;
	const struct {
		const char *name;
		void **at;
		int version;
	} wanted[] = {
#define D(symbol, name, version) {#name, (void **)&dr.symbol, version},
		DRIVER_FUNCTIONS(D)
#undef D
	};
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		ok = get(wanted[i].name, wanted[i].at, wanted[i].version, 0, NULL) == CUDA_SUCCESS && *wanted[i].at &&
			 ok;
	return ok && dr.cuInit(0) == CUDA_SUCCESS;
}

ncclResult_t driver_ready(void)
{
	if (__atomic_load_n(&ready, __ATOMIC_ACQUIRE))
		return ncclSuccess;
	pthread_mutex_lock(&lock);
	bool ok = ready || find_all();
	__atomic_store_n(&ready, ok, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&lock);
	if (ok)
		return ncclSuccess;
	set_last_error("no (simulated) driver, or no device");
	return ncclUnhandledCudaError;
}

static bool device_load(CUdevice dev)
{
	CUmodule module;
	CUcontext before = NULL;
	if (dr.cuDevicePrimaryCtxRetain(&device[dev].ctx, dev) || dr.cuCtxGetCurrent(&before) ||
		dr.cuCtxSetCurrent(device[dev].ctx))
		return false;
	bool ok = dr.cuModuleLoadData(&module, "nccl") == CUDA_SUCCESS;
	for (int i = 0; i < F_COUNT; i++)
		ok = ok && !dr.cuModuleGetFunction(&device[dev].kernel[i], module, kernel_name[i]);
	dr.cuCtxSetCurrent(before);
	return ok;
}

ncclResult_t device_context(CUdevice dev, CUcontext *ctx)
{
	if (dev < 0 || dev >= DEVICES)
		return ncclInvalidArgument;
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	dr.cuThreadExchangeStreamCaptureMode(&mode);
	pthread_mutex_lock(&lock);
	if (!device[dev].ctx && !device_load(dev))
		device[dev].ctx = NULL;
	*ctx = device[dev].ctx;
	pthread_mutex_unlock(&lock);
	dr.cuThreadExchangeStreamCaptureMode(&mode);
	return *ctx ? ncclSuccess : ncclUnhandledCudaError;
}

CUfunction kernel_of(const struct comm *c, enum func func)
{
	pthread_mutex_lock(&lock);
	CUfunction f = device[c->dev].kernel[func];
	pthread_mutex_unlock(&lock);
	return f;
}

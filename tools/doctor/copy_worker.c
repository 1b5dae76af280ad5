/*
 * copy_worker.c - `turbo doctor --worker copies`: measures copies in this process, bare or with libturbo preloaded, and says so
 * in lines on stdout that bandwidth.c reads.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <cuda.h>

#include "doctor.h"

#define BYTES_MOST ((size_t)256 << 20)
#define BYTES_LEAST ((size_t)1 << 20)
#define ROUNDS 4 /* the best counts; the first warms up */
#define DEVICES 16

#define CALLS(X)                                            \
	X(cuInit, (unsigned))                                   \
	X(cuDriverGetVersion, (int *))                          \
	X(cuGetErrorName, (CUresult, const char **))            \
	X(cuDeviceGetCount, (int *))                            \
	X(cuDeviceGet, (CUdevice *, int))                       \
	X(cuDeviceGetName, (char *, int, CUdevice))             \
	X(cuDeviceGetPCIBusId, (char *, int, CUdevice))         \
	X(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))    \
	X(cuCtxSetCurrent, (CUcontext))                         \
	X(cuCtxSynchronize, (void))                             \
	X(cuMemGetInfo_v2, (size_t *, size_t *))                \
	X(cuMemAlloc_v2, (CUdeviceptr *, size_t))               \
	X(cuMemFree_v2, (CUdeviceptr))                          \
	X(cuMemHostAlloc, (void **, size_t, unsigned))          \
	X(cuMemFreeHost, (void *))                              \
	X(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t)) \
	X(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t))

struct calls {
#define X(name, arguments) CUresult(*name) arguments;
	CALLS(X)
#undef X
};

static struct calls cu;

static bool load(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	if (!lib) {
		printf("none\t%s\n", dlerror());
		return false;
	}
#define X(name, arguments)                               \
	cu.name = (__typeof__(cu.name))dlsym(lib, #name);    \
	if (!cu.name) {                                      \
		printf("none\tlibcuda.so.1 has no " #name "\n"); \
		return false;                                    \
	}
	CALLS(X)
#undef X
	return true;
}

static bool good(CUresult r, const char *call)
{
	const char *name = NULL;
	if (r == CUDA_SUCCESS)
		return true;
	if (cu.cuGetErrorName(r, &name) != CUDA_SUCCESS || !name)
		name = "unknown error";
	printf("error\t%s\t%d\t%s\n", call, (int)r, name);
	return false;
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* GB/s of the best round; 0: it failed, which has been said. */
static double measure(bool to_device, CUdeviceptr device, void *host, size_t bytes)
{
	double best = 0;
	for (int i = 0; i < ROUNDS; i++) {
		double start = now();
		CUresult r =
			to_device ? cu.cuMemcpyHtoD_v2(device, host, bytes) : cu.cuMemcpyDtoH_v2(host, device, bytes);
		if (r == CUDA_SUCCESS && to_device)
			r = cu.cuCtxSynchronize();
		double rate = (double)bytes / (now() - start) / 1e9;
		if (!good(r, to_device ? "cuMemcpyHtoD" : "cuMemcpyDtoH"))
			return 0;
		best = i && rate > best ? rate : best;
	}
	return best;
}

static void measure_with(int index, const char *kind, CUdeviceptr device, void *host, size_t bytes)
{
	for (int to = 1; to >= 0; to--) {
		double rate = measure(to, device, host, bytes);
		if (rate > 0)
			printf("rate\t%d\t%s\t%s\t%.3f\n", index, kind, to ? "to" : "from", rate);
	}
}

static void one_device(int index, bool pageable_only)
{
	CUdevice dev;
	CUcontext ctx;
	CUdeviceptr device;
	size_t available = 0, total = 0, bytes = BYTES_MOST;
	char name[128] = "", bus[64] = "";
	void *pinned = NULL;
	if (!good(cu.cuDeviceGet(&dev, index), "cuDeviceGet"))
		return;
	cu.cuDeviceGetName(name, sizeof(name), dev);
	cu.cuDeviceGetPCIBusId(bus, sizeof(bus), dev);
	printf("device\t%d\t%s\t%s\n", index, bus, name);
	if (!good(cu.cuDevicePrimaryCtxRetain(&ctx, dev), "cuDevicePrimaryCtxRetain") ||
		!good(cu.cuCtxSetCurrent(ctx), "cuCtxSetCurrent") ||
		!good(cu.cuMemGetInfo_v2(&available, &total), "cuMemGetInfo"))
		return;
	while (bytes > BYTES_LEAST && bytes * 4 > available)
		bytes /= 2;
	if (!good(cu.cuMemAlloc_v2(&device, bytes), "cuMemAlloc"))
		return;
	if (!pageable_only && good(cu.cuMemHostAlloc(&pinned, bytes, 0), "cuMemHostAlloc")) {
		memset(pinned, 1, bytes);
		measure_with(index, "pinned", device, pinned, bytes);
		cu.cuMemFreeHost(pinned);
	}
	void *plain = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (plain != MAP_FAILED) {
		memset(plain, 1, bytes);
		measure_with(index, "pageable", device, plain, bytes);
		munmap(plain, bytes);
	}
	cu.cuMemFree_v2(device);
}

static int copies(bool pageable_only)
{
	int version = 0, count = 0;
	double start = now();
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!load())
		return 0;
	if (cu.cuDriverGetVersion(&version) == CUDA_SUCCESS)
		printf("version\t%d\n", version);
	if (!good(cu.cuInit(0), "cuInit") || !good(cu.cuDeviceGetCount(&count), "cuDeviceGetCount"))
		return 0;
	for (int i = 0; i < count && i < DEVICES; i++) {
		CUcontext ctx;
		if (i == 0 && cu.cuDevicePrimaryCtxRetain(&ctx, 0) == CUDA_SUCCESS)
			printf("start\t%.3f\t%d\n", now() - start, count);
		one_device(i, pageable_only);
	}
	return 0;
}

static void each_library(void)
{
	char line[4096];
	FILE *f = fopen("/proc/self/maps", "re");
	while (f && fgets(line, sizeof(line), f)) {
		char *path = strchr(line, '/');
		if (path && strstr(path, "libturbo.so")) {
			printf("loaded\t%s", path);
			break;
		}
	}
	if (f)
		fclose(f);
}

int doctor_worker(const char *what)
{
	if (!strcmp(what, "copies"))
		return copies(false);
	if (!strcmp(what, "staged"))
		return copies(true);
	if (!strcmp(what, "loaded"))
		each_library();
	return fflush(stdout) != 0;
}

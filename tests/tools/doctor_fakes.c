/*
 * doctor_fakes.c - what test_doctor.py puts in the place of CUDA's libraries. One source: with -DDRIVER a driver that
 * sleeps instead of copying, else a library that says the versions of all of them; with -DFUTURE also functions
 * that nobody knows yet.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static double number(const char *name, double usual)
{
	const char *text = getenv(name);
	if (text && !strcmp(text, "crash"))
		abort();
	return text ? atof(text) : usual;
}

#ifdef FUTURE
void cuMemcpyFuture(void);
void cuMemcpyFuture(void) {}
void pncclFutureCall(void);
void pncclFutureCall(void) {}
#endif

#ifdef DRIVER
#define CALL(name, ...)    \
	int name(__VA_ARGS__); \
	int name(__VA_ARGS__)

static char *pinned;

static int copy(const void *host)
{
	usleep(
		(useconds_t)(1000 * (host == pinned ? number("FAKE_PINNED_MS", 1) : number("FAKE_PAGEABLE_MS", 4))));
	return 0;
}

CALL(cuInit, unsigned flags)
{
	(void)flags;
	usleep((useconds_t)(1e6 * number("FAKE_START_S", 0)));
	return (int)number("FAKE_INIT", 0);
}
CALL(cuDriverGetVersion, int *to)
{
	*to = 13000;
	return 0;
}
CALL(cuGetErrorName, int error, const char **to)
{
	*to = error == 100 ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_UNKNOWN";
	return 0;
}
CALL(cuDeviceGetCount, int *to)
{
	*to = 1;
	return 0;
}
CALL(cuDeviceGet, int *to, int index)
{
	*to = index;
	return 0;
}
CALL(cuDeviceGetName, char *to, int size, int device)
{
	(void)device;
	snprintf(to, (size_t)size, "fake");
	return 0;
}
CALL(cuDeviceGetPCIBusId, char *to, int size, int device)
{
	snprintf(to, (size_t)size, "0000:%02X:00.0", device + 1);
	return 0;
}
CALL(cuDevicePrimaryCtxRetain, void **to, int device)
{
	(void)device;
	*to = &pinned;
	return 0;
}
CALL(cuCtxSetCurrent, void *ctx)
{
	(void)ctx;
	return 0;
}
CALL(cuCtxSynchronize, void)
{
	return 0;
}
CALL(cuMemGetInfo_v2, size_t *available, size_t *total)
{
	*available = *total = (size_t)number("FAKE_MEM_MB", 4) << 20; /* a quarter is copied */
	return 0;
}
CALL(cuMemAlloc_v2, uint64_t *to, size_t bytes)
{
	(void)bytes;
	*to = 1 << 20;
	return 0;
}
CALL(cuMemFree_v2, uint64_t address)
{
	(void)address;
	return 0;
}
CALL(cuMemHostAlloc, void **to, size_t bytes, unsigned flags)
{
	(void)flags;
	*to = pinned = malloc(bytes);
	return 0;
}
CALL(cuMemFreeHost, void *address)
{
	free(address);
	return 0;
}
CALL(cuMemcpyHtoD_v2, uint64_t to, const void *from, size_t bytes)
{
	(void)to;
	(void)bytes;
	return copy(from);
}
CALL(cuMemcpyDtoH_v2, void *to, uint64_t from, size_t bytes)
{
	(void)from;
	(void)bytes;
	return copy(to);
}
#else
#define VERSION(name, variable, usual)           \
	int name(unsigned *to);                      \
	int name(unsigned *to)                       \
	{                                            \
		*to = (unsigned)number(variable, usual); \
		return 0;                                \
	}
VERSION(cudaRuntimeGetVersion, "FAKE_CUDART", 13000)
VERSION(ncclGetVersion, "FAKE_NCCL", 22809)
VERSION(cuptiGetVersion, "FAKE_CUPTI", 130001)

size_t cudnnGetVersion(void);
size_t cudnnGetVersion(void)
{
	return (size_t)number("FAKE_CUDNN", 91300);
}
#endif

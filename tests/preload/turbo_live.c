/*
 * turbo_live.c - a program that copies a little and then waits, for `turbo stats`.
 *
 *   turbo_live COPIES BYTES    that many synchronous copies from malloc'd memory; prints
 *                              "ready PID" and ends when its standard input does
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *lib;

static void *symbol(const char *name)
{
	void *p = lib ? dlsym(lib, name) : NULL;
	if (!p) {
		fprintf(stderr, "turbo_live: %s\n", dlerror());
		exit(1);
	}
	return p;
}

/* CALL(cuInit, 0): looked up as a runtime library does, and must succeed. */
#define CALL(f, ...)                                                    \
	do {                                                                \
		CUresult r_ = ((__typeof__(&f))symbol(#f))(__VA_ARGS__);        \
		if (r_ != CUDA_SUCCESS) {                                       \
			fprintf(stderr, "turbo_live: %s: error %d\n", #f, (int)r_); \
			exit(1);                                                    \
		}                                                               \
	} while (0)

int main(int argc, char **argv)
{
	int copies = argc == 3 ? atoi(argv[1]) : 0;
	size_t bytes = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
	char *host = malloc(bytes);
	CUcontext ctx;
	CUdeviceptr d;
	CUdevice dev;

	lib = dlopen("libcuda.so.1", RTLD_NOW);
	if (!host || !bytes)
		return 2;
	memset(host, 7, bytes);
	CALL(cuInit, 0);
	CALL(cuDeviceGet, &dev, 0);
	CALL(cuDevicePrimaryCtxRetain, &ctx, dev);
	CALL(cuCtxSetCurrent, ctx);
	CALL(cuMemAlloc_v2, &d, bytes);
	for (int i = 0; i < copies; i++)
		CALL(cuMemcpyHtoD_v2, d, host, bytes);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (getchar() != EOF)
		;
	CALL(cuMemFree_v2, d);
	CALL(cuDevicePrimaryCtxRelease_v2, dev);
	free(host);
	return 0;
}

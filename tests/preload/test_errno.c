/* ENV: TURBO_COPY_MIN_KB=64 TMPDIR=/nonexistent BARE
 * test_errno.c - driver calls leave errno alone, whatever libturbo does in them: in the first
 * cuInit it asks the system for the CPUs that it may use, which fails in many ways.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/gpu/common/cuda_dl.h"
#include "tests/gpu/common/util.h"

#define BYTES (3 * MIB)
#define MINE 4321

static int failures;

#define KEPT(call)                                     \
	do {                                               \
		errno = MINE;                                  \
		(void)(call);                                  \
		if (errno != MINE) {                           \
			printf("%s: errno is %d\n", #call, errno); \
			failures++;                                \
		}                                              \
	} while (0)

static void copies(unsigned char *host)
{
	CUdeviceptr d = 0;
	KEPT(cu.cuMemAlloc_v2(&d, BYTES));
	KEPT(cu.cuMemcpyHtoD_v2(d, host, BYTES));
	KEPT(cu.cuMemcpyDtoH_v2(host, d, BYTES));
	KEPT(cu.cuMemcpyHtoD_v2(0, host, BYTES)); /* an error */
}

static void captures(void)
{
	CUstream s;
	CUgraph graph = NULL;
	KEPT(cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	KEPT(cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	KEPT(cu.cuStreamEndCapture(s, &graph));
	KEPT(cu.cuGraphDestroy(graph));
	KEPT(cu.cuStreamEndCapture(s, &graph)); /* an error */
	KEPT(cu.cuStreamDestroy_v2(s));
}

int main(void)
{
	unsigned char *host = calloc(1, BYTES);
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	CUresult (*init)(unsigned) = driver ? (CUresult(*)(unsigned))dlsym(driver, "cuInit") : NULL;
	CUcontext ctx;

	if (!init || !host)
		return 77;
	KEPT(init(0)); /* the first */
	if (cuda_dl_open())
		return 77;
	KEPT(cu.cuDevicePrimaryCtxRetain(&ctx, 0));
	KEPT(cu.cuCtxSetCurrent(ctx));
	copies(host);
	captures();
	KEPT(cu.cuDevicePrimaryCtxReset_v2(0));
	KEPT(cu.cuDevicePrimaryCtxRelease_v2(0));
	KEPT(cu.cuCtxCreate_v2(&ctx, 0, 0));
	copies(host);
	KEPT(cu.cuCtxDestroy_v2(ctx));
	free(host);
	printf("%d failures\n", failures);
	return failures != 0;
}

/*
 * bench_hook.c - what a call costs more because libturbo is loaded.
 *
 * Against the simulated driver, whose calls do as little as possible: what is
 * measured is the way to them. The real driver's calls cost more, the
 * difference is the same.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>

#include "bench.h"

#define CALLS 10000
#define BATCHES 25 /* the fastest is taken: what the others took more was not the call's doing */

static void *lib;

static void need(CUresult r, const char *what)
{
	if (r != CUDA_SUCCESS) {
		fprintf(stderr, "bench_hook: %s: error %d\n", what, (int)r);
		exit(1);
	}
}

static void *symbol(const char *name)
{
	void *p = dlsym(lib, name);
	if (!p) {
		fprintf(stderr, "bench_hook: no %s\n", name);
		exit(1);
	}
	return p;
}
#define SYMBOL(f) __typeof__(&f) p_##f = (__typeof__(&f))symbol(#f)

/* Prints "KEY ns" for the statement. */
#define MEASURE(key, calls, statement)                        \
	do {                                                      \
		double best_ = 1e18;                                  \
		for (int b_ = 0; b_ < BATCHES; b_++) {                \
			double start_ = bench_now_ns();                   \
			for (int i_ = 0; i_ < (calls); i_++)              \
				statement;                                    \
			double ns_ = (bench_now_ns() - start_) / (calls); \
			best_ = ns_ < best_ ? ns_ : best_;                \
		}                                                     \
		printf("%s %.2f\n", key, best_);                      \
	} while (0)

static int child(void)
{
	lib = dlopen("libcuda.so.1", RTLD_NOW);
	if (!lib) {
		fprintf(stderr, "bench_hook: %s\n", dlerror());
		return 1;
	}
	SYMBOL(cuInit);
	SYMBOL(cuDeviceGet);
	SYMBOL(cuDevicePrimaryCtxRetain);
	SYMBOL(cuCtxSetCurrent);
	SYMBOL(cuDriverGetVersion);
	SYMBOL(cuStreamGetId);
	SYMBOL(cuEventCreate);
	SYMBOL(cuEventQuery);
	SYMBOL(cuEventSynchronize);
	SYMBOL(cuMemAlloc_v2);
	SYMBOL(cuMemcpyHtoD_v2);
	CUdevice dev;
	CUcontext ctx;
	CUevent event;
	CUdeviceptr d;
	int version, word = 1;
	unsigned long long id;
	need(p_cuInit(0), "cuInit");
	need(p_cuDeviceGet(&dev, 0), "cuDeviceGet");
	need(p_cuDevicePrimaryCtxRetain(&ctx, dev), "cuDevicePrimaryCtxRetain");
	need(p_cuCtxSetCurrent(ctx), "cuCtxSetCurrent");
	need(p_cuEventCreate(&event, 0), "cuEventCreate");
	need(p_cuMemAlloc_v2(&d, 4096), "cuMemAlloc_v2");
	need(p_cuMemcpyHtoD_v2(d, &word, sizeof(word)), "cuMemcpyHtoD_v2");

	MEASURE("pass", CALLS, p_cuDriverGetVersion(&version));
	MEASURE("count_stream", CALLS, p_cuStreamGetId(NULL, &id));
	MEASURE("count_event", CALLS, p_cuEventQuery(event));
	/* No byte to copy: the simulated driver returns at once, and our body decides as for 4 B. */
	MEASURE("body", CALLS, p_cuMemcpyHtoD_v2(d, &word, 0));
	/* Nothing to wait for, nobody to tell. */
	MEASURE("wait_event", CALLS, p_cuEventSynchronize(event));
	MEASURE("dlsym_unknown", CALLS, dlsym(lib, "sim_calls"));
	MEASURE("dlsym_libc", CALLS, dlsym(RTLD_DEFAULT, "strlen"));
	MEASURE("dlsym_known", 4000, dlsym(lib, "cuMemAlloc_v2"));
	return 0;
}

int main(int argc, char **argv)
{
	static const struct bench_line line[] = {
		{"pass", "not taken (cuDriverGetVersion)", 10},
		{"count_stream", "counted (cuStreamGetId)", 10},
		{"count_event", "counted (cuEventQuery)", 10},
		{"body", "C body passed through (cuMemcpyHtoD, small)", 10},
		{"wait_event", "C body that tells (cuEventSynchronize)", 10},
		{"dlsym_unknown", "dlsym of another name, explicit handle", 50},
		{"dlsym_libc", "dlsym of another name, RTLD_DEFAULT", 50},
		{"dlsym_known", "dlsym of a hooked name, once a symbol", 2000},
	};
	if (argc == 2 && !strcmp(argv[1], "--child"))
		return child();
	return bench_compare("hook cost", "ns a call", line, (int)(sizeof(line) / sizeof(line[0])), 7);
}

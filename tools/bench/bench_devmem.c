/*
 * bench_devmem.c - what cuMemAlloc + cuMemFree cost when the memory is kept.
 *
 * Against the simulated driver: what is measured is libturbo's own way. On a real GPU a pair in mode cache
 * adds one cuCtxSynchronize, a pair in mode deferred its share of an event record and query.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>

#include "bench.h"

#define SET 256
#define BATCHES 25 /* the fastest is taken */

static CUresult (*mem_alloc)(CUdeviceptr *, size_t);
static CUresult (*mem_free)(CUdeviceptr);

static void need(CUresult r, const char *what)
{
	if (r != CUDA_SUCCESS) {
		fprintf(stderr, "bench_devmem: %s: error %d\n", what, (int)r);
		exit(1);
	}
}

static void *symbol(void *lib, const char *name)
{
	void *p = dlsym(lib, name);
	if (!p) {
		fprintf(stderr, "bench_devmem: no %s\n", name);
		exit(1);
	}
	return p;
}

/* ns a pair, the same size again and again. */
static void pair(const char *key, size_t bytes)
{
	double best = 1e18;
	CUdeviceptr p;
	for (int b = 0; b < BATCHES; b++) {
		double start = bench_now_ns();
		for (int i = 0; i < 1000; i++) {
			need(mem_alloc(&p, bytes), "cuMemAlloc");
			need(mem_free(p), "cuMemFree");
		}
		double ns = (bench_now_ns() - start) / 1000;
		best = ns < best ? ns : best;
	}
	printf("%s %.1f\n", key, best);
}

/* ns a pair, many of different sizes at once, as a training step does. */
static void set(const char *key)
{
	static CUdeviceptr p[SET];
	double best = 1e18;
	for (int b = 0; b < 4 * BATCHES; b++) {
		double start = bench_now_ns();
		for (int i = 0; i < SET; i++)
			need(mem_alloc(&p[i], (size_t)(i % 64 + 1) * 4096), "cuMemAlloc");
		for (int i = 0; i < SET; i++)
			need(mem_free(p[i]), "cuMemFree");
		double ns = (bench_now_ns() - start) / SET;
		best = ns < best ? ns : best;
	}
	printf("%s %.1f\n", key, best);
}

static int child(void)
{
	enum { LIVE = 100000 };
	static CUdeviceptr live[LIVE];
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	CUcontext ctx;
	if (!lib) {
		fprintf(stderr, "bench_devmem: %s\n", dlerror());
		return 1;
	}
	*(void **)&mem_alloc = symbol(lib, "cuMemAlloc_v2");
	*(void **)&mem_free = symbol(lib, "cuMemFree_v2");
	need(((__typeof__(&cuInit))symbol(lib, "cuInit"))(0), "cuInit");
	need(((__typeof__(&cuDevicePrimaryCtxRetain))symbol(lib, "cuDevicePrimaryCtxRetain"))(&ctx, 0),
		 "context");
	need(((__typeof__(&cuCtxSetCurrent))symbol(lib, "cuCtxSetCurrent"))(ctx), "cuCtxSetCurrent");
	pair("pair_64k", 64 << 10);
	pair("pair_2m", 2 << 20);
	set("set");
	for (int i = 0; i < LIVE; i++)
		need(mem_alloc(&live[i], 512), "cuMemAlloc");
	set("set_live");
	return 0;
}

static int table(const char *mode, const struct bench_line *line, int lines)
{
	double v[8][7], once[8];
	int missed = 0;
	setenv("TURBO_DEVMEM", mode, 1);
	setenv("TURBO_DEVMEM_CACHE_MB", "256", 1);
	for (int r = 0; r < 7; r++) {
		if (!bench_round(true, line, lines, once)) {
			fprintf(stderr, "bench: the run of mode %s failed\n", mode);
			return 1;
		}
		for (int i = 0; i < lines; i++)
			v[i][r] = once[i];
	}
	printf("cuMemAlloc + cuMemFree, mode %s, ns a pair, medians of 7 runs\n", mode);
	printf("%-44s %10s %8s\n", "", "preloaded", "limit");
	for (int i = 0; i < lines; i++) {
		double ns = bench_median(v[i], 7);
		printf("%-44s %10.1f %8.0f  %s\n", line[i].title, ns, line[i].limit,
			   ns <= line[i].limit ? "PASS" : "MISS");
		missed += ns > line[i].limit;
	}
	puts("");
	return missed != 0;
}

int main(int argc, char **argv)
{
	/* Mode cache has a cuCtxSynchronize of the simulated driver in it. */
	static const struct bench_line cache[] = {
		{"pair_64k", "64 KiB, again and again", 1000},
		{"pair_2m", "2 MiB, again and again", 1000},
		{"set", "256 of 4 to 256 KiB", 1000},
		{"set_live", "the same beside 100,000 live blocks", 1200},
	};
	static const struct bench_line deferred[] = {
		{"set", "256 of 4 to 256 KiB", 400},
		{"set_live", "the same beside 100,000 live blocks", 500},
	};
	if (argc == 2 && !strcmp(argv[1], "--child"))
		return child();
	return table("cache", cache, 4) | table("deferred", deferred, 2);
}

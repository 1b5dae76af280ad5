/*
 * driver.c - a libcuda.so.1 in name only, for the loader tests. WHO tells copies apart:
 * functions answer with it. With STRIPPED it lacks what newer drivers have. No function ever
 * succeeds, so nothing above the hook layer wakes up.
 */
#include <dlfcn.h>
#include <stddef.h>

int cuInit(unsigned int flags)
{
	return WHO + (int)flags;
}

int cuMemAlloc(unsigned int *out, unsigned int bytes)
{
	*out = bytes;
	return WHO;
}

/* Any ABI will do: a counted call arrives with all its arguments, or the sum is wrong. */
double cuLaunchHostFunc(long a, long b, long c, long d, long e, long f, long g, long h, double i, double j,
						double k, double l, double m, double n, double o, double p, double q)
{
	return (double)(a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h) + 9 * i + 10 * j + 11 * k +
		   12 * l + 13 * m + 14 * n + 15 * o + 16 * p + 17 * q + WHO;
}

typedef int alloc_fn(void **out, size_t bytes);

static int indirect(void **out, size_t bytes)
{
	(void)out;
	(void)bytes;
	return WHO;
}

/*
 * Run while a first counted call waits: what it does to the argument registers must not
 * reach that call.
 */
__attribute__((used)) static alloc_fn *choose(void)
{
#if defined(__aarch64__)
	__asm__ volatile(
		"movi v0.2d, 0\n\tmovi v1.2d, 0\n\tmovi v2.2d, 0\n\tmovi v3.2d, 0\n\t"
		"movi v4.2d, 0\n\tmovi v5.2d, 0\n\tmovi v6.2d, 0\n\tmovi v7.2d, 0\n\t"
		"mov x1, 0\n\tmov x2, 0\n\tmov x3, 0\n\tmov x4, 0\n\tmov x5, 0\n\tmov x6, 0\n\tmov x7, 0" ::
			: "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "x1", "x2", "x3", "x4", "x5", "x6", "x7");
#elif defined(__x86_64__)
	__asm__ volatile(
		"xorps %%xmm0, %%xmm0\n\txorps %%xmm1, %%xmm1\n\txorps %%xmm2, %%xmm2\n\t"
		"xorps %%xmm3, %%xmm3\n\txorps %%xmm4, %%xmm4\n\txorps %%xmm5, %%xmm5\n\t"
		"xorps %%xmm6, %%xmm6\n\txorps %%xmm7, %%xmm7\n\txorl %%esi, %%esi\n\txorl %%edx, %%edx\n\t"
		"xorl %%ecx, %%ecx\n\txorl %%r8d, %%r8d\n\txorl %%r9d, %%r9d" ::
			: "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "rsi", "rdx", "rcx", "r8",
			  "r9");
#endif
	return indirect;
}

int cuMemAllocHost_v2(void **out, size_t bytes) __attribute__((ifunc("choose")));

#ifndef STRIPPED
int cuMemAlloc_v2(void **out, size_t bytes)
{
	(void)out;
	(void)bytes;
	return WHO;
}

int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t bytes)
{
	(void)to;
	(void)from;
	(void)bytes;
	return WHO;
}

/* A second name of a function that libturbo takes, shorter and only counted. */
int cuMemFree(unsigned long long to, const void *from, size_t bytes)
	__attribute__((alias("cuMemcpyHtoD_v2")));

int cuGetProcAddress_v2(const char *symbol, void **fn, int version, unsigned long long flags, int *found)
{
	(void)version;
	(void)flags;
	(void)found;
	*fn = symbol[0] == 'a' ? (void *)cuMemcpyHtoD_v2 : (void *)cuMemAlloc_v2;
	return 0;
}
#endif

/* The driver's own lookups. */
void *driver_ask(void *handle, const char *name)
{
	void *volatile fn = dlsym(handle, name);

	return fn;
}

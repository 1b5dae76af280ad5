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
double cuLaunchKernel(long a, long b, long c, long d, long e, long f, long g, long h, double i, double j,
					  double k, double l, double m, double n, double o, double p, double q)
{
	return (double)(a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h) + 9 * i + 10 * j + 11 * k +
		   12 * l + 13 * m + 14 * n + 15 * o + 16 * p + 17 * q + WHO;
}

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

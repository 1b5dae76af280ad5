/* interposer.c - another preload library that wraps cuInit; adds 1000 to the answer. */
#include <dlfcn.h>
#include <stdio.h>

typedef int init_fn(unsigned int flags);

int cuInit(unsigned int flags)
{
	init_fn *next = (init_fn *)dlsym(RTLD_NEXT, "cuInit");

	return next ? next(flags) + 1000 : -1;
}

void *interposer_next(const char *name)
{
	void *volatile fn = dlsym(RTLD_NEXT, name);

	return fn;
}

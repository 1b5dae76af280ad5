/* early.c - a preload library whose constructor runs before libturbo's and looks things up. */
#include <dlfcn.h>
#include <stdio.h>

__attribute__((constructor)) static void early(void)
{
	void *length = dlsym(RTLD_DEFAULT, "strlen");
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);
	int (*init)(unsigned int) = handle ? (int (*)(unsigned int))dlsym(handle, "cuInit") : NULL;

	printf("early: strlen %s, cuInit answers %d\n", length ? "found" : "missing", init ? init(0) : -1);
}

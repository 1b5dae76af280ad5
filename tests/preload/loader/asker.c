/*
 * asker.c - a library that looks things up, so that it is the caller. It is built under
 * several names, and with USER linked with libcuda.so.1, as an application's library is.
 * (volatile: a tail call would make somebody else the caller)
 */
#include <dlfcn.h>

void *ask(void *handle, const char *name)
{
	void *volatile fn = dlsym(handle, name);

	return fn;
}

void *ask_version(void *handle, const char *name, const char *version)
{
	void *volatile fn = dlvsym(handle, name, version);

	return fn;
}

void *ask_open(const char *file, int mode)
{
	void *volatile handle = dlopen(file, mode);

	return handle;
}

/* cuGetProcAddress_v2 as `resolve`, called from here. */
void *ask_driver(int (*resolve)(const char *, void **, int, unsigned long long, int *), const char *name)
{
	void *fn = 0;

	return resolve(name, &fn, 12000, 0, 0) == 0 ? fn : 0;
}

#ifdef USER
int cuInit(unsigned int flags);

int user_init(unsigned int flags)
{
	int volatile status = cuInit(flags);

	return status;
}
#endif

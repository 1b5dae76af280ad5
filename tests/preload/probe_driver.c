/*
 * probe_driver.c - looks for the driver as programs do and prints what it finds.
 *
 *   present   exit 0 if libcuda.so.1 can be loaded
 *   lookups   dlopen, dlsym and dlerror, explicit handle and RTLD_DEFAULT
 *   use       cuInit and cuDriverGetVersion by handle
 *   weak      cuInit through a weak reference
 *
 * Addresses are not printed: test_no_driver.sh compares the output of two runs.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef int init_fn(unsigned flags);
typedef int version_fn(int *version);

extern int cuInit(unsigned flags) __attribute__((weak));

/* The text after the object's name, which differs by who asked. */
static const char *reason(void)
{
	const char *text = dlerror();
	if (!text)
		return "no error";
	const char *colon = strstr(text, ": ");
	return colon ? colon + 2 : text;
}

static void lookup(void *handle, const char *handle_name, const char *name)
{
	dlerror();
	void *fn = dlsym(handle, name);
	printf("%s %s: %s", handle_name, name, fn ? "found" : "NULL");
	printf(" (%s)\n", reason());
}

static int lookups(void *driver)
{
	static const char *const names[] = {
		"cuInit",        "cuDriverGetVersion",  "cuMemcpyHtoD_v2", "cuMemcpyHtoDAsync_v2",
		"cuMemAlloc_v2", "cuGetProcAddress_v2", "cuLaunchKernel",  "no_such_function"};

	printf("dlopen: %s (%s)\n", driver ? "found" : "NULL", driver ? "no error" : reason());
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (driver)
			lookup(driver, "handle", names[i]);
		lookup(RTLD_DEFAULT, "default", names[i]);
	}
	return 0;
}

static int use(void *driver)
{
	init_fn *init = (init_fn *)dlsym(driver, "cuInit");
	version_fn *version = (version_fn *)dlsym(driver, "cuDriverGetVersion");
	int number = 0;

	if (!init || !version)
		return 1;
	printf("cuInit(1): %d\n", init(1));
	printf("cuInit(0): %d\n", init(0));
	printf("cuInit(0) again: %d\n", init(0));
	printf("version: %d, %d\n", version(&number), number);
	return 0;
}

static int weak(void)
{
	if (!cuInit)
		printf("cuInit: absent\n");
	else
		printf("cuInit: %s\n", cuInit(0) ? "error" : "success");
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "lookups";

	if (!strcmp(what, "weak"))
		return weak();
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	if (!strcmp(what, "present"))
		return driver ? 0 : 1;
	if (!strcmp(what, "use"))
		return driver ? use(driver) : 1;
	return lookups(driver);
}

/*
 * devmem_nccl.c - registers memory with two copies of NCCL (arguments: their paths, and that of a library
 * that is linked with one) and says whether the driver got it back when it was freed.
 */
#include "common/copy_fixture.h"

#include <dlfcn.h>
#include <stdio.h>

#define BYTES (4 * MIB)

struct registration {
	int who, flags;
	void *comm, *buffer;
	size_t bytes;
	void **handle;
};

typedef int register_fn(void *comm, void *buffer, size_t bytes, void **handle);
typedef int window_fn(void *comm, void *buffer, size_t bytes, void **window, int flags);

static const struct registration *seen;

static void *find(void *library, const char *name)
{
	void *found = dlsym(library, name);
	if (!found)
		printf("%s: %s\n", name, dlerror());
	return found;
}

/* Frees p; what came of the registration, and whether the driver was asked to free. */
static void report(const char *what, int status, CUdeviceptr p, CUdeviceptr at, size_t bytes)
{
	uint64_t frees = sim.calls("cuMemFree_v2");
	bool same = seen->comm == (void *)3 && seen->buffer == (void *)at && seen->bytes == bytes &&
				seen->handle == (void **)5;

	printf("%s: status %d by %d, flags %d, arguments %s", what, status, seen->who, seen->flags,
		   same ? "as given" : "changed");
	OK(cu.cuMemFree_v2(p));
	printf(", freed by the driver %d\n", (int)(sim.calls("cuMemFree_v2") - frees));
}

static void through(const char *what, register_fn *call, size_t offset, size_t bytes)
{
	CUdeviceptr p = device_new(BYTES), at = p + offset;
	int status = call((void *)3, (void *)at, bytes, (void **)5);

	report(what, status, p, at, bytes);
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	copy_open();
	if (!sim.calls)
		return 77;
	void *first = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL), *second = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
	void *user = dlopen(argv[3], RTLD_NOW | RTLD_LOCAL);
	if (!first || !second || !user) {
		printf("%s\n", dlerror());
		return 1;
	}
	seen = find(first, "nccl_seen");
	through("first", (register_fn *)find(first, "ncclCommRegister"), 0, BYTES);
	through("first, a part", (register_fn *)find(first, "ncclCommRegister"), MIB, 100);
	through("first, p", (register_fn *)find(first, "pncclCommRegister"), 0, BYTES);
	CUdeviceptr p = device_new(BYTES);
	int status =
		((window_fn *)find(first, "ncclCommWindowRegister"))((void *)3, (void *)p, BYTES, (void **)5, 9);
	report("first, a window", status, p, p, BYTES);
	/* Several allocations at once: each is somebody's to see. */
	CUdeviceptr q = device_new(BYTES);
	p = device_new(BYTES);
	((register_fn *)find(first, "ncclCommRegister"))((void *)3, (void *)(p < q ? p : q), BYTES, (void **)5);
	OK(cu.cuMemFree_v2(p));
	OK(cu.cuMemFree_v2(q));
	/* Not memory of the device. */
	((register_fn *)find(first, "ncclCommRegister"))((void *)3, &p, sizeof(p), (void **)5);
	((register_fn *)find(first, "ncclCommRegister"))((void *)3, NULL, 0, (void **)5);
	printf("of the host: size %zu\n", seen->bytes);
	through("by a library linked with it", (register_fn *)find(user, "user_register"), 0, BYTES);
	/* What is looked up in a later copy is that copy's own; the driver's calls in it tell. */
	seen = find(second, "nccl_seen");
	status = ((register_fn *)find(second, "ncclCommRegister"))((void *)3, (void *)4, 1, (void **)5);
	printf("second: status %d by %d\n", status, seen->who);
	return 0;
}

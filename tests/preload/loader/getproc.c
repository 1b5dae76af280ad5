/*
 * getproc.c - what cuGetProcAddress answers for every name, version and kind of stream:
 * "name version flags: status, found, SYMBOL@OBJECT", through both of its own ABIs.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int proc_fn(const char *, void **, int, uint64_t);
typedef int proc_v2_fn(const char *, void **, int, uint64_t, int *);

static const char *const names[] = {
#define V(name, ...) #name,
#include "sim_versions.def"
#undef V
	"cuGetProcAddress",
	"cuNoSuchThing",
	"",
	"strlen",
};
static const int versions[] = {0,     2000,  3020,  4000,  6050,  7000, 10000,
							   11000, 11030, 12000, 12080, 13000, 99000};

static void print(const char *name, int version, unsigned flags, int status, int found, void *fn)
{
	Dl_info info;

	if (!fn || !dladdr(fn, &info) || !info.dli_sname)
		memset(&info, 0, sizeof(info));
	const char *slash = info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
	printf("%s %d %u: %d, %d, %s@%s\n", name, version, flags, status, found,
		   info.dli_sname ? info.dli_sname : "-", slash ? slash + 1 : "-");
}

int main(void)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);
	proc_fn *proc = handle ? (proc_fn *)dlsym(handle, "cuGetProcAddress") : NULL;
	proc_v2_fn *proc_v2 = handle ? (proc_v2_fn *)dlsym(handle, "cuGetProcAddress_v2") : NULL;

	if (!proc || !proc_v2)
		return 1;
	for (unsigned n = 0; n < sizeof(names) / sizeof(names[0]); n++)
		for (unsigned v = 0; v < sizeof(versions) / sizeof(versions[0]); v++)
			for (unsigned flags = 0; flags <= 3; flags++) {
				void *fn = NULL, *fn_v2 = NULL, *fn_null = NULL;
				int found = -1;
				int status = proc(names[n], &fn, versions[v], flags);
				print(names[n], versions[v], flags, status, -1, fn);
				status = proc_v2(names[n], &fn_v2, versions[v], flags, &found);
				print(names[n], versions[v], flags, status, found, fn_v2);
				status = proc_v2(names[n], &fn_null, versions[v], flags, NULL);
				if (fn_null != fn_v2)
					printf("another answer without a status\n");
			}
	printf("no place for the answer: %d\n", proc_v2("cuInit", NULL, 12000, 0, NULL));
	printf("no name: %d\n", proc_v2(NULL, (void **)&proc, 12000, 0, NULL));

	/* What the resolver says of itself answers as the resolver does. */
	void *self = NULL, *init = NULL;
	proc_v2("cuGetProcAddress", &self, 12000, 0, NULL);
	printf("by itself: %d", self ? ((proc_v2_fn *)self)("cuInit", &init, 2000, 0, NULL) : -1);
	print("", 0, 0, 0, 0, init);
	return 0;
}

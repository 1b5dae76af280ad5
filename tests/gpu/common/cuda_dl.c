#include "cuda_dl.h"

#include <dlfcn.h>
#include <stddef.h>

struct cuda_dl cu;

static const struct {
	const char *name;
	size_t offset;
} functions[] = {
#define CUDA_DL_ROW(f) {#f, offsetof(struct cuda_dl, f)},
	CUDA_DL_FUNCTIONS(CUDA_DL_ROW)
#undef CUDA_DL_ROW
};

const char *cuda_dl_open(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	if (!lib)
		return "libcuda.so.1 cannot be loaded";
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		*(void **)(void *)((char *)&cu + functions[i].offset) = dlsym(lib, functions[i].name);
	if (!cu.cuInit || cu.cuInit(0) != CUDA_SUCCESS)
		return "cuInit fails";
	int count = 0;
	if (!cu.cuDeviceGetCount || cu.cuDeviceGetCount(&count) != CUDA_SUCCESS || count < 1)
		return "no device";
	return NULL;
}

const char *cuda_dl_error(CUresult r)
{
	const char *name = NULL;
	if (!cu.cuGetErrorName || cu.cuGetErrorName(r, &name) != CUDA_SUCCESS || !name)
		return "unknown error";
	return name;
}

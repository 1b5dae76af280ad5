/*
 * nccl_dl.c - NCCL by dlopen.
 */
#include "nccl_dl.h"

#include <dlfcn.h>

struct nccl_dl nccl;

const char *nccl_dl_open(void)
{
	static void *lib;
	if (lib)
		return NULL;
	lib = dlopen("libnccl.so.2", RTLD_NOW);
	if (!lib)
		return "no libnccl.so.2";
#define R(name, params) *(void **)&nccl.name = dlsym(lib, #name);
	NCCL_ABI_FUNCTIONS(R)
	R(ncclGetErrorString, )
	R(ncclGetLastError, )
#undef R
#define X(name) *(void **)&nccl.name = dlsym(lib, #name);
	NCCL_DL_SIM(X)
#undef X
	return nccl.ncclAllReduce && nccl.ncclGetUniqueId ? NULL : "libnccl.so.2 lacks functions";
}

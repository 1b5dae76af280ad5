#include "kernels.h"

#include <stdbool.h>

#include "cases.h"
#include "tests/gpu/kernels_ptx.h"

struct kernels *kernels_current;

const char *kernels_load(struct kernels *k)
{
	TRY(cu.cuModuleLoadData(&k->module, kernels_ptx));
	TRY(cu.cuModuleGetFunction(&k->fill32, k->module, "fill32"));
	TRY(cu.cuModuleGetFunction(&k->add32, k->module, "add32"));
	TRY(cu.cuModuleGetFunction(&k->copy, k->module, "copy"));
	TRY(cu.cuModuleGetFunction(&k->checksum64, k->module, "checksum64"));
	TRY(cu.cuModuleGetFunction(&k->spin_us, k->module, "spin_us"));
	TRY(cu.cuModuleGetFunction(&k->spin_flag, k->module, "spin_flag"));
	return NULL;
}

static CUresult launch(CUfunction f, CUstream s, bool one_thread, void **args)
{
	unsigned blocks = one_thread ? 1 : 256, threads = one_thread ? 1 : 256;
	/* The per-thread default stream is known by its handle to the plain function too. */
	return cu.cuLaunchKernel(f, blocks, 1, 1, threads, 1, 1, 0, s, args, NULL);
}

CUresult launch_fill(CUstream s, CUdeviceptr p, size_t n, uint32_t value)
{
	uint64_t words = n;
	return launch(kernels_current->fill32, s, false, (void *[]){&p, &words, &value});
}

CUresult launch_add(CUstream s, CUdeviceptr p, size_t n, uint32_t value)
{
	uint64_t words = n;
	return launch(kernels_current->add32, s, false, (void *[]){&p, &words, &value});
}

CUresult launch_copy(CUstream s, CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
	uint64_t n = bytes;
	return launch(kernels_current->copy, s, false, (void *[]){&dst, &src, &n});
}

CUresult launch_spin_us(CUstream s, uint64_t us)
{
	return launch(kernels_current->spin_us, s, true, (void *[]){&us});
}

CUresult launch_spin(CUstream s, unsigned ms)
{
	return launch_spin_us(s, (uint64_t)ms * 1000);
}

CUresult launch_spin_on(CUstream s, CUdeviceptr flag)
{
	return launch(kernels_current->spin_flag, s, true, (void *[]){&flag});
}

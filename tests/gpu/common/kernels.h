/*
 * kernels.h - the kernels of tests/gpu/kernels_ptx.h, loaded into the current context.
 */
#ifndef TURBO_TEST_GPU_KERNELS_H
#define TURBO_TEST_GPU_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "tests/gpu/common/cuda_dl.h"

struct kernels {
	CUmodule module;
	CUfunction fill32, add32, copy, checksum64, spin_us, spin_flag;
};

/* Each context has kernels of its own. NULL, or why they cannot be had (as cases.h has it). */
const char *kernels_load(struct kernels *k);
/* The kernels that launch_*() below take, in every thread. */
extern struct kernels *kernels_current;

/* n counts 32-bit words. `flag` is a device address of a 32-bit word. */
CUresult launch_fill(CUstream s, CUdeviceptr p, size_t n, uint32_t value);
CUresult launch_add(CUstream s, CUdeviceptr p, size_t n, uint32_t value);
CUresult launch_copy(CUstream s, CUdeviceptr dst, CUdeviceptr src, size_t bytes);
CUresult launch_spin_us(CUstream s, uint64_t us);
CUresult launch_spin(CUstream s, unsigned ms);
CUresult launch_spin_on(CUstream s, CUdeviceptr flag);

#endif

/*
 * cache_fault.h - what is done with a context whose work has failed.
 *
 * After some errors the driver refuses everything in the context until it ends. A program that has been told so
 * must not be given kept memory, nor be told that a free went well: the driver's own error is the answer.
 *
 * A space is `faulted` from an error to the next wait that succeeds. Meanwhile allocations are the
 * driver's, and each cuMemFree asks it first, by the barrier: a space that was faulted by mistake costs one wait.
 */
#ifndef TURBO_DEVMEM_CACHE_FAULT_H
#define TURBO_DEVMEM_CACHE_FAULT_H

#include <cuda.h>
#include <stdbool.h>

#include "cache_space.h"

/* Errors that stay until the context ends. By number where older headers lack the name. */
static inline bool fault_is(CUresult r)
{
	switch ((int)r) {
	case CUDA_ERROR_ECC_UNCORRECTABLE:
	case CUDA_ERROR_NVLINK_UNCORRECTABLE:
	case 226: /* CONTAINED */
	case CUDA_ERROR_ILLEGAL_ADDRESS:
	case CUDA_ERROR_LAUNCH_TIMEOUT:
	case CUDA_ERROR_ASSERT:
	case CUDA_ERROR_HARDWARE_STACK_ERROR:
	case CUDA_ERROR_ILLEGAL_INSTRUCTION:
	case CUDA_ERROR_MISALIGNED_ADDRESS:
	case CUDA_ERROR_INVALID_ADDRESS_SPACE:
	case CUDA_ERROR_INVALID_PC:
	case CUDA_ERROR_LAUNCH_FAILED:
	case 721: /* TENSOR_MEMORY_LEAK */
	case 810: /* MPS_CLIENT_TERMINATED */
	case 911: /* EXTERNAL_DEVICE */ return true;
	default: return false;
	}
}

/* A call in the space's context, which is held, was answered so. Its lock is not held. */
void fault_seen(struct space *s, CUresult r);
/* A call of the program was, in whatever context. Any thread. */
void fault_told(CUresult r);

#endif

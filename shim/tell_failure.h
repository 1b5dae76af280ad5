/*
 * tell_failure.h - a call of the program that waits has been answered: an error that lasts is told to the policy.
 * Keeps errno.
 */
#ifndef TURBO_TELL_FAILURE_H
#define TURBO_TELL_FAILURE_H

#include <cuda.h>

#include "guard.h"
#include "../policy/devmem/devmem.h"

static inline void tell_failure(CUresult status)
{
	if (__builtin_expect(status == CUDA_SUCCESS || status == CUDA_ERROR_NOT_READY, 1))
		return;
	if (devmem_mode_now() == DEVMEM_OFF || guard_inside())
		return;
	guard_enter();
	devmem_failed(status);
	guard_leave();
}

#endif

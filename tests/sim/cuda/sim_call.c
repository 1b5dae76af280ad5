/*
 * sim_call.c - kernels of another library (the simulated NCCL): their body is a function of its own.
 *
 * Parameters: the function, and what it is given. It runs on the stream's thread, as a kernel does.
 */
#include "sim_kernel.h"

static int lost(const void *ctx)
{
	return __atomic_load_n(&((const struct sim_ctx *)ctx)->sticky, __ATOMIC_ACQUIRE) != CUDA_SUCCESS;
}

CUresult sim_k_call(struct sim_ctx *ctx, const uint64_t *arg)
{
	sim_kernel_body *body = (sim_kernel_body *)(uintptr_t)arg[0];
	return (CUresult)body((void *)(uintptr_t)arg[1], lost, ctx);
}

int sim_device_load(void *to, uint64_t from, size_t n)
{
	sim_lock();
	bool ok = sim_kernel_touches(from);
	sim_unlock();
	return ok && sim_move((uintptr_t)to, from, n);
}

int sim_device_store(uint64_t to, const void *from, size_t n)
{
	sim_lock();
	bool ok = sim_kernel_touches(to);
	sim_unlock();
	return ok && sim_move(to, (uintptr_t)from, n);
}

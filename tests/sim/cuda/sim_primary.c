/*
 * sim_primary.c - primary contexts, one a device, shared by reference count.
 */
#include "sim_internal.h"

struct sim_ctx *sim_primary_retain(struct sim_device *device, CUresult *why)
{
	*why = device->broken;
	if (*why)
		return NULL;
	if (!device->primary)
		device->primary = sim_ctx_new(device, device->primary_flags, true);
	if (device->primary)
		device->primary_refs++;
	else
		*why = CUDA_ERROR_OUT_OF_MEMORY;
	return device->primary;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice dev)
{
	SIM_ENTER(cuDevicePrimaryCtxRetain, S_DEV);
	struct sim_device *device = sim_device_get(dev);
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult why;
	sim_lock();
	struct sim_ctx *ctx = sim_primary_retain(device, &why);
	sim_unlock();
	if (ctx)
		*out = (CUcontext)ctx;
	return why;
}

static void primary_gone(struct sim_device *device)
{
	struct sim_ctx *ctx = device->primary;
	device->primary = NULL;
	/* A fatal error outlives the context, until the process ends. */
	if (ctx && !device->broken)
		device->broken = __atomic_load_n(&ctx->sticky, __ATOMIC_ACQUIRE);
	if (ctx)
		sim_ctx_teardown(ctx);
}

CUresult sim_primary_release(struct sim_device *device)
{
	if (!device->primary_refs)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (--device->primary_refs == 0)
		primary_gone(device);
	return CUDA_SUCCESS;
}

static CUresult release(CUdevice dev)
{
	struct sim_device *device = sim_device_get(dev);
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	CUresult result = sim_primary_release(device);
	sim_unlock();
	return result;
}
SIM_FN(cuDevicePrimaryCtxRelease, S_DEV, (CUdevice dev), release(dev))
SIM_FN(cuDevicePrimaryCtxRelease_v2, S_DEV, (CUdevice dev), release(dev))

/* Destroys what the context holds; references stay, and the next retain makes it anew. */
static CUresult reset(CUdevice dev)
{
	struct sim_device *device = sim_device_get(dev);
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	primary_gone(device);
	sim_unlock();
	return CUDA_SUCCESS;
}
SIM_FN(cuDevicePrimaryCtxReset, S_DEV, (CUdevice dev), reset(dev))
SIM_FN(cuDevicePrimaryCtxReset_v2, S_DEV, (CUdevice dev), reset(dev))

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
	SIM_ENTER(cuDevicePrimaryCtxGetState, S_DEV);
	struct sim_device *device = sim_device_get(dev);
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	*flags = device->primary_flags;
	*active = device->primary != NULL;
	sim_unlock();
	return CUDA_SUCCESS;
}

static CUresult set_flags(CUdevice dev, unsigned flags)
{
	struct sim_device *device = sim_device_get(dev);
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	device->primary_flags = flags;
	if (device->primary)
		device->primary->flags = flags;
	sim_unlock();
	return CUDA_SUCCESS;
}
SIM_FN(cuDevicePrimaryCtxSetFlags, S_DEV, (CUdevice dev, unsigned flags), set_flags(dev, flags))
SIM_FN(cuDevicePrimaryCtxSetFlags_v2, S_DEV, (CUdevice dev, unsigned flags), set_flags(dev, flags))

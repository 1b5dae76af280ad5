/*
 * sim_green.c - green contexts: that they begin, are a context to all other calls, hold the primary one, and end.
 * Every one has all multiprocessors.
 */
#include <stdlib.h>
#include <string.h>

#include "sim_internal.h"

#define SIM_MAGIC_GREEN 0x6e657267u
#define SM_COUNT 132
#define SM_GROUP 8

struct sim_green {
	uint32_t magic; /* 0: destroyed; kept, so that stale handles are recognised */
	struct sim_ctx *ctx;
	struct sim_green *next;
};

static struct sim_green *greens; /* all there have ever been; lock held */

static CUresult device_resource(CUdevice dev, CUdevResource *out, CUdevResourceType type)
{
	if (!sim_device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	memset(out, 0, sizeof(*out));
	out->type = type;
	out->sm.smCount = SM_COUNT;
	out->sm.minSmPartitionSize = out->sm.smCoscheduledAlignment = SM_GROUP;
	return CUDA_SUCCESS;
}
SIM_FN(cuDeviceGetDevResource, S_DEV, (CUdevice dev, CUdevResource *out, CUdevResourceType type),
	   device_resource(dev, out, type))

/* A descriptor is never given back, nor is there a call for that: it is always the same one. */
static CUresult describe(CUdevResourceDesc *out, CUdevResource *resources, unsigned n)
{
	static char desc;
	if (!out || !resources || n != 1 || resources->type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUdevResourceDesc)(void *)&desc;
	return CUDA_SUCCESS;
}
SIM_FN(cuDevResourceGenerateDesc, S_DEV, (CUdevResourceDesc * out, CUdevResource *resources, unsigned n),
	   describe(out, resources, n))

/* Lock held. */
static CUresult begin(struct sim_device *dev, struct sim_green *g)
{
	CUresult why;
	if (!sim_primary_retain(dev, &why))
		return why;
	g->ctx = sim_ctx_new(dev, 0, false);
	if (!g->ctx) {
		sim_primary_release(dev);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	g->ctx->green = true;
	g->magic = SIM_MAGIC_GREEN;
	g->next = greens;
	greens = g;
	return CUDA_SUCCESS;
}

static CUresult create(CUgreenCtx *out, CUdevResourceDesc desc, CUdevice dev, unsigned flags)
{
	struct sim_device *device = sim_device_get(dev);
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!out || !desc || flags != CU_GREEN_CTX_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_green *g = calloc(1, sizeof(*g));
	if (!g)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_lock();
	CUresult r = begin(device, g);
	sim_unlock();
	if (r == CUDA_SUCCESS)
		*out = (CUgreenCtx)(void *)g;
	else
		free(g);
	return r;
}
SIM_FN(cuGreenCtxCreate, S_DEV, (CUgreenCtx * out, CUdevResourceDesc desc, CUdevice dev, unsigned flags),
	   create(out, desc, dev, flags))

/* Lock held. */
static struct sim_green *find(CUgreenCtx handle)
{
	struct sim_green *g = greens;
	while (g && (void *)g != (void *)handle)
		g = g->next;
	return g && g->magic ? g : NULL;
}

/* The same context each time. */
static CUresult convert(CUcontext *out, CUgreenCtx handle)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	struct sim_green *g = find(handle);
	if (g)
		*out = (CUcontext)g->ctx;
	sim_unlock();
	return g ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
SIM_FN(cuCtxFromGreenCtx, S_DEV, (CUcontext * out, CUgreenCtx green), convert(out, green))

static CUresult destroy(CUgreenCtx handle)
{
	sim_lock();
	struct sim_green *g = find(handle);
	if (g) {
		struct sim_device *dev = g->ctx->dev;
		if (sim_current() == g->ctx)
			sim_thread.depth--;
		g->magic = 0;
		sim_ctx_teardown(g->ctx);
		sim_primary_release(dev);
	}
	sim_unlock();
	return g ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
SIM_FN(cuGreenCtxDestroy, S_DEV, (CUgreenCtx green), destroy(green))

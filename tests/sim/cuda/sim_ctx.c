/*
 * sim_ctx.c - contexts: making, destroying, and which one a thread uses.
 */
#include <stdlib.h>
#include <string.h>

#include "sim_pool.h"

uint64_t sim_thread_id(void)
{
	static uint64_t next;
	if (!sim_thread.id)
		sim_thread.id = __atomic_add_fetch(&next, 1, __ATOMIC_RELAXED);
	return sim_thread.id;
}

bool sim_ctx_valid(const struct sim_ctx *ctx)
{
	return ctx && ctx->magic == SIM_MAGIC_CTX;
}

void sim_ctx_stick(struct sim_ctx *ctx, CUresult code)
{
	CUresult none = CUDA_SUCCESS;
	__atomic_compare_exchange_n(&ctx->sticky, &none, code, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/* A primary context that is made anew has its old address. */
static struct sim_ctx *primary_again(struct sim_device *dev)
{
	for (struct sim_ctx **p = &sim.dead_contexts; *p; p = &(*p)->next) {
		struct sim_ctx *ctx = *p;
		if (!ctx->primary || ctx->dev != dev)
			continue;
		*p = ctx->next;
		struct sim_stream *draining = ctx->streams;
		memset(ctx, 0, sizeof *ctx);
		ctx->streams = draining;
		return ctx;
	}
	return NULL;
}

struct sim_ctx *sim_ctx_new(struct sim_device *dev, unsigned flags, bool primary)
{
	if (!sim_charge(dev, sim_conf.ctx_bytes))
		return NULL;
	struct sim_ctx *ctx = primary ? primary_again(dev) : NULL;
	if (!ctx)
		ctx = calloc(1, sizeof *ctx);
	if (!ctx) {
		sim_uncharge(dev, sim_conf.ctx_bytes);
		return NULL;
	}
	ctx->charged = sim_conf.ctx_bytes;
	ctx->magic = SIM_MAGIC_CTX;
	ctx->dev = dev;
	ctx->flags = flags;
	ctx->primary = primary;
	ctx->uses = 1;
	ctx->id = sim.next_id++;
	ctx->limits[CU_LIMIT_STACK_SIZE] = 1024;
	ctx->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 7 << 20;
	ctx->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
	ctx->legacy = sim_stream_new(ctx, 0);
	if (!ctx->legacy) {
		sim_uncharge(dev, ctx->charged);
		free(ctx);
		return NULL;
	}
	ctx->legacy->legacy = true;
	ctx->next = sim.contexts;
	sim.contexts = ctx;
	return ctx;
}

/* Waits for the work, frees what the context owns. Threads that still have it current get
 * CUDA_ERROR_CONTEXT_IS_DESTROYED; the structure itself stays, so that stale handles are
 * recognised. Lock held. */
void sim_ctx_teardown(struct sim_ctx *ctx)
{
	sim_ctx_drain(ctx);
	for (struct sim_range *r = sim_range_first(), *next; r; r = next) {
		next = r->next;
		if (r->ctx == ctx && r->kind != MEM_VMM && !(r->async && r->pool)) /* pools outlive contexts */
			sim_release_range(r);
	}
	sim_uncharge(ctx->dev, ctx->charged);
	ctx->charged = 0;
	sim_event_ctx_gone(ctx);
	for (struct sim_stream *s = ctx->streams, *next; s; s = next) {
		next = s->next;
		if (!s->dying)
			sim_stream_destroy(s);
	}
	for (int i = 0; i < ctx->barrier_count; i++)
		sim_op_put(ctx->barriers[i]);
	free(ctx->barriers);
	ctx->barriers = NULL;
	ctx->barrier_count = 0;
	ctx->magic = 0;
	__atomic_store_n(&ctx->sticky, CUDA_ERROR_CONTEXT_IS_DESTROYED, __ATOMIC_RELEASE);
	for (struct sim_ctx **p = &sim.contexts; *p; p = &(*p)->next) {
		if (*p == ctx) {
			*p = ctx->next;
			break;
		}
	}
	ctx->next = sim.dead_contexts;
	sim.dead_contexts = ctx;
}

/* ---- current context ---- */

static CUresult push(CUcontext handle)
{
	struct sim_ctx *ctx = (struct sim_ctx *)handle;
	if (!sim_ctx_valid(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (sim_thread.depth == SIM_MAX_CTX_STACK)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_thread.stack[sim_thread.depth++] = ctx;
	return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *handle)
{
	if (!sim_thread.depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	struct sim_ctx *ctx = sim_thread.stack[--sim_thread.depth];
	if (handle)
		*handle = (CUcontext)ctx;
	return CUDA_SUCCESS;
}
SIM_FN(cuCtxPushCurrent, S_DEV, (CUcontext ctx), push(ctx))
SIM_FN(cuCtxPushCurrent_v2, S_DEV, (CUcontext ctx), push(ctx))
SIM_FN(cuCtxPopCurrent, S_DEV, (CUcontext * ctx), pop(ctx))
SIM_FN(cuCtxPopCurrent_v2, S_DEV, (CUcontext * ctx), pop(ctx))

/* A destroyed context can still be made current; calls then say that it is destroyed. */
static bool is_dead(const struct sim_ctx *ctx)
{
	sim_lock();
	const struct sim_ctx *c = sim.dead_contexts;
	while (c && c != ctx)
		c = c->next;
	sim_unlock();
	return c != NULL;
}

CUresult cuCtxSetCurrent(CUcontext handle)
{
	SIM_ENTER(cuCtxSetCurrent, S_DEV);
	struct sim_ctx *ctx = (struct sim_ctx *)handle;
	if (ctx && !sim_ctx_valid(ctx) && !is_dead(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!ctx) {
		if (sim_thread.depth)
			sim_thread.depth--;
		return CUDA_SUCCESS;
	}
	if (!sim_thread.depth)
		sim_thread.depth = 1;
	sim_thread.stack[sim_thread.depth - 1] = ctx;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *ctx)
{
	SIM_ENTER(cuCtxGetCurrent, S_DEV);
	if (!ctx)
		return CUDA_ERROR_INVALID_VALUE;
	*ctx = (CUcontext)sim_current();
	return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
	SIM_ENTER(cuCtxGetDevice, S_DEV);
	if (!sim_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = sim_current()->dev->ordinal;
	return CUDA_SUCCESS;
}

/* ---- making and destroying ---- */

static CUresult create(CUcontext *out, unsigned flags, CUdevice dev)
{
	if (!out || flags & ~(unsigned)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_device *device = sim_device_get(dev);
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	struct sim_ctx *ctx = sim_ctx_new(device, flags, false);
	sim_unlock();
	if (!ctx)
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult result = push((CUcontext)ctx);
	*out = result == CUDA_SUCCESS ? (CUcontext)ctx : NULL;
	return result;
}
SIM_FN(cuCtxCreate, S_DEV, (CUcontext * out, unsigned flags, CUdevice dev), create(out, flags, dev))
SIM_FN(cuCtxCreate_v2, S_DEV, (CUcontext * out, unsigned flags, CUdevice dev), create(out, flags, dev))

CUresult cuCtxCreate_v3(CUcontext *out, CUexecAffinityParam *params, int count, unsigned flags, CUdevice dev)
{
	SIM_ENTER(cuCtxCreate_v3, S_DEV);
	return params || count ? CUDA_ERROR_NOT_SUPPORTED : create(out, flags, dev);
}

CUresult cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *params, unsigned flags, CUdevice dev)
{
	SIM_ENTER(cuCtxCreate_v4, S_DEV);
	return params && (params->execAffinityParams || params->cigParams) ? CUDA_ERROR_NOT_SUPPORTED
																	   : create(out, flags, dev);
}

static CUresult destroy(CUcontext handle)
{
	struct sim_ctx *ctx = (struct sim_ctx *)handle;
	if (!sim_ctx_valid(ctx) || ctx->primary || ctx->green)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (sim_current() == ctx)
		sim_thread.depth--;
	sim_lock();
	sim_ctx_teardown(ctx);
	sim_unlock();
	return CUDA_SUCCESS;
}
SIM_FN(cuCtxDestroy, S_DEV, (CUcontext ctx), destroy(ctx))
SIM_FN(cuCtxDestroy_v2, S_DEV, (CUcontext ctx), destroy(ctx))

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static CUresult attach(CUcontext *out, unsigned flags)
{
	struct sim_ctx *ctx = sim_current();
	if (!sim_ctx_valid(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!out || flags)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	ctx->uses++;
	sim_unlock();
	*out = (CUcontext)ctx;
	return CUDA_SUCCESS;
}
SIM_FN(cuCtxAttach, S_DEV, (CUcontext * out, unsigned flags), attach(out, flags))

static CUresult detach(CUcontext handle)
{
	struct sim_ctx *ctx = (struct sim_ctx *)handle;
	if (!sim_ctx_valid(ctx) || ctx != sim_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	sim_lock();
	bool last = ctx->uses == 1;
	if (!last)
		ctx->uses--;
	sim_unlock();
	return last ? destroy(handle) : CUDA_SUCCESS;
}
SIM_FN(cuCtxDetach, S_DEV, (CUcontext ctx), detach(ctx))

/* ---- questions and settings ---- */

static CUresult synchronize(struct sim_ctx *ctx)
{
	sim_lock();
	sim_trace_wait(TRACE_CONTEXT, ctx, NULL, NULL);
	/* Refused whatever the thread's mode, when a stream of this context captures. */
	CUresult result = sim_capture_in_ctx(ctx) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : sim_ctx_drain(ctx);
	if (result == CUDA_SUCCESS)
		sim_pool_host_waited(ctx->dev);
	sim_unlock();
	return result;
}
SIM_FN(cuCtxSynchronize, S_CTX, (void), synchronize(sim_current()))

CUresult cuCtxGetId(CUcontext handle, unsigned long long *id)
{
	SIM_ENTER(cuCtxGetId, S_DEV);
	struct sim_ctx *ctx = handle ? (struct sim_ctx *)handle : sim_current();
	if (!sim_ctx_valid(ctx))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	if (!id)
		return CUDA_ERROR_INVALID_VALUE;
	*id = ctx->id;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
	SIM_ENTER(cuCtxGetFlags, S_CTX);
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = sim_current()->flags;
	return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags)
{
	SIM_ENTER(cuCtxSetFlags, S_CTX);
	sim_current()->flags = flags;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned int *version)
{
	SIM_ENTER(cuCtxGetApiVersion, S_DEV);
	struct sim_ctx *ctx = handle ? (struct sim_ctx *)handle : sim_current();
	if (!sim_ctx_valid(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	*version = 3020;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	SIM_ENTER(cuCtxGetStreamPriorityRange, S_CTX);
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
	SIM_ENTER(cuCtxGetLimit, S_CTX);
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if ((unsigned)limit >= CU_LIMIT_MAX)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	*value = sim_current()->limits[limit];
	return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
	SIM_ENTER(cuCtxSetLimit, S_CTX | S_UNSAFE);
	if ((unsigned)limit >= CU_LIMIT_MAX)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	sim_current()->limits[limit] = value;
	return CUDA_SUCCESS;
}

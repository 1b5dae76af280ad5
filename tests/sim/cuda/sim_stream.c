/*
 * sim_stream.c - streams as the program sees them.
 */
#include <stdlib.h>

#include "sim_cost.h"
#include "sim_pool.h"

#define MIN_PRIORITY (-5)

/* Lock held. */
struct sim_stream *sim_stream_new(struct sim_ctx *ctx, unsigned flags)
{
	struct sim_stream *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->magic = SIM_MAGIC_STREAM;
	s->ctx = ctx;
	s->flags = flags;
	s->blocking = !(flags & CU_STREAM_NON_BLOCKING);
	s->id = sim.next_id++;
	pthread_cond_init(&s->wake, NULL);
	s->next = ctx->streams;
	ctx->streams = s;
	return s;
}

/* ---- the per-thread default stream ---- */

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;

/* A thread ends: its default streams finish their work and go. */
static void thread_ends(void *id)
{
	sim_lock();
	for (struct sim_ctx *ctx = sim.contexts; ctx; ctx = ctx->next) {
		for (struct sim_stream *s = ctx->streams, *next; s; s = next) {
			next = s->next;
			if (s->per_thread && !s->dying && s->owner == (uint64_t)(uintptr_t)id)
				sim_stream_destroy(s);
		}
	}
	sim_unlock();
}

static void thread_key_make(void)
{
	pthread_key_create(&thread_key, thread_ends);
}

static struct sim_stream *thread_stream(struct sim_ctx *ctx)
{
	uint64_t me = sim_thread_id();
	for (struct sim_stream *s = ctx->streams; s; s = s->next)
		if (s->per_thread && !s->dying && s->owner == me)
			return s;
	struct sim_stream *s = sim_stream_new(ctx, 0);
	if (s) {
		s->per_thread = true;
		s->owner = me;
		pthread_once(&thread_once, thread_key_make);
		pthread_setspecific(thread_key, (void *)(uintptr_t)me);
	}
	return s;
}

CUresult sim_stream_get(CUstream handle, bool per_thread, struct sim_stream **out)
{
	struct sim_ctx *ctx = sim_current();
	if (!handle)
		handle = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
	if (handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
		if (!sim_ctx_valid(ctx))
			return ctx ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
		*out = handle == CU_STREAM_LEGACY ? ctx->legacy : thread_stream(ctx);
		return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	*out = (struct sim_stream *)handle;
	if ((*out)->magic != SIM_MAGIC_STREAM) {
		sim_complain("use of a stream that is destroyed or never was");
		return CUDA_ERROR_INVALID_HANDLE;
	}
	return CUDA_SUCCESS;
}

/* ---- creating and destroying ---- */

static CUresult create(CUstream *out, unsigned flags, int priority)
{
	if (!out || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	struct sim_stream *s = sim_stream_new(sim_current(), flags);
	if (s) {
		s->priority = priority > 0 ? 0 : priority < MIN_PRIORITY ? MIN_PRIORITY : priority;
		sim.streams++;
	}
	sim_unlock();
	*out = (CUstream)s;
	return s ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
SIM_FN(cuStreamCreate, S_CTX, (CUstream * out, unsigned flags), create(out, flags, 0))
SIM_FN(cuStreamCreateWithPriority, S_CTX, (CUstream * out, unsigned flags, int priority),
	   create(out, flags, priority))

static CUresult sticky(const struct sim_stream *s)
{
	return __atomic_load_n(&s->ctx->sticky, __ATOMIC_ACQUIRE);
}

static CUresult destroy(CUstream handle)
{
	if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
		return CUDA_ERROR_INVALID_HANDLE;
	struct sim_stream *s;
	sim_lock();
	CUresult result = sim_stream_get(handle, false, &s);
	if (result == CUDA_SUCCESS) {
		result = sticky(s);
		sim_stream_destroy(s);
	}
	sim_unlock();
	return result;
}
SIM_FN(cuStreamDestroy, S_DEV, (CUstream handle), destroy(handle))
SIM_FN(cuStreamDestroy_v2, S_DEV, (CUstream handle), destroy(handle))

/* ---- waiting ---- */

static CUresult synchronize(bool per_thread, CUstream handle)
{
	struct sim_stream *s;
	sim_lock();
	CUresult result = sim_stream_get(handle, per_thread, &s);
	if (result == CUDA_SUCCESS)
		result = sim_capture_host_looks(s);
	if (result == CUDA_SUCCESS) {
		struct sim_ctx *ctx = s->ctx;
		sim_trace_wait(TRACE_STREAM, ctx, s, NULL);
		sim_stream_drain(s);
		sim_pool_host_waited(ctx->dev);
		result = __atomic_load_n(&ctx->sticky, __ATOMIC_ACQUIRE);
	}
	sim_unlock();
	return result;
}
SIM_TWIN(cuStreamSynchronize, _ptsz, S_DEV, (CUstream handle), synchronize, handle)

static CUresult query(bool per_thread, CUstream handle)
{
	struct sim_stream *s;
	sim_lock();
	CUresult result = sim_stream_get(handle, per_thread, &s);
	if (result == CUDA_SUCCESS)
		result = sim_capture_host_looks(s);
	if (result == CUDA_SUCCESS)
		result = sticky(s);
	if (result == CUDA_SUCCESS && !sim_stream_idle(s))
		result = CUDA_ERROR_NOT_READY;
	sim_unlock();
	return result;
}
SIM_TWIN(cuStreamQuery, _ptsz, S_HOST, (CUstream handle), query, handle)

static CUresult wait_event(bool per_thread, CUstream handle, CUevent event, unsigned flags)
{
	struct sim_stream *s;
	struct sim_event *e;
	sim_cost(COST_WAIT, 0, 1);
	sim_lock();
	CUresult result = sim_stream_get(handle, per_thread, &s);
	if (result == CUDA_SUCCESS)
		result = sim_event_get(event, &e);
	if (result == CUDA_SUCCESS) {
		sim_trace_wait(TRACE_STREAM_EVENT, s->ctx, s, e);
		result = sim_event_stream_waits(e, s, flags);
	}
	sim_unlock();
	return result;
}
SIM_TWIN(cuStreamWaitEvent, _ptsz, S_HOST, (CUstream handle, CUevent event, unsigned flags), wait_event,
		 handle, event, flags)

/* ---- questions ---- */

enum ask { ASK_ID, ASK_FLAGS, ASK_PRIORITY, ASK_CTX, ASK_DEVICE };

static CUresult ask(bool per_thread, CUstream handle, void *out, enum ask what)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_stream *s;
	sim_lock();
	CUresult result = sim_stream_get(handle, per_thread, &s);
	if (result == CUDA_SUCCESS) {
		if (what == ASK_ID)
			*(unsigned long long *)out = s->id;
		else if (what == ASK_FLAGS)
			*(unsigned int *)out = s->flags;
		else if (what == ASK_PRIORITY)
			*(int *)out = s->priority;
		else if (what == ASK_CTX)
			*(CUcontext *)out = (CUcontext)s->ctx;
		else
			*(CUdevice *)out = s->ctx->dev->ordinal;
	}
	sim_unlock();
	return result;
}
SIM_TWIN(cuStreamGetId, _ptsz, S_DEV, (CUstream s, unsigned long long *out), ask, s, out, ASK_ID)
SIM_TWIN(cuStreamGetFlags, _ptsz, S_DEV, (CUstream s, unsigned int *out), ask, s, out, ASK_FLAGS)
SIM_TWIN(cuStreamGetPriority, _ptsz, S_DEV, (CUstream s, int *out), ask, s, out, ASK_PRIORITY)
SIM_TWIN(cuStreamGetCtx, _ptsz, S_DEV, (CUstream s, CUcontext *out), ask, s, out, ASK_CTX)
SIM_TWIN(cuStreamGetDevice, _ptsz, S_DEV, (CUstream s, CUdevice *out), ask, s, out, ASK_DEVICE)

/* ---- host functions ---- */

static CUresult host_func(bool per_thread, CUstream handle, CUhostFn fn, CUstreamCallback callback,
						  void *user)
{
	if (!fn && !callback)
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_stream *s;
	sim_lock();
	CUresult result = sim_stream_get(handle, per_thread, &s);
	if (result == CUDA_SUCCESS && callback && s->capture)
		result = sim_capture_refuse(s); /* only cuLaunchHostFunc can be captured */
	if (result == CUDA_SUCCESS) {
		struct sim_cmd *cmd = sim_cmd_new(callback ? CMD_CALLBACK : CMD_HOST);
		cmd->host.fn = fn;
		cmd->host.callback = callback;
		cmd->host.user = user;
		cmd->host.stream = handle;
		result = sim_submit(s, cmd, NULL);
	}
	sim_unlock();
	return result;
}
SIM_TWIN(cuLaunchHostFunc, _ptsz, S_DEV, (CUstream s, CUhostFn fn, void *user), host_func, s, fn, NULL, user)

static CUresult add_callback(bool per_thread, CUstream s, CUstreamCallback fn, void *user, unsigned flags)
{
	return flags ? CUDA_ERROR_INVALID_VALUE : host_func(per_thread, s, NULL, fn, user);
}
SIM_TWIN(cuStreamAddCallback, _ptsz, S_DEV, (CUstream s, CUstreamCallback fn, void *user, unsigned flags),
		 add_callback, s, fn, user, flags)

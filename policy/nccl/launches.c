/* launches.c - see launches.h. */
#define _GNU_SOURCE
#include "launches.h"

#include <pthread.h>
#include <string.h>

#include "log.h"
#include "real.h"

#define SLOT_MASK (LAUNCHES - 1u)
#define SLOT_BITS 12
_Static_assert(1u << SLOT_BITS == LAUNCHES, "");

static struct launch table[LAUNCHES];
static struct gpu gpus[GPU_CONTEXTS];

static struct {
	_Atomic uint32_t high;   /* slots ever used */
	_Atomic uint64_t blank;  /* stack of slots without events */
	_Atomic uint32_t pushed; /* slot + 1 of the newest for the sampler; seq_cst, see sampler_wake() */
	pthread_mutex_t making;  /* guards who may take a row of `gpus` */
} launches = {.making = PTHREAD_MUTEX_INITIALIZER};

/* ---- stacks ---- */

/* Release: who pops it sees what was done with it. */
static void stack_push(_Atomic uint64_t *top, struct launch *l)
{
	uint64_t was = atomic_load_explicit(top, memory_order_relaxed), now;
	uint32_t slot = (uint32_t)(l - table);

	do {
		atomic_store_explicit(&l->next, (uint32_t)was, memory_order_relaxed);
		now = ((was >> 32) + 1) << 32 | (slot + 1);
	} while (
		!atomic_compare_exchange_weak_explicit(top, &was, now, memory_order_release, memory_order_relaxed));
}

/* The upper half counts changes, so that a `next` that was read too late is not put in its place. */
static struct launch *stack_pop(_Atomic uint64_t *top)
{
	uint64_t was = atomic_load_explicit(top, memory_order_acquire), now;
	struct launch *l;

	do {
		if (!(uint32_t)was)
			return NULL;
		l = &table[(uint32_t)was - 1];
		now = ((was >> 32) + 1) << 32 | atomic_load_explicit(&l->next, memory_order_relaxed);
	} while (
		!atomic_compare_exchange_weak_explicit(top, &was, now, memory_order_acquire, memory_order_acquire));
	return l;
}

static struct launch *blank_take(void)
{
	struct launch *l = stack_pop(&launches.blank);

	if (l)
		return l;
	if (atomic_load_explicit(&launches.high, memory_order_relaxed) >= LAUNCHES)
		return NULL;
	uint32_t slot = atomic_fetch_add_explicit(&launches.high, 1, memory_order_relaxed);
	return slot < LAUNCHES ? &table[slot] : NULL;
}

/* ---- contexts ---- */

static struct gpu *gpu_find(CUcontext ctx)
{
	for (unsigned i = 0; i < GPU_CONTEXTS; i++) {
		int state = atomic_load_explicit(&gpus[i].state, memory_order_acquire);
		if ((state == GPU_LIVE || state == GPU_FAILED) &&
			atomic_load_explicit(&gpus[i].ctx, memory_order_relaxed) == ctx)
			return &gpus[i];
	}
	return NULL;
}

/* Balanced: it is active, so the release is not the last one. */
static bool is_primary(CUcontext ctx, CUdevice device)
{
	unsigned flags;
	int active = 0;
	CUcontext primary = NULL;

	if (REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active) != CUDA_SUCCESS || !active ||
		REAL(cuDevicePrimaryCtxRetain)(&primary, device) != CUDA_SUCCESS)
		return false;
	REAL(cuDevicePrimaryCtxRelease_v2)(device);
	return primary == ctx;
}

/* Around calls for a context: it is current, and the thread's captures do not mind. */
struct in_context {
	bool pushed;
	CUstreamCaptureMode mode;
};

static bool context_enter(CUcontext ctx, struct in_context *in)
{
	CUcontext current = NULL;

	in->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	if (REAL(cuThreadExchangeStreamCaptureMode)(&in->mode) != CUDA_SUCCESS)
		return false;
	in->pushed = REAL(cuCtxGetCurrent)(&current) == CUDA_SUCCESS && current != ctx;
	if (!in->pushed || REAL(cuCtxPushCurrent_v2)(ctx) == CUDA_SUCCESS)
		return true;
	REAL(cuThreadExchangeStreamCaptureMode)(&in->mode);
	return false;
}

static void context_leave(struct in_context *in)
{
	CUcontext popped;

	if (in->pushed)
		REAL(cuCtxPopCurrent_v2)(&popped);
	REAL(cuThreadExchangeStreamCaptureMode)(&in->mode);
}

static struct gpu *gpu_row(CUcontext ctx, CUdevice device, bool primary)
{
	struct gpu *gpu;

	pthread_mutex_lock(&launches.making);
	gpu = gpu_find(ctx); /* another thread was first */
	for (unsigned i = 0; i < GPU_CONTEXTS && !gpu; i++) {
		if (atomic_load_explicit(&gpus[i].state, memory_order_acquire) != GPU_NONE)
			continue;
		gpu = &gpus[i];
		gpu->device = device;
		gpu->primary = primary;
		atomic_store_explicit(&gpu->ctx, ctx, memory_order_relaxed);
		atomic_store_explicit(&gpu->state, GPU_LIVE, memory_order_release);
	}
	pthread_mutex_unlock(&launches.making);
	return gpu;
}

static struct gpu *gpu_make(CUcontext ctx)
{
	struct in_context in;
	CUdevice device = -1;
	bool primary = false;

	if (!context_enter(ctx, &in))
		return NULL;
	if (REAL(cuCtxGetDevice)(&device) == CUDA_SUCCESS)
		primary = is_primary(ctx, device);
	context_leave(&in);
	return device < 0 ? NULL : gpu_row(ctx, device, primary);
}

static bool is_default(CUstream stream)
{
	return !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

static struct gpu *gpu_of(CUstream stream, int device)
{
	CUcontext ctx = NULL;
	CUresult r = is_default(stream) ? REAL(cuCtxGetCurrent)(&ctx) : REAL(cuStreamGetCtx)(stream, &ctx);

	if (r != CUDA_SUCCESS || !ctx)
		return NULL;
	struct gpu *gpu = gpu_find(ctx);
	if (!gpu)
		gpu = gpu_make(ctx);
	if (!gpu || atomic_load_explicit(&gpu->state, memory_order_relaxed) != GPU_LIVE)
		return NULL;
	/* NCCL makes the communicator's device current before it launches. */
	return is_default(stream) && device >= 0 && gpu->device != device ? NULL : gpu;
}

void gpu_failed(struct gpu *gpu, CUresult error)
{
	int live = GPU_LIVE;

	if (atomic_compare_exchange_strong(&gpu->state, &live, GPU_FAILED))
		log_once(
			LOG_INFO,
			"nccl: device %d answers with CUDA error %d; how far its collectives get is not followed any more",
			gpu->device, (int)error);
}

void gpus_gone(CUcontext ctx, int device)
{
	for (unsigned i = 0; i < GPU_CONTEXTS; i++) {
		struct gpu *gpu = &gpus[i];
		int state = atomic_load_explicit(&gpu->state, memory_order_acquire);
		if (state != GPU_LIVE && state != GPU_FAILED)
			continue;
		/* A primary context is not ended by its handle. */
		if (ctx ? atomic_load(&gpu->ctx) != ctx || gpu->primary : !(gpu->primary && gpu->device == device))
			continue;
		/* seq_cst: the sampler sees it before its next driver call. */
		atomic_fetch_add(&gpu->life, 1);
		atomic_store(&gpu->state, GPU_GONE);
	}
}

void gpus_bury(void)
{
	struct launch *l;

	for (unsigned i = 0; i < GPU_CONTEXTS; i++) {
		if (atomic_load_explicit(&gpus[i].state, memory_order_acquire) != GPU_GONE)
			continue;
		while ((l = stack_pop(&gpus[i].free)))
			stack_push(&launches.blank, l);
		atomic_store_explicit(&gpus[i].state, GPU_NONE, memory_order_release);
	}
}

/* ---- launches ---- */

static bool make_events(struct launch *l, struct gpu *gpu)
{
	struct in_context in;
	CUcontext ctx = atomic_load_explicit(&gpu->ctx, memory_order_relaxed);

	l->gpu_life = atomic_load_explicit(&gpu->life, memory_order_relaxed);
	if (!context_enter(ctx, &in))
		return false;
	bool ok = REAL(cuEventCreate)(&l->begin, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
	if (ok && REAL(cuEventCreate)(&l->end, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
		REAL(cuEventDestroy_v2)(l->begin);
		ok = false;
	}
	context_leave(&in);
	l->gpu = gpu;
	return ok;
}

/* Of the context's own; one that was given back while an earlier context ended here has dead events. */
static struct launch *ready_take(struct gpu *gpu)
{
	unsigned life = atomic_load_explicit(&gpu->life, memory_order_relaxed);
	struct launch *l;

	while ((l = stack_pop(&gpu->free)) && l->gpu_life != life)
		stack_push(&launches.blank, l);
	return l;
}

struct launch *launch_take(CUstream stream, int device)
{
	struct gpu *gpu = gpu_of(stream, device);
	struct launch *l = gpu ? ready_take(gpu) : NULL;

	if (gpu && !l && (l = blank_take()) && !make_events(l, gpu)) {
		stack_push(&launches.blank, l);
		l = NULL;
	}
	if (!l)
		return NULL;
	uint32_t uses = (l->number >> SLOT_BITS) + 1;
	l->number = uses << SLOT_BITS | (uint32_t)(l - table);
	if (!l->number) /* slot 0, all uses through */
		l->number = 1u << SLOT_BITS;
	l->handle = stream;
	l->stream = stream == CU_STREAM_PER_THREAD ? (uint64_t)pthread_self() : (uint64_t)(uintptr_t)stream;
	return l;
}

struct launch *launch_of(uint32_t number)
{
	struct launch *l = &table[number & SLOT_MASK];
	return number && l->number == number ? l : NULL;
}

void launch_push(struct launch *l)
{
	uint32_t was = atomic_load_explicit(&launches.pushed, memory_order_relaxed);

	do
		atomic_store_explicit(&l->next, was, memory_order_relaxed);
	while (!atomic_compare_exchange_weak(&launches.pushed, &was, (uint32_t)(l - table) + 1));
}

struct launch *launch_pushed(void)
{
	uint32_t at = atomic_exchange(&launches.pushed, 0);
	struct launch *first = NULL;

	while (at) {
		struct launch *l = &table[at - 1];
		at = atomic_load_explicit(&l->next, memory_order_relaxed);
		l->newer = first;
		first = l;
	}
	return first;
}

bool launch_alive(const struct launch *l)
{
	return atomic_load(&l->gpu->life) == l->gpu_life;
}

void launch_give(struct launch *l)
{
	stack_push(launch_alive(l) ? &l->gpu->free : &launches.blank, l);
}

void launches_fork_child(void)
{
	pthread_mutex_init(&launches.making, NULL);
	atomic_store(&launches.high, 0);
	atomic_store(&launches.blank, 0);
	atomic_store(&launches.pushed, 0);
	for (unsigned i = 0; i < GPU_CONTEXTS; i++) {
		atomic_store(&gpus[i].state, GPU_NONE);
		atomic_store(&gpus[i].free, 0);
	}
}

/* pinned_ctx.c - see pinned_ctx.h. */
#define _GNU_SOURCE
#include "pinned_ctx.h"

#include <pthread.h>

#include "capture.h"
#include "clock.h"
#include "log.h"
#include "pinned_keep.h"
#include "pinned_table.h"
#include "real.h"
#include "stats.h"

#define RETIRE_NS 2000000000ull

enum { CTX_FREE, CTX_BUSY, CTX_READY, CTX_LEFT };

struct pinned_ctx pinned_ctxs[PINNED_CTXS];

/* pinned_ctxs[0 .. top) have ever been used; only grows. Release: what find() reads is there. */
static _Atomic unsigned top;
/* There was no place for a context: whose work it would be is not known any more. Never false again. */
static _Atomic bool overflow;

static int state_of(struct pinned_ctx *c)
{
	return atomic_load_explicit(&c->state, memory_order_acquire);
}

/* ---- holding ---- */

bool pinned_ctx_hold(struct pinned_ctx *c)
{
	/* seq_cst against retire(): it sees the user, or the user sees the new state. */
	atomic_fetch_add_explicit(&c->users, 1, memory_order_seq_cst);
	if (atomic_load_explicit(&c->state, memory_order_seq_cst) == CTX_READY)
		return true;
	pinned_ctx_put(c);
	return false;
}

void pinned_ctx_put(struct pinned_ctx *c)
{
	atomic_fetch_sub_explicit(&c->users, 1, memory_order_release);
}

unsigned pinned_ctx_count(void)
{
	return atomic_load_explicit(&top, memory_order_acquire);
}

static struct pinned_ctx *find(CUcontext ctx)
{
	unsigned n = pinned_ctx_count();
	for (unsigned i = 0; i < n; i++)
		if (atomic_load_explicit(&pinned_ctxs[i].ctx, memory_order_relaxed) == ctx)
			return &pinned_ctxs[i];
	return NULL;
}

/* ---- calls in a context ---- */

bool pinned_relaxed_begin(CUstreamCaptureMode *mode)
{
	*mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	return REAL(cuThreadExchangeStreamCaptureMode)(mode) == CUDA_SUCCESS;
}

/* Once more when it fails: the program must find its thread as it left it. */
void pinned_relaxed_end(CUstreamCaptureMode mode)
{
	CUstreamCaptureMode again = mode;
	if (REAL(cuThreadExchangeStreamCaptureMode)(&mode) != CUDA_SUCCESS)
		REAL(cuThreadExchangeStreamCaptureMode)(&again);
}

static void pop(void)
{
	CUcontext popped;
	if (REAL(cuCtxPopCurrent_v2)(&popped) != CUDA_SUCCESS)
		REAL(cuCtxPopCurrent_v2)(&popped);
}

static bool enter(CUcontext ctx, struct pinned_call *call)
{
	CUcontext current = NULL;
	if (REAL(cuCtxGetCurrent)(&current) != CUDA_SUCCESS)
		return false;
	call->pushed = current != ctx;
	if (call->pushed && REAL(cuCtxPushCurrent_v2)(ctx) != CUDA_SUCCESS)
		return false;
	if (pinned_relaxed_begin(&call->mode))
		return true;
	if (call->pushed)
		pop();
	return false;
}

bool pinned_enter(struct pinned_ctx *c, struct pinned_call *call)
{
	return enter(atomic_load_explicit(&c->ctx, memory_order_relaxed), call);
}

void pinned_leave(const struct pinned_call *call)
{
	pinned_relaxed_end(call->mode);
	if (call->pushed)
		pop();
}

bool pinned_ctx_alive(const struct pinned_ctx *c)
{
	CUstreamCaptureMode mode;
	if (!pinned_relaxed_begin(&mode))
		return false;
	CUresult r = REAL(cuEventQuery)(c->alive);
	pinned_relaxed_end(mode);
	return r == CUDA_SUCCESS;
}

/* ---- making ---- */

bool pinned_green(void)
{
	return stats_cell_sum(HOOK_cuCtxFromGreenCtx) || stats_cell_sum(HOOK_cuGreenCtxCreate);
}

static unsigned long long id_of(CUcontext ctx)
{
	unsigned long long id = 0;
	if (!REAL_HAS(cuCtxGetId) || REAL(cuCtxGetId)(ctx, &id) != CUDA_SUCCESS)
		return 0;
	return id;
}

/* The device's primary context if there is one, else NULL. */
static CUcontext primary_of(int device)
{
	unsigned flags;
	int active = 0;
	CUcontext primary = NULL;
	if (REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active) != CUDA_SUCCESS || !active ||
		REAL(cuDevicePrimaryCtxRetain)(&primary, device) != CUDA_SUCCESS)
		return NULL;
	/* Balanced: it was active, so this cannot be the last reference. */
	REAL(cuDevicePrimaryCtxRelease_v2)(device);
	return primary;
}

static struct pinned_ctx *claim(CUcontext ctx)
{
	struct pinned_ctx *c = NULL;
	pthread_mutex_lock(&pinned_lock);
	if (!find(ctx)) {
		unsigned i = 0;
		while (i < PINNED_CTXS &&
			   (state_of(&pinned_ctxs[i]) != CTX_FREE || atomic_load(&pinned_ctxs[i].users)))
			i++;
		if (i < PINNED_CTXS) {
			c = &pinned_ctxs[i];
			atomic_store_explicit(&c->state, CTX_BUSY, memory_order_relaxed);
			atomic_store_explicit(&c->ctx, ctx, memory_order_relaxed);
			if (i >= atomic_load(&top))
				atomic_store_explicit(&top, i + 1, memory_order_release);
		} else {
			atomic_store(&overflow, true);
		}
	}
	pthread_mutex_unlock(&pinned_lock);
	return c;
}

static bool describe(struct pinned_ctx *c, CUcontext ctx)
{
	struct pinned_call call;
	CUdevice device;
	if (!enter(ctx, &call))
		return false;
	bool ok = REAL(cuCtxGetDevice)(&device) == CUDA_SUCCESS &&
			  REAL(cuEventCreate)(&c->alive, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
	if (ok) {
		c->device = device;
		c->id = id_of(ctx);
		c->primary = primary_of(device) == ctx;
		c->n_events = 0;
	}
	pinned_leave(&call);
	return ok;
}

/* NULL: it cannot be known now, or another thread is making it. */
static struct pinned_ctx *known(CUcontext ctx)
{
	struct pinned_ctx *c = find(ctx);
	if (!c && (c = claim(ctx))) {
		bool ok = describe(c, ctx);
		if (!ok)
			atomic_store_explicit(&c->ctx, NULL, memory_order_relaxed);
		atomic_store_explicit(&c->state, ok ? CTX_READY : CTX_FREE, memory_order_release);
	}
	return c && state_of(c) == CTX_READY ? c : NULL;
}

struct pinned_ctx *pinned_ctx_current(void)
{
	CUcontext ctx = NULL;
	if (REAL(cuCtxGetCurrent)(&ctx) != CUDA_SUCCESS || !ctx)
		return NULL;
	struct pinned_ctx *c = known(ctx);
	if (!c || !pinned_ctx_hold(c))
		return NULL;
	if (!c->id || c->id == id_of(ctx))
		return c;
	pinned_ctx_put(c);
	pinned_ctx_gone(ctx, -1); /* another one at its address: its end was not seen */
	return NULL;
}

static int device_count(void)
{
	static _Atomic int count; /* every thread finds the same */
	int n = atomic_load_explicit(&count, memory_order_relaxed);
	if (!n && REAL(cuDeviceGetCount)(&n) == CUDA_SUCCESS)
		atomic_store_explicit(&count, n, memory_order_relaxed);
	return n;
}

static bool primary_known(int device)
{
	unsigned n = pinned_ctx_count();
	bool yes = false;
	for (unsigned i = 0; i < n && !yes; i++) {
		if (state_of(&pinned_ctxs[i]) != CTX_READY || !pinned_ctx_hold(&pinned_ctxs[i]))
			continue;
		yes = pinned_ctxs[i].primary && pinned_ctxs[i].device == device;
		pinned_ctx_put(&pinned_ctxs[i]);
	}
	return yes;
}

bool pinned_all_known(void)
{
	for (int device = 0, n = device_count(); device < n; device++) {
		CUcontext primary = primary_known(device) ? NULL : primary_of(device);
		if (primary && !known(primary))
			return false;
	}
	return !atomic_load_explicit(&overflow, memory_order_relaxed);
}

/* ---- waiting for the device ---- */

static CUresult synchronize(struct pinned_ctx *c)
{
	struct pinned_call call;
	if (!pinned_enter(c, &call))
		return CUDA_ERROR_INVALID_CONTEXT;
	CUresult r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (capture_hold_off()) {
		r = REAL(cuCtxSynchronize)();
		capture_let_go();
	}
	pinned_leave(&call);
	return r;
}

CUresult pinned_barrier(struct pinned_ctx *owner)
{
	CUresult r = pinned_all_known() ? synchronize(owner) : CUDA_ERROR_INVALID_CONTEXT;
	unsigned n = pinned_ctx_count();
	for (unsigned i = 0; i < n && r == CUDA_SUCCESS; i++) {
		struct pinned_ctx *c = &pinned_ctxs[i];
		if (c == owner || !pinned_ctx_hold(c))
			continue;
		/* An error of another context is none of this one's. */
		if (c->device == owner->device && synchronize(c) != CUDA_SUCCESS)
			r = CUDA_ERROR_INVALID_CONTEXT;
		pinned_ctx_put(c);
	}
	return r;
}

/* ---- the end of a context ---- */

static bool retire(struct pinned_ctx *c)
{
	uint64_t since = clock_ns();
	while (atomic_load_explicit(&c->users, memory_order_seq_cst) != 0) {
		if (clock_ns() - since > RETIRE_NS) {
			log_once(LOG_WARN, "hostmem: a context ended under a call that does not return");
			return false;
		}
		pause_poll(since);
	}
	return true;
}

bool pinned_is_primary(CUcontext ctx)
{
	struct pinned_ctx *c = find(ctx);
	if (!c || !pinned_ctx_hold(c))
		return false;
	bool primary = c->primary;
	pinned_ctx_put(c);
	return primary;
}

void pinned_ctx_gone(CUcontext ctx, int device)
{
	unsigned n = pinned_ctx_count();
	for (unsigned i = 0; i < n; i++) {
		struct pinned_ctx *c = &pinned_ctxs[i];
		int ready = CTX_READY;
		if (state_of(c) != CTX_READY ||
			(ctx ? atomic_load(&c->ctx) != ctx : !(c->primary && c->device == device)) ||
			!atomic_compare_exchange_strong(&c->state, &ready, CTX_BUSY))
			continue;
		bool quiet = retire(c);
		pinned_keep_forget(c);
		atomic_fetch_add(&c->life, 1);
		atomic_store_explicit(&c->ctx, NULL, memory_order_relaxed);
		atomic_store_explicit(&c->state, quiet ? CTX_FREE : CTX_LEFT, memory_order_release);
	}
}

void pinned_ctx_fork_child(void)
{
	for (unsigned i = 0; i < PINNED_CTXS; i++)
		atomic_store(&pinned_ctxs[i].users, 0);
}

/* pinned_fence.c - what other devices are still to do when a block is freed: see pinned_ctx.h. */
#define _GNU_SOURCE
#include "pinned_ctx.h"

#include "capture.h"
#include "pinned_table.h"
#include "real.h"

static struct pinned_fence fences[PINNED_FENCES];
static struct pinned_fence *unused_fences; /* pinned_lock */
static unsigned fresh_fences;              /* pinned_lock */

static struct pinned_fence *fence_new(void)
{
	pthread_mutex_lock(&pinned_lock);
	struct pinned_fence *f = unused_fences;
	if (f)
		unused_fences = f->next;
	else if (fresh_fences < PINNED_FENCES)
		f = &fences[fresh_fences++];
	pthread_mutex_unlock(&pinned_lock);
	if (f)
		f->n = 0;
	return f;
}

static void fence_end(struct pinned_fence *f)
{
	pthread_mutex_lock(&pinned_lock);
	f->next = unused_fences;
	unused_fences = f;
	pthread_mutex_unlock(&pinned_lock);
}

/* `c` is current. */
static CUevent event_take(struct pinned_ctx *c)
{
	CUevent event = NULL;
	pthread_mutex_lock(&pinned_lock);
	if (c->n_events)
		event = c->event[--c->n_events];
	pthread_mutex_unlock(&pinned_lock);
	if (!event && REAL(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
		return NULL;
	return event;
}

/* `c` is held. */
static void event_give(struct pinned_ctx *c, CUevent event)
{
	pthread_mutex_lock(&pinned_lock);
	bool room = c->n_events < PINNED_CTX_EVENTS;
	if (room)
		c->event[c->n_events++] = event;
	pthread_mutex_unlock(&pinned_lock);
	if (!room)
		REAL(cuEventDestroy_v2)(event);
}

/* `c` is held. */
static bool record_on(struct pinned_fence *f, struct pinned_ctx *c)
{
	struct pinned_call call;
	CUevent event;
	if (f->n == PINNED_FENCE_MOST || !pinned_enter(c, &call))
		return false;
	bool ok = (event = event_take(c)) != NULL;
	if (ok) {
		f->at[f->n].ctx = c;
		f->at[f->n].life = atomic_load_explicit(&c->life, memory_order_relaxed);
		f->at[f->n++].event = event;
		ok = capture_hold_off();
		if (ok) {
			ok = REAL(cuCtxRecordEvent)(atomic_load_explicit(&c->ctx, memory_order_relaxed), event) ==
				 CUDA_SUCCESS;
			capture_let_go();
		}
	}
	pinned_leave(&call);
	return ok;
}

enum pinned_elsewhere pinned_fence_record(int device, struct pinned_fence **fence)
{
	struct pinned_fence *f = NULL;
	bool ok = pinned_all_known();
	unsigned n = pinned_ctx_count();
	for (unsigned i = 0; i < n && ok; i++) {
		struct pinned_ctx *c = &pinned_ctxs[i];
		if (!pinned_ctx_hold(c))
			continue;
		if (c->device != device)
			ok = (f || (REAL_HAS(cuCtxRecordEvent) && (f = fence_new()))) && record_on(f, c);
		pinned_ctx_put(c);
	}
	enum pinned_elsewhere is = !ok ? PINNED_UNSURE : f ? pinned_fence_look(f) : PINNED_IDLE;
	if (!ok && f)
		pinned_fence_drop(f);
	*fence = is == PINNED_AHEAD ? f : NULL;
	return is;
}

/* The context of event i, held, if it is still the one that was recorded on. */
static struct pinned_ctx *still_there(const struct pinned_fence *f, unsigned i)
{
	struct pinned_ctx *c = f->at[i].ctx;
	if (!pinned_ctx_hold(c))
		return NULL;
	if (atomic_load_explicit(&c->life, memory_order_relaxed) == f->at[i].life)
		return c;
	pinned_ctx_put(c);
	return NULL;
}

enum pinned_elsewhere pinned_fence_look(struct pinned_fence *f)
{
	for (; f->n; f->n--) {
		struct pinned_ctx *c = still_there(f, f->n - 1);
		CUstreamCaptureMode mode;
		if (!c)
			continue; /* its end has waited for its work, and took the event along */
		CUresult r = CUDA_ERROR_NOT_READY;
		if (pinned_relaxed_begin(&mode)) {
			r = REAL(cuEventQuery)(f->at[f->n - 1].event);
			pinned_relaxed_end(mode);
		}
		if (r == CUDA_SUCCESS)
			event_give(c, f->at[f->n - 1].event);
		pinned_ctx_put(c);
		if (r == CUDA_ERROR_NOT_READY)
			return PINNED_AHEAD;
		if (r != CUDA_SUCCESS) {
			pinned_fence_drop(f);
			return PINNED_UNSURE;
		}
	}
	fence_end(f);
	return PINNED_IDLE;
}

void pinned_fence_drop(struct pinned_fence *f)
{
	for (; f->n; f->n--) {
		struct pinned_ctx *c = still_there(f, f->n - 1);
		if (!c)
			continue;
		event_give(c, f->at[f->n - 1].event);
		pinned_ctx_put(c);
	}
	fence_end(f);
}

static struct pinned_fence *abandoned; /* pinned_lock */

void pinned_fence_abandon(struct pinned_fence *f)
{
	f->next = abandoned;
	abandoned = f;
}

void pinned_fence_sweep(void)
{
	pthread_mutex_lock(&pinned_lock);
	struct pinned_fence *f = abandoned, *next;
	abandoned = NULL;
	pthread_mutex_unlock(&pinned_lock);
	for (; f; f = next) {
		next = f->next;
		pinned_fence_drop(f);
	}
}

/* fence.c - see fence.h. */
#define _GNU_SOURCE
#include "fence.h"

#include "cache_space.h"
#include "capture.h"
#include "calls.h"

static CUevent event_new(struct space *s)
{
	struct space_call call;
	CUevent event = NULL;
	if (!space_enter(s, &call))
		return NULL;
	if (REAL(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
		event = NULL;
	space_leave(&call);
	return event;
}

static CUevent event_take(struct space *s)
{
	CUevent event = NULL;
	pthread_mutex_lock(&s->lock);
	if (s->events.n)
		event = s->events.event[--s->events.n];
	pthread_mutex_unlock(&s->lock);
	return event ? event : event_new(s);
}

/* `s` is held. */
static void event_give(struct space *s, CUevent event)
{
	pthread_mutex_lock(&s->lock);
	bool room = s->events.n < FENCE_EVENTS;
	if (room)
		s->events.event[s->events.n++] = event;
	pthread_mutex_unlock(&s->lock);
	if (!room)
		REAL(cuEventDestroy_v2)(event);
}

static bool record_on(struct fence *f, struct space *s)
{
	CUevent event = event_take(s);
	if (!event)
		return false;
	f->at[f->n].space = s;
	f->at[f->n].life = atomic_load_explicit(&s->life, memory_order_relaxed);
	f->at[f->n++].event = event;
	if (!capture_hold_off())
		return false;
	CUresult r = REAL(cuCtxRecordEvent)(atomic_load_explicit(&s->ctx, memory_order_relaxed), event);
	capture_let_go();
	return r == CUDA_SUCCESS;
}

bool fence_record(struct fence *f, struct space *owner)
{
	struct space *peers[SPACE_PEERS];
	int n = space_peers(owner, peers);
	bool ok = n >= 0 && n < FENCE_MOST;
	f->n = 0;
	if (ok)
		ok = record_on(f, owner);
	for (int i = 0; i < n; i++) {
		if (ok)
			ok = record_on(f, peers[i]);
		space_put(peers[i]);
	}
	if (!ok)
		fence_drop(f);
	return ok;
}

/* The space of event i, held, if its context is still the one that was recorded on. */
static struct space *still_there(const struct fence *f, unsigned i)
{
	struct space *s = f->at[i].space;
	if (!space_hold(s))
		return NULL;
	if (atomic_load_explicit(&s->life, memory_order_relaxed) == f->at[i].life)
		return s;
	space_put(s);
	return NULL;
}

enum fence_state fence_look(struct fence *f)
{
	for (; f->n; f->n--) {
		unsigned i = f->n - 1;
		struct space *s = still_there(f, i);
		if (!s)
			continue; /* its end has waited for its work, and took the event along */
		CUresult r = REAL(cuEventQuery)(f->at[i].event);
		if (r == CUDA_SUCCESS)
			event_give(s, f->at[i].event);
		space_put(s);
		if (r != CUDA_SUCCESS)
			return r == CUDA_ERROR_NOT_READY ? FENCE_AHEAD : FENCE_FAILED;
	}
	return FENCE_PASSED;
}

void fence_drop(struct fence *f)
{
	for (; f->n; f->n--) {
		struct space *s = still_there(f, f->n - 1);
		if (!s)
			continue;
		event_give(s, f->at[f->n - 1].event);
		space_put(s);
	}
}

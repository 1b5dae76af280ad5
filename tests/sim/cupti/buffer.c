/*
 * buffer.c - the client's buffers: whose they are, and the worker that gives them back once all their
 * records are complete.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "buffer.h"

static pthread_key_t slot_key;
static pthread_once_t slot_once = PTHREAD_ONCE_INIT;
static bool stopping; /* the worker is to end */

/* ---- slots ---- */

static void slot_leave(void *arg)
{
	struct slot *slot = arg;
	if (forked_child())
		return;
	pthread_mutex_lock(&cu.lock);
	slot->taken = false;
	pthread_mutex_unlock(&cu.lock);
}

static void slot_key_make(void)
{
	pthread_key_create(&slot_key, slot_leave);
}

struct slot *slot_mine(void)
{
	if (!cu.per_thread)
		return &cu.common;
	if (me.slot)
		return me.slot;
	struct slot *slot = cu.slots;
	while (slot && slot->taken)
		slot = slot->next;
	if (!slot) {
		slot = calloc(1, sizeof *slot);
		if (!slot)
			abort();
		slot->next = cu.slots;
		cu.slots = slot;
	}
	slot->taken = true;
	me.slot = slot;
	pthread_once(&slot_once, slot_key_make);
	pthread_setspecific(slot_key, slot);
	return slot;
}

/* ---- delivering ---- */

void buffer_queue(struct buffer *b)
{
	b->next = NULL;
	*cu.ready_tail = b;
	cu.ready_tail = &b->next;
	cu.queued++;
	pthread_cond_signal(&cu.work);
}

void slot_retire(struct slot *slot)
{
	struct buffer *b = slot->buffer;
	slot->buffer = NULL;
	if (!b)
		return;
	b->full = true;
	if (!b->pending) {
		buffer_queue(b);
		return;
	}
	b->next = NULL;
	*cu.full_tail = b;
	cu.full_tail = &b->next;
}

void buffer_ready(struct buffer *b)
{
	for (struct buffer **p = &cu.full; *p; p = &(*p)->next) {
		if (*p != b)
			continue;
		*p = b->next;
		if (!*p)
			cu.full_tail = p;
		buffer_queue(b);
		return;
	}
}

/* Records that have not run stay as they are: without times. */
static void abandon(struct buffer *b)
{
	for (struct item *i = b->items; i; i = i->next)
		i->buffer = NULL;
	b->items = NULL;
	b->pending = 0;
}

static void deliver(struct buffer *b)
{
	CUpti_BuffersCallbackCompleteFunc complete = cu.complete;
	static uint64_t nth; /* guarded by cu.lock */
	uint64_t keep = fault(FAULT_KEEP);
	if ((keep && ++nth % keep == 0) || !complete) {
		b->next = cu.kept;
		cu.kept = b;
		return;
	}
	cu.delivering = true;
	pthread_mutex_unlock(&cu.lock);
	if (fault(FAULT_SLOW))
		usleep((useconds_t)fault(FAULT_SLOW));
	me.inside = INSIDE_COMPLETE;
	complete(NULL, 0, b->at, b->size, b->used);
	me.inside = INSIDE_NOTHING;
	for (struct name *n = b->names, *next; n; n = next) {
		next = n->next;
		memset(n->text, '?', strlen(n->text));
		free(n);
	}
	free(b);
	pthread_mutex_lock(&cu.lock);
	cu.delivering = false;
	cu.held--;
}

static void *worker_main(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&cu.lock);
	for (;;) {
		while (!stopping && (!cu.ready || (cu.in_exit && !fault(FAULT_AT_EXIT))))
			pthread_cond_wait(&cu.work, &cu.lock);
		if (stopping)
			break;
		struct buffer *b = cu.ready;
		cu.ready = b->next;
		if (!cu.ready)
			cu.ready_tail = &cu.ready;
		deliver(b);
		cu.done++;
		pthread_cond_broadcast(&cu.delivered);
	}
	pthread_mutex_unlock(&cu.lock);
	return NULL;
}

void worker_start(void)
{
	sigset_t all, old;
	if (cu.has_worker)
		return;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	cu.has_worker = pthread_create(&cu.worker, NULL, worker_main, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!cu.has_worker)
		abort();
}

void buffers_queue(bool forced)
{
	struct slot *slot = &cu.common;
	for (struct slot *next = cu.slots; slot; slot = next, next = slot ? slot->next : NULL) {
		struct buffer *b = slot->buffer;
		if (!b || (b->pending && !forced) || (!b->used && !forced))
			continue;
		slot->buffer = NULL;
		abandon(b);
		buffer_queue(b);
	}
	while (forced && cu.full) {
		struct buffer *b = cu.full;
		cu.full = b->next;
		abandon(b);
		buffer_queue(b);
	}
	if (forced)
		cu.full_tail = &cu.full;
}

void buffers_wait(void)
{
	for (uint64_t target = cu.queued; cu.has_worker && cu.done < target;)
		pthread_cond_wait(&cu.delivered, &cu.lock);
}

void buffers_forget(void)
{
	pthread_mutex_lock(&cu.lock);
	bool lose = fault(FAULT_LOSE) != 0;
	if (!lose)
		buffers_queue(true);
	if (!lose)
		buffers_wait();
	bool join = cu.has_worker;
	__atomic_fetch_add(&cu.generation, 1, __ATOMIC_RELEASE);
	state_forget();
	stopping = true;
	cu.has_worker = false;
	pthread_cond_signal(&cu.work);
	pthread_mutex_unlock(&cu.lock);
	if (join)
		pthread_join(cu.worker, NULL);
	pthread_mutex_lock(&cu.lock);
	stopping = false;
	buffers_queue(true); /* what is left: the client never sees it again */
	while (cu.ready) {
		struct buffer *b = cu.ready;
		cu.ready = b->next;
		b->next = cu.kept;
		cu.kept = b;
	}
	cu.ready_tail = &cu.ready;
	cu.done = cu.queued;
	pthread_cond_broadcast(&cu.delivered);
	pthread_mutex_unlock(&cu.lock);
}

CUptiResult flush(bool forced)
{
	pthread_mutex_lock(&cu.lock);
	CUptiResult result = cu.request ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_OPERATION;
	bool early = cu.request && !cu.ever_asked;
	if (result == CUPTI_SUCCESS) {
		buffers_queue(forced);
		buffers_wait();
	}
	pthread_mutex_unlock(&cu.lock);
	if (early && fault(FAULT_STRICT))
		complain("a flush before the first buffer was requested can hang");
	return result;
}

/* ---- the end of the process ---- */

__attribute__((destructor)) static void exits(void)
{
	if (forked_child())
		return;
	pthread_mutex_lock(&cu.lock);
	cu.in_exit = true;
	if (fault(FAULT_AT_EXIT) && me.inside == INSIDE_NOTHING) {
		buffers_queue(true);
		buffers_wait();
	}
	pthread_mutex_unlock(&cu.lock);
}

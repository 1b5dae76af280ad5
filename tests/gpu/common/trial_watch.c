/*
 * trial_watch.c - the events of a trial, and threads that ask about them all the time: what is over stays over until it is
 * recorded again, and what it stands for has arrived. As a framework's watchdog does, which knows nothing of the rest.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trial_rank.h"
#include "util.h"

#define me trial_me
#define WATCHERS_MAX 16
#define STANDARD CU_EVENT_DISABLE_TIMING

/* Written by the thread that carries out; read by all: atomics. A record is begun and ended by generation + 1. */
struct watched {
	uint32_t generation; /* odd: is being recorded */
	uint32_t over;       /* generation that has been seen to be over */
	uint32_t watch;      /* what is watched plus one; 0: nothing */
	uint32_t comm, bytes;
	CUevent event;
	unsigned flags;
	pthread_rwlock_t alive; /* written to by who destroys it */
};

static struct watched events[TRIAL_EVENTS];
static uint32_t running; /* atomic */
static pthread_mutex_t pause_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t pause_over = PTHREAD_COND_INITIALIZER;
static int asking; /* pause_lock: threads that may be in a call */

#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_SEQ_CST)
#define STORE(x, v) __atomic_store_n(&(x), (v), __ATOMIC_SEQ_CST)

/* The gather of what all have in their last unit. */
static bool arrived(const struct watched *e, uint32_t watch)
{
	const struct trial_comm *c = &me.trial.comm[LOAD(e->comm)];
	uint32_t bytes = LOAD(e->bytes);
	const volatile uint64_t *at =
		(const uint64_t *)(uintptr_t)trial_at((TRIAL_FIRST_WATCHED + watch - 1) * TRIAL_UNIT);
	uint64_t want[TRIAL_UNIT / 8];

	for (int i = 0; i < c->n; i++) {
		trial_constant((unsigned char *)want, me.trial.seed, c->rank[i], bytes);
		for (uint32_t k = 0; k < bytes / 8; k++)
			if (__atomic_load_n(at++, __ATOMIC_RELAXED) != want[k])
				return false;
	}
	return true;
}

static bool judge(struct watched *e, int number, uint32_t generation, uint32_t watch, bool was_over,
				  CUresult r)
{
	bool there = r != CUDA_SUCCESS || !watch || arrived(e, watch);

	if (r != CUDA_SUCCESS && r != CUDA_ERROR_NOT_READY)
		return trial_good(r, "a question about an event");
	/* It may have been recorded again, or its memory be used again, meanwhile. */
	if (LOAD(e->generation) != generation || generation % 2)
		return true;
	if (r == CUDA_ERROR_NOT_READY && was_over)
		return trial_fails("event %d was over and is not any more", number);
	if (!there && LOAD(e->watch) == watch)
		return trial_fails("event %d is over, and its gather has not arrived", number);
	if (r == CUDA_SUCCESS)
		STORE(e->over, generation);
	return true;
}

static CUresult ask_once(int number, bool wait, bool *ok)
{
	struct watched *e = &events[number];
	uint32_t generation = LOAD(e->generation), watch = LOAD(e->watch);
	bool was_over = LOAD(e->over) == generation;
	CUresult r;

	pthread_rwlock_rdlock(&e->alive);
	if (generation != LOAD(e->generation))
		watch = 0;
	r = wait ? cu.cuEventSynchronize(e->event) : cu.cuEventQuery(e->event);
	pthread_rwlock_unlock(&e->alive);
	*ok = judge(e, number, generation, watch, was_over, r);
	return r;
}

bool watch_ask(int event, bool wait, bool until)
{
	bool ok = true;

	while (ask_once(event, wait, &ok) == CUDA_ERROR_NOT_READY && ok && until)
		usleep(100);
	return ok;
}

/* ---- threads ---- */

static void aborts(void)
{
	cu.cuCtxSetCurrent(me.ctx);
	trial_abort_all();
	STORE(me.page->rank[me.rank].aborted, 1);
}

static void *watch_main(void *first)
{
	uint64_t state = now_ns() | 1;
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	unsigned us = (unsigned)atoi(getenv("TRIAL_WATCH_US") ? getenv("TRIAL_WATCH_US") : "300");
	bool ok = true;

	cu.cuCtxSetCurrent(me.ctx);
	cu.cuThreadExchangeStreamCaptureMode(&mode);
	for (;;) {
		pthread_mutex_lock(&pause_lock);
		while (!LOAD(running))
			pthread_cond_wait(&pause_over, &pause_lock);
		asking++;
		pthread_mutex_unlock(&pause_lock);
		for (int i = 0; i < 8 && LOAD(running); i++) {
			ask_once((int)random_below(&state, TRIAL_EVENTS), false, &ok);
			if (us)
				usleep(us);
		}
		if (first && LOAD(me.page->abort) && !LOAD(me.page->rank[me.rank].aborted))
			aborts();
		pthread_mutex_lock(&pause_lock);
		asking--;
		pthread_cond_broadcast(&pause_over);
		pthread_mutex_unlock(&pause_lock);
	}
	return NULL;
}

bool watch_init(void)
{
	int n = atoi(getenv("TRIAL_WATCHERS") ? getenv("TRIAL_WATCHERS") : "1");
	pthread_t thread;

	for (int i = 0; i < TRIAL_EVENTS; i++) {
		events[i].flags = STANDARD;
		pthread_rwlock_init(&events[i].alive, NULL);
		if (!trial_good(cu.cuEventCreate(&events[i].event, STANDARD), "cuEventCreate"))
			return false;
	}
	for (int i = 0; i < n && i < WATCHERS_MAX; i++) {
		if (pthread_create(&thread, NULL, watch_main, i ? NULL : &events) != 0)
			return false;
		pthread_detach(thread);
	}
	return true;
}

void watch_run(bool on)
{
	pthread_mutex_lock(&pause_lock);
	STORE(running, on);
	pthread_cond_broadcast(&pause_over);
	while (!on && asking)
		pthread_cond_wait(&pause_over, &pause_lock);
	pthread_mutex_unlock(&pause_lock);
}

bool watch_reset(void)
{
	bool ok = true;

	for (int i = 0; i < TRIAL_EVENTS && ok; i++) {
		STORE(events[i].watch, 0);
		if (events[i].flags != STANDARD)
			ok = watch_anew(i, STANDARD);
	}
	return ok;
}

/* ---- what the script does ---- */

CUevent watch_event(int event)
{
	return events[event].event;
}

bool watch_record(int event, CUstream stream, const struct trial_step *s)
{
	struct watched *e = &events[event];
	CUresult r;

	STORE(e->watch, 0);
	STORE(e->generation, e->generation + 1);
	r = cu.cuEventRecord(e->event, stream);
	STORE(e->comm, (uint32_t)s->comm);
	STORE(e->bytes, s->bytes);
	STORE(e->generation, e->generation + 1);
	STORE(e->watch, s->value);
	return trial_good(r, "cuEventRecord");
}

void watch_forget(uint32_t watched)
{
	for (int i = 0; i < TRIAL_EVENTS; i++)
		if (LOAD(events[i].watch) == watched + 1)
			STORE(events[i].watch, 0);
}

bool watch_anew(int event, unsigned flags)
{
	struct watched *e = &events[event];
	bool ok;

	pthread_rwlock_wrlock(&e->alive);
	STORE(e->watch, 0);
	STORE(e->generation, e->generation + 2);
	e->flags = flags;
	ok = trial_good(cu.cuEventDestroy_v2(e->event), "cuEventDestroy") &&
		 trial_good(cu.cuEventCreate(&e->event, flags), "cuEventCreate");
	pthread_rwlock_unlock(&e->alive);
	return ok;
}

/* keeper.c - see keeper.h. */
#define _GNU_SOURCE
#include "keeper.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "block.h"
#include "bound.h"
#include "cache.h"
#include "cache_relaxed.h"
#include "capture.h"
#include "clock.h"
#include "devmem.h"
#include "guard.h"
#include "log.h"
#include "calls.h"
#include "stats.h"
#include "submitted.h"
#include "thread.h"

#define TICK_NS 250000000ull
#define PATIENCE_NS 20000000ull /* for the records to pass: an idle device needs microseconds */
#define QUIET_NS 2000000000ull
#define RESET_PATIENCE_NS 1000000ull

static struct {
	_Atomic int started;     /* 0 no, 1 yes or being started, 2 could not be */
	_Atomic uint32_t asleep; /* futex word: 1 while nothing is kept and the thread sleeps */
	/* seq_cst against each other: a thread that is `inside` has seen no `quiet`, or keeper_quiet()
	 * sees it inside. */
	_Atomic unsigned quiet, inside;
} keeper;

void keeper_start(void)
{
	submitted_start();
}

/* ---- is the device idle? ---- */

struct probe {
	unsigned n;
	struct {
		struct space *space; /* held */
		CUevent event;
	} at[SPACES];
};

static bool probe_add(struct probe *p, struct space *s)
{
	struct space_call call;
	CUevent event;
	if (!space_enter(s, &call))
		return false;
	bool ok = REAL(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
	if (ok) {
		p->at[p->n].space = s;
		p->at[p->n++].event = event;
		ok = capture_hold_off();
		if (ok) {
			ok = REAL(cuCtxRecordEvent)(atomic_load(&s->ctx), event) == CUDA_SUCCESS;
			capture_let_go();
		}
	}
	space_leave(&call);
	return ok;
}

static void probe_end(struct probe *p)
{
	struct space_call call;
	for (unsigned i = 0; i < p->n; i++) {
		bool entered = space_enter(p->at[i].space, &call);
		REAL(cuEventDestroy_v2)(p->at[i].event);
		if (entered)
			space_leave(&call);
		space_put(p->at[i].space);
	}
	p->n = 0;
}

/* Records on every context of the device. False: one of them cannot be asked. */
static bool probe_begin(struct probe *p, int device)
{
	bool ok = true;
	p->n = 0;
	for (unsigned i = 0; i < SPACES && ok; i++) {
		struct space *s = &spaces[i];
		if (!space_hold(s))
			continue;
		unsigned n = p->n;
		if (s->device == device)
			ok = probe_add(p, s);
		if (p->n == n)
			space_put(s);
	}
	if (!ok)
		probe_end(p);
	return ok && p->n;
}

static bool stopped(void)
{
	return capture_live() || atomic_load(&keeper.quiet) || devmem_mode_now() == DEVMEM_OFF;
}

static bool passed(const struct probe *p, unsigned i)
{
	CUstreamCaptureMode mode;
	if (!relaxed_begin(&mode))
		return false;
	CUresult r = REAL(cuEventQuery)(p->at[i].event);
	relaxed_end(mode);
	return r == CUDA_SUCCESS;
}

static bool probe_passed(const struct probe *p, uint64_t patience)
{
	uint64_t since = clock_ns();
	for (unsigned i = 0; i < p->n;) {
		if (stopped())
			return false;
		if (passed(p, i)) {
			i++;
			continue;
		}
		if (clock_ns() - since >= patience)
			return false;
		pause_poll(since);
	}
	return true;
}

/* ---- giving back ---- */

static bool over_bound(int device)
{
	return bound_kept(device) > bound_room(device);
}

/* Something of the space should go back. */
static bool has_old(struct space *s, uint64_t before)
{
	pthread_mutex_lock(&s->lock);
	bool old = s->oldest && (s->oldest->since < before || over_bound(s->device));
	pthread_mutex_unlock(&s->lock);
	return old;
}

static bool release_one(struct space *s, uint64_t before)
{
	return cache_release_old(s, before) ||
		   (over_bound(s->device) && cache_release(s, s->device, 1, RELEASE_BOUND));
}

/* A bit for each device on which something is old. */
static uint64_t old_devices(uint64_t before)
{
	uint64_t mask = 0;
	for (unsigned i = 0; i < SPACES; i++) {
		if (atomic_load_explicit(&spaces[i].state, memory_order_relaxed) != SPACE_READY ||
			!space_hold(&spaces[i]))
			continue;
		if (has_old(&spaces[i], before))
			mask |= 1ull << spaces[i].device;
		space_put(&spaces[i]);
	}
	return mask;
}

static void release_idle(int device, uint64_t before, uint64_t patience)
{
	struct probe p;
	uint64_t work = submitted();
	if (stopped() || !probe_begin(&p, device))
		return;
	if (probe_passed(&p, patience))
		for (unsigned i = 0; i < p.n; i++)
			while (!stopped() && submitted() == work && release_one(p.at[i].space, before))
				;
	probe_end(&p);
}

void keeper_after_wait(struct space *s)
{
	uint64_t now = clock_ns(), before = now > CACHE_IDLE_NS ? now - CACHE_IDLE_NS : 0;
	if (REAL_HAS(cuCtxRecordEvent) && has_old(s, before))
		release_idle(s->device, before, 0);
}

void keeper_release_all(int device)
{
	if (REAL_HAS(cuCtxRecordEvent) && bound_kept(device))
		release_idle(device, UINT64_MAX, RESET_PATIENCE_NS);
}

/* ---- the thread ---- */

static bool enter(void)
{
	atomic_store(&keeper.inside, 1);
	if (!atomic_load(&keeper.quiet))
		return true;
	atomic_store(&keeper.inside, 0);
	return false;
}

void keeper_quiet(bool on)
{
	if (!on) {
		atomic_fetch_sub(&keeper.quiet, 1);
		return;
	}
	atomic_fetch_add(&keeper.quiet, 1);
	uint64_t since = clock_ns();
	while (atomic_load(&keeper.inside) && clock_ns() - since < QUIET_NS)
		pause_poll(since);
}

static bool anything_kept(void)
{
	for (unsigned i = 0; i < SPACES; i++)
		if (atomic_load_explicit(&spaces[i].defer.pending, memory_order_relaxed))
			return true;
	for (int device = 0; device < SPACE_DEVICES; device++)
		if (bound_kept(device))
			return true;
	return false;
}

static void sleep_until_kept(void)
{
	atomic_store(&keeper.asleep, 1);
	/* Again: who put something in before we said that we sleep has woken nobody. */
	if (!anything_kept())
		syscall(SYS_futex, &keeper.asleep, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
	atomic_store(&keeper.asleep, 0);
}

/* A program that makes no call any more leaves freed blocks behind a fence, or without one. */
static void advance_pending(void)
{
	for (unsigned i = 0; i < SPACES; i++) {
		struct space *s = &spaces[i];
		if (!atomic_load_explicit(&s->defer.pending, memory_order_relaxed) || !space_hold(s))
			continue;
		if (enter()) {
			if (!stopped())
				defer_advance(s);
			atomic_store(&keeper.inside, 0);
		}
		space_put(s);
	}
}

static void *keeper_main(void *arg)
{
	(void)arg;
	guard_enter(); /* never leaves: whatever this thread calls is ours */
	for (;;) {
		struct timespec tick = {0, TICK_NS};
		uint64_t now;
		if (!anything_kept())
			sleep_until_kept();
		nanosleep(&tick, NULL);
		advance_pending();
		now = clock_ns();
		uint64_t before = now > CACHE_IDLE_NS ? now - CACHE_IDLE_NS : 0;
		for (uint64_t mask = old_devices(before); mask && enter(); mask &= mask - 1) {
			release_idle(__builtin_ctzll(mask), before, PATIENCE_NS);
			atomic_store(&keeper.inside, 0);
		}
	}
	return NULL;
}

void keeper_wake(void)
{
	int none = 0;
	if (atomic_load_explicit(&keeper.asleep, memory_order_seq_cst) && atomic_exchange(&keeper.asleep, 0))
		syscall(SYS_futex, &keeper.asleep, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	if (atomic_load_explicit(&keeper.started, memory_order_relaxed))
		return;
	if (!atomic_compare_exchange_strong(&keeper.started, &none, 1))
		return;
	if (!REAL_HAS(cuCtxRecordEvent))
		log_info(
			"devmem: this driver cannot say when a context is idle; what is kept goes back in cuMemFree");
	else if (!thread_start("turbo-devmem", keeper_main, NULL))
		log_once(LOG_INFO, "devmem: no thread to give idle memory back; cuMemFree does");
}

void keeper_fork_child(void)
{
	atomic_store(&keeper.started, 0);
	atomic_store(&keeper.asleep, 0);
	atomic_store(&keeper.quiet, 0);
	atomic_store(&keeper.inside, 0);
}

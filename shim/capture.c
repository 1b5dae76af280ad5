#define _GNU_SOURCE
#include "capture.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include "events.h"
#include "real.h"

#define CAPTURES 64

/* A capturing stream. A per-thread default stream is named by its thread and context. */
struct capture {
	CUstream stream;
	uintptr_t thread; /* 0 unless per-thread */
	CUcontext ctx;    /* the stream's; compared for per-thread streams only */
	int device;       /* of ctx; -1 unknown */
	uint64_t since;   /* as events_begin() gave it */
};

static struct {
	pthread_mutex_t lock; /* guards list and n; no driver call is made under it */
	struct capture list[CAPTURES];
	unsigned n;
	_Atomic unsigned live; /* n, or more when the list overflowed; written under the lock, read
	                          relaxed by capture_live(): a capture that begins at the same
	                          moment is met by relaxed mode instead */
} captures = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Threads between capture_hold_off() and capture_let_go(). seq_cst against `live`: one of two that
 * come at once sees the other. */
static _Atomic unsigned holding;

#define HOLD_NS 10000000

bool capture_hold_off(void)
{
	atomic_fetch_add_explicit(&holding, 1, memory_order_seq_cst);
	if (atomic_load_explicit(&captures.live, memory_order_seq_cst) == 0)
		return true;
	capture_let_go();
	return false;
}

void capture_let_go(void)
{
	atomic_fetch_sub_explicit(&holding, 1, memory_order_release);
}

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void wait_for_holders(void)
{
	if (atomic_load_explicit(&holding, memory_order_seq_cst) == 0)
		return;
	for (uint64_t since = now_ns(); now_ns() - since < HOLD_NS && atomic_load(&holding);)
		sched_yield();
}

static struct capture key(CUstream stream, bool per_thread)
{
	struct capture k = {.stream = stream, .device = -1};
	if (stream == CU_STREAM_PER_THREAD || (!stream && per_thread)) {
		k.stream = CU_STREAM_PER_THREAD;
		k.thread = (uintptr_t)pthread_self();
		REAL(cuCtxGetCurrent)(&k.ctx);
	}
	return k;
}

/* Which context the entry ends with. */
static void find_owner(struct capture *k)
{
	CUcontext current = NULL;
	CUdevice device;
	if (k->stream && !k->thread && k->stream != CU_STREAM_LEGACY)
		REAL(cuStreamGetCtx)(k->stream, &k->ctx);
	if (REAL(cuCtxGetCurrent)(&current) == CUDA_SUCCESS && current && current == k->ctx &&
		REAL(cuCtxGetDevice)(&device) == CUDA_SUCCESS)
		k->device = device;
}

static unsigned find(const struct capture *k)
{
	unsigned i = 0;
	while (i < captures.n && (captures.list[i].stream != k->stream || captures.list[i].thread != k->thread ||
							  (k->thread && captures.list[i].ctx != k->ctx)))
		i++;
	return i;
}

bool capture_note_begin(CUstream stream, bool per_thread)
{
	struct capture k = key(stream, per_thread);
	k.since = events_begin();
	find_owner(&k);
	pthread_mutex_lock(&captures.lock);
	bool fresh = find(&k) == captures.n;
	if (fresh) {
		if (captures.n < CAPTURES)
			captures.list[captures.n++] = k;
		atomic_fetch_add_explicit(&captures.live, 1, memory_order_seq_cst);
	}
	pthread_mutex_unlock(&captures.lock);
	wait_for_holders();
	return fresh;
}

/* Entry i leaves the list. Lock held. */
static void drop(unsigned i)
{
	captures.list[i] = captures.list[--captures.n];
	atomic_fetch_sub_explicit(&captures.live, 1, memory_order_relaxed);
}

/* `certain`: one has ended. When it is not in the list it was one too many for it. */
static void end(CUstream stream, bool per_thread, bool certain)
{
	if (!capture_live())
		return;
	struct capture k = key(stream, per_thread);
	uint64_t since = 0;
	pthread_mutex_lock(&captures.lock);
	unsigned i = find(&k);
	if (i < captures.n) {
		since = captures.list[i].since;
		drop(i);
	} else if (certain && atomic_load_explicit(&captures.live, memory_order_relaxed) > captures.n) {
		atomic_fetch_sub_explicit(&captures.live, 1, memory_order_relaxed);
	}
	pthread_mutex_unlock(&captures.lock);
	events_end(EVENT_CAPTURE, since, 0, !certain);
}

void capture_note_end(CUstream stream, bool per_thread)
{
	end(stream, per_thread, true);
}

void capture_note_stream_gone(CUstream stream)
{
	end(stream, false, false);
}

void capture_note_end_failed(CUstream stream, bool per_thread)
{
	/* A broken capture has ended with the error; one of another thread goes on. */
	if (capture_live() && !capture_on(stream, per_thread))
		end(stream, per_thread, false);
}

bool capture_live(void)
{
	return atomic_load_explicit(&captures.live, memory_order_relaxed) != 0;
}

bool capture_on(CUstream stream, bool per_thread)
{
	CUstreamCaptureStatus status;
	CUresult r = per_thread ? REAL(cuStreamIsCapturing_ptsz)(stream, &status)
							: REAL(cuStreamIsCapturing)(stream, &status);
	return r != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

void capture_context_gone(void *ctx, int device)
{
	pthread_mutex_lock(&captures.lock);
	for (unsigned i = captures.n; i-- > 0;)
		if (ctx ? captures.list[i].ctx == ctx : captures.list[i].device == device)
			drop(i);
	pthread_mutex_unlock(&captures.lock);
}

void capture_fork_child(void)
{
	pthread_mutex_init(&captures.lock, NULL);
	captures.n = 0;
	atomic_store(&captures.live, 0);
	atomic_store(&holding, 0);
}

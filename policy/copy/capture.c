#define _GNU_SOURCE
#include "capture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "copy.h"
#include "real.h"

#define CAPTURES 64

/* A capturing stream. The per-thread default stream is named by its thread. */
struct capture {
	CUstream stream;
	uintptr_t thread; /* 0 unless per-thread */
};

static struct {
	pthread_mutex_t lock; /* guards list and n; no driver call is made under it */
	struct capture list[CAPTURES];
	unsigned n;
	_Atomic unsigned live; /* n, or more when the list overflowed; written under the lock, read
	                          relaxed by capture_live(): a capture that begins at the same
	                          moment is met by relaxed mode instead */
} captures = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct capture key(CUstream stream, bool per_thread)
{
	if (stream == CU_STREAM_PER_THREAD || (!stream && per_thread))
		return (struct capture){CU_STREAM_PER_THREAD, (uintptr_t)pthread_self()};
	return (struct capture){stream, 0};
}

static unsigned find(struct capture k)
{
	unsigned i = 0;
	while (i < captures.n && (captures.list[i].stream != k.stream || captures.list[i].thread != k.thread))
		i++;
	return i;
}

void copy_capture_begin(CUstream stream, bool per_thread)
{
	struct capture k = key(stream, per_thread);
	pthread_mutex_lock(&captures.lock);
	if (find(k) == captures.n) {
		if (captures.n < CAPTURES)
			captures.list[captures.n++] = k;
		atomic_fetch_add_explicit(&captures.live, 1, memory_order_relaxed);
	}
	pthread_mutex_unlock(&captures.lock);
}

static void drop(struct capture k)
{
	pthread_mutex_lock(&captures.lock);
	unsigned i = find(k);
	if (i < captures.n) {
		captures.list[i] = captures.list[--captures.n];
		atomic_fetch_sub_explicit(&captures.live, 1, memory_order_relaxed);
	}
	pthread_mutex_unlock(&captures.lock);
}

void copy_capture_end(CUstream stream, bool per_thread)
{
	if (atomic_load_explicit(&captures.live, memory_order_relaxed))
		drop(key(stream, per_thread));
}

bool capture_live(void)
{
	if (!atomic_load_explicit(&captures.live, memory_order_relaxed))
		return false;
	pthread_mutex_lock(&captures.lock);
	struct capture first = captures.n ? captures.list[0] : (struct capture){0};
	pthread_mutex_unlock(&captures.lock);
	CUstreamCaptureStatus status;
	if (first.stream && !first.thread &&
		REAL(cuStreamIsCapturing)(first.stream, &status) == CUDA_SUCCESS &&
		status == CU_STREAM_CAPTURE_STATUS_NONE)
		drop(first);
	return atomic_load_explicit(&captures.live, memory_order_relaxed) != 0;
}

void capture_fork_child(void)
{
	pthread_mutex_init(&captures.lock, NULL);
	captures.n = 0;
	atomic_store(&captures.live, 0);
}

/* pinned.c - cuMemHostAlloc, cuMemAllocHost and cuMemFreeHost with a cache behind them; the policy's life. */
#define _GNU_SOURCE
#include "pinned.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "capture.h"
#include "clock.h"
#include "debugger.h"
#include "log.h"
#include "options.h"
#include "pinned_ctx.h"
#include "pinned_keep.h"
#include "pinned_keeper.h"
#include "pinned_table.h"
#include "real.h"
#include "stats.h"
#include "submitted.h"

/* An address that is nobody's: below the lowest one that a system lets anybody map. */
#define NOBODYS ((void *)4096)
/* The program never sees a buffer id twice; the driver's own are small numbers, the device memory's from 2^48 on. */
#define FIRST_BUFFER_ID (3ull << 48)
#define KNOWN_FLAGS (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)
/* For threads that compete for the last memory. */
#define ROOM_TRIES 64

bool pinned_on;

static _Atomic unsigned long long next_buffer_id = FIRST_BUFFER_ID;

static bool is_on(void)
{
	return __atomic_load_n(&pinned_on, __ATOMIC_RELAXED);
}

static void turn(bool on)
{
	__atomic_store_n(&pinned_on, on, __ATOMIC_RELAXED);
}

/* ---- around the program's calls ---- */

struct entry {
	int saved, cancel;
};

/* We wait, which is where a thread may be cancelled: it would leave what it holds behind. */
static struct entry enter(void)
{
	struct entry e = {.saved = errno};
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &e.cancel);
	return e;
}

static void leave(struct entry e)
{
	pthread_setcancelstate(e.cancel, NULL);
	errno = e.saved;
}

/* A debugger is to see every allocation and every free from now on. */
static bool left_to_driver(void)
{
	if (__builtin_expect(!debugger_came(), 1))
		return false;
	log_once(LOG_INFO, "hostmem: a CUDA debugger has attached; pinned memory is left to the driver");
	turn(false);
	if (!capture_live())
		pinned_release_all(PINNED_PRESSURE);
	return true;
}

/* ---- cuMemHostAlloc, cuMemAllocHost ---- */

static CUresult real_alloc(void **out, size_t bytes, unsigned flags)
{
	return flags & PINNED_ALLOC_HOST ? REAL(cuMemAllocHost_v2)(out, bytes)
									 : REAL(cuMemHostAlloc)(out, bytes, flags);
}

static void track(struct pinned_ctx *c, void *base, size_t size, size_t asked, unsigned flags)
{
	pthread_mutex_lock(&pinned_lock);
	struct pinned_block *b = pinned_block_new();
	if (b) {
		b->flags = flags;
		b->ctx = c;
		atomic_store_explicit(&b->base, (uintptr_t)base, memory_order_relaxed);
		atomic_store_explicit(&b->size, size, memory_order_relaxed);
		atomic_store_explicit(&b->asked, asked, memory_order_relaxed);
		atomic_store_explicit(&b->state, PINNED_LIVE, memory_order_relaxed);
		if (!pinned_track(b)) /* its free is a real one */
			pinned_block_drop(b);
	}
	pthread_mutex_unlock(&pinned_lock);
}

/* Rounded, so that it serves more requests; if there is not so much, as asked. */
static CUresult alloc_rounded(struct pinned_ctx *c, void **out, size_t bytes, unsigned flags)
{
	size_t size = pinned_round(bytes);
	void *base = NULL;
	CUresult r = real_alloc(&base, size, flags);
	if (r == CUDA_ERROR_OUT_OF_MEMORY && size != bytes) {
		size = bytes;
		r = real_alloc(&base, size, flags);
	}
	if (r != CUDA_SUCCESS)
		return r;
	track(c, base, size, bytes, flags);
	*out = base;
	return r;
}

/* What is kept is given back before the program is told that there is no more. */
static CUresult alloc_miss(struct pinned_ctx *c, void **out, size_t bytes, unsigned flags)
{
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
	stats_add(STATS_PINNED_MISSES, 1);
	for (int i = 0; i < ROOM_TRIES && r == CUDA_ERROR_OUT_OF_MEMORY; i++) {
		uint64_t came = pinned_came();
		r = alloc_rounded(c, out, bytes, flags);
		/* Once more when something has come back, from here or from another thread. */
		if (r == CUDA_ERROR_OUT_OF_MEMORY && !pinned_release_all(PINNED_PRESSURE) && pinned_came() == came)
			break;
	}
	return r;
}

static void *serve(struct pinned_block *b, size_t bytes)
{
	pthread_mutex_lock(&pinned_lock);
	uintptr_t base = atomic_load_explicit(&b->base, memory_order_relaxed);
	atomic_store_explicit(&b->asked, bytes, memory_order_relaxed);
	atomic_store_explicit(&b->buffer_id, atomic_fetch_add_explicit(&next_buffer_id, 1, memory_order_relaxed),
						  memory_order_relaxed);
	b->keep_out = false;
	/* Last: whoever asks about it finds all of it the program's. */
	atomic_store_explicit(&b->state, PINNED_LIVE, memory_order_release);
	pthread_mutex_unlock(&pinned_lock);
	return (void *)base;
}

static bool alloc(void **out, size_t bytes, unsigned flags, CUresult *status)
{
	if (capture_live()) {
		stats_add(STATS_PINNED_PASS_CAPTURE, 1);
		return false;
	}
	struct pinned_ctx *c = pinned_ctx_current();
	if (!c)
		return false;
	bool taken = pinned_ctx_alive(c) && !pinned_green();
	struct pinned_block *b = taken ? pinned_take(c, bytes, flags) : NULL;
	if (b) {
		stats_add(STATS_PINNED_HITS, 1);
		*out = serve(b, bytes);
		*status = CUDA_SUCCESS;
	} else if (taken) {
		*status = alloc_miss(c, out, bytes, flags);
	}
	pinned_ctx_put(c);
	return taken;
}

bool pinned_alloc(void **out, size_t bytes, unsigned flags, CUresult *status)
{
	if (!is_on() || !out || bytes < PINNED_MIN || bytes > SIZE_MAX / 4 ||
		flags & ~(KNOWN_FLAGS | PINNED_ALLOC_HOST)) /* small, or the driver's own error */
		return false;
	struct entry e = enter();
	bool taken = !left_to_driver() && alloc(out, bytes, flags, status);
	leave(e);
	return taken;
}

/* ---- cuMemFreeHost ---- */

/* Errors that say that the barrier may not be asked for here, not that the device has failed. */
static bool refusal(CUresult r)
{
	return r == CUDA_ERROR_NOT_PERMITTED || r == CUDA_ERROR_INVALID_CONTEXT ||
		   (r >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && r <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
}

/* The block is still in the table, in this thread's hands: its context has not ended. The lock is held. */
static bool still_mine(struct pinned_block *b, uintptr_t base)
{
	return atomic_load_explicit(&b->state, memory_order_relaxed) == PINNED_BARRIER && pinned_find(base) == b;
}

/* The program's own free, as it made it: no context is pushed, its capture mode stays. Out of the table first: the
 * driver may hand the address out before its call returns. */
static CUresult free_as_asked(struct pinned_block *b, uintptr_t base)
{
	pthread_mutex_lock(&pinned_lock);
	bool mine = still_mine(b, base);
	if (mine)
		pinned_remove(b);
	pthread_mutex_unlock(&pinned_lock);
	CUresult r = REAL(cuMemFreeHost)((void *)base);
	pthread_mutex_lock(&pinned_lock);
	atomic_store_explicit(&b->state, PINNED_LIVE, memory_order_relaxed);
	if (r == CUDA_SUCCESS || !mine || !pinned_track(b))
		pinned_block_drop(b);
	pthread_mutex_unlock(&pinned_lock);
	return r;
}

/* Room for so many bytes more. What must go for it goes back in this call, which bare would be such a free. */
static bool make_room(int device, size_t bytes)
{
	uint64_t now = clock_ns();
	while (pinned_kept() + bytes > pinned_keep_most() && pinned_release_one(device, now, PINNED_BOUND))
		;
	while (now > PINNED_IDLE_NS && pinned_release_one(device, now - PINNED_IDLE_NS, PINNED_OLD))
		;
	return pinned_kept() + bytes <= pinned_keep_most();
}

static CUresult free_kept(struct pinned_block *b, uintptr_t base, size_t size)
{
	struct pinned_fence *fence = NULL;
	CUresult r = pinned_barrier(b->ctx);
	if (r != CUDA_SUCCESS) {
		CUresult freed = free_as_asked(b, base);
		return freed != CUDA_SUCCESS || refusal(r) ? freed : r;
	}
	if (!make_room(b->ctx->device, size) || pinned_fence_record(b->ctx->device, &fence) == PINNED_UNSURE)
		return free_as_asked(b, base);
	pthread_mutex_lock(&pinned_lock);
	/* The context may have ended meanwhile, and the block with it. */
	if (still_mine(b, base))
		pinned_put(b, fence, clock_ns());
	else if (fence)
		pinned_fence_abandon(fence);
	pthread_mutex_unlock(&pinned_lock);
	pinned_keeper_wake();
	return CUDA_SUCCESS;
}

/* Why the driver is to free it; the lock is held. */
static bool passes(const struct pinned_block *b, size_t size)
{
	enum stats_counter why;
	if (capture_live())
		why = STATS_PINNED_PASS_CAPTURE;
	else if (b->keep_out || size > pinned_keep_most() || pinned_keeper_tight() || pinned_green())
		why = STATS_PINNED_PASS_LARGE;
	else
		return false;
	stats_add(why, 1);
	return true;
}

static bool release(void *memory, CUresult *status)
{
	uintptr_t base = (uintptr_t)memory;
	bool pass = true;
	pthread_mutex_lock(&pinned_lock);
	struct pinned_block *b = pinned_find(base);
	int state = b ? atomic_load_explicit(&b->state, memory_order_relaxed) : PINNED_NONE;
	size_t size = b ? atomic_load_explicit(&b->size, memory_order_relaxed) : 0;
	struct pinned_ctx *c = b ? b->ctx : NULL;
	bool inside = b && base != atomic_load_explicit(&b->base, memory_order_relaxed);
	bool mine = state == PINNED_LIVE && !inside && pinned_ctx_hold(c);
	if (mine) {
		pass = passes(b, size);
		atomic_store_explicit(&b->state, PINNED_BARRIER, memory_order_relaxed);
	}
	pthread_mutex_unlock(&pinned_lock);
	if (mine) {
		*status = pass ? free_as_asked(b, base) : free_kept(b, base, size);
		pinned_ctx_put(c);
		return true;
	}
	if (!b || state == PINNED_LIVE)
		return false;
	*status = REAL(cuMemFreeHost)(NOBODYS); /* what the driver says of memory that is not the program's */
	return true;
}

bool pinned_free(void *memory, CUresult *status)
{
	if (!is_on() || !memory)
		return false;
	struct entry e = enter();
	bool taken = !left_to_driver() && release(memory, status);
	leave(e);
	return taken;
}

/* ---- what else the program does ---- */

void pinned_synchronized(void)
{
	if (!is_on() || !pinned_kept())
		return;
	struct entry e = enter();
	pinned_keeper_after_wait();
	leave(e);
}

void pinned_context_made(void)
{
	if (!is_on())
		return;
	struct entry e = enter();
	struct pinned_ctx *c = pinned_ctx_current();
	if (c)
		pinned_ctx_put(c);
	leave(e);
}

void pinned_resetting(void)
{
	if (!is_on() || !pinned_kept())
		return;
	struct entry e = enter();
	pinned_keeper_release_all();
	leave(e);
}

/* ---- life ---- */

static bool driver_complete(void)
{
	return REAL_HAS(cuMemHostAlloc) && REAL_HAS(cuMemAllocHost_v2) && REAL_HAS(cuMemFreeHost) &&
		   REAL_HAS(cuCtxGetCurrent) && REAL_HAS(cuCtxGetDevice) && REAL_HAS(cuCtxPushCurrent_v2) &&
		   REAL_HAS(cuCtxPopCurrent_v2) && REAL_HAS(cuCtxSynchronize) && REAL_HAS(cuDeviceGetCount) &&
		   REAL_HAS(cuThreadExchangeStreamCaptureMode) && REAL_HAS(cuDevicePrimaryCtxGetState) &&
		   REAL_HAS(cuDevicePrimaryCtxRetain) && REAL_HAS(cuDevicePrimaryCtxRelease_v2) &&
		   REAL_HAS(cuEventCreate) && REAL_HAS(cuEventQuery) && REAL_HAS(cuEventDestroy_v2) &&
		   REAL_HAS(cuPointerGetAttributes);
}

static void cuda_ready(void)
{
	if (!option_get(OPT_HOSTMEM))
		return;
	const char *debugger = debugger_attached();
	if (debugger) {
		log_once(LOG_INFO, "hostmem: pinned memory is left to the driver: %s", debugger);
		return;
	}
	if (!driver_complete()) {
		log_info("hostmem: this driver lacks functions that the cache of pinned memory needs");
		return;
	}
	submitted_start();
	pinned_keep_start();
	turn(pinned_keep_most() != 0);
}

static void context_gone(void *ctx, int device)
{
	/* The program's mistake, and an error: its memory is there still, and so is what is kept of it. */
	if (!ctx || !pinned_is_primary(ctx))
		pinned_ctx_gone(ctx, device);
}

static void fork_child(void)
{
	turn(false);
	pinned_table_fork_child();
	pinned_ctx_fork_child();
	pinned_keeper_fork_child();
}

/* The driver may be gone: what is kept goes with the process. */
static void stop(void)
{
	turn(false);
	pinned_keeper_quiet(true);
}

static int summary(char *buf, int size)
{
	unsigned long long hits = stats_get(STATS_PINNED_HITS), all = hits + stats_get(STATS_PINNED_MISSES);
	int n = 0;
	if (hits)
		n = snprintf(buf, (size_t)size,
					 "cuMemHostAlloc   %llu of %llu allocation%s from memory that was kept\n", hits, all,
					 PLURAL(all));
	return n < size ? n : size;
}

const struct policy pinned_policy = {
	.name = "pinned",
	.cuda_ready = cuda_ready,
	.context_gone = context_gone,
	.quiet = pinned_keeper_quiet,
	.fork_child = fork_child,
	.stop = stop,
	.summary = summary,
};

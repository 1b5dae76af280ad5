#include "copy.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#include "capture.h"
#include "cpus.h"
#include "events.h"
#include "life.h"
#include "log.h"
#include "move.h"
#include "options.h"
#include "pause.h"
#include "real.h"
#include "ring.h"
#include "route.h"
#include "stage.h"
#include "stats.h"
#include "turn.h"
#include "verify.h"
#include "workers.h"

size_t copy_min_bytes = SIZE_MAX;

/* TURBO_COPY's values, in the order of options.def. */
enum { COPY_OPTION_OFF, COPY_OPTION_ON, COPY_OPTION_EARLY };

/* Set in start(), constant afterwards. */
static struct {
	bool on;
	bool early;    /* TURBO_COPY=early: read before the copy's turn, whatever its size */
	size_t min[2]; /* by direction */
} copy;

static void copy_off(void)
{
	__atomic_store_n(&copy_min_bytes, SIZE_MAX, __ATOMIC_RELAXED);
}

/* Half of the cores we may count on: the program's own threads need the rest. Under
 * four, moving bytes twice gains less than it takes away. */
static unsigned threads_auto(void)
{
	unsigned share = cpus_share();
	if (share < 4)
		return 0;
	return share / 2 < COPY_THREADS_MAX ? share / 2 : COPY_THREADS_MAX;
}

/* Runs in every process that inherits LD_PRELOAD: no file is read. */
static void start(void)
{
	int64_t min_kb = option_get(OPT_COPY_MIN_KB);
	cpus_start();
	copy.early = option_get(OPT_COPY) == COPY_OPTION_EARLY;
	copy.min[COPY_H2D] = min_kb == OPTION_AUTO ? COPY_MIN_H2D : (size_t)min_kb << 10;
	copy.min[COPY_D2H] = min_kb == OPTION_AUTO ? COPY_MIN_D2H : (size_t)min_kb << 10;
	copy.on = option_get(OPT_COPY) != COPY_OPTION_OFF && option_get(OPT_COPY_THREADS) != 0;
}

static bool driver_complete(void)
{
	return REAL_HAS(cuMemcpyHtoDAsync_v2) && REAL_HAS(cuMemcpyHtoDAsync_v2_ptsz) &&
		   REAL_HAS(cuMemcpyDtoHAsync_v2) && REAL_HAS(cuEventCreate) && REAL_HAS(cuEventRecord) &&
		   REAL_HAS(cuEventRecord_ptsz) && REAL_HAS(cuEventQuery) && REAL_HAS(cuEventDestroy_v2) &&
		   REAL_HAS(cuStreamCreate) && REAL_HAS(cuStreamDestroy_v2) && REAL_HAS(cuStreamWaitEvent) &&
		   REAL_HAS(cuStreamWaitEvent_ptsz) && REAL_HAS(cuStreamSynchronize) &&
		   REAL_HAS(cuStreamIsCapturing) && REAL_HAS(cuStreamIsCapturing_ptsz) && REAL_HAS(cuStreamGetCtx) &&
		   REAL_HAS(cuThreadExchangeStreamCaptureMode) && REAL_HAS(cuPointerGetAttributes) &&
		   REAL_HAS(cuMemHostRegister_v2) && REAL_HAS(cuMemHostUnregister) && REAL_HAS(cuCtxGetCurrent) &&
		   REAL_HAS(cuCtxGetDevice) && REAL_HAS(cuCtxPushCurrent_v2) && REAL_HAS(cuCtxPopCurrent_v2) &&
		   REAL_HAS(cuCtxSynchronize) && REAL_HAS(cuDeviceGetAttribute) &&
		   REAL_HAS(cuDevicePrimaryCtxGetState) && REAL_HAS(cuDevicePrimaryCtxRetain) &&
		   REAL_HAS(cuDevicePrimaryCtxRelease_v2);
}

static void cuda_ready(void)
{
	if (!copy.on)
		return;
	int64_t threads = option_get(OPT_COPY_THREADS);
	workers_wanted = threads == OPTION_AUTO ? threads_auto() : (unsigned)threads;
	if (!workers_wanted) {
		log_info("copy: too few cores; copies pass through");
		return;
	}
	if (!driver_complete()) {
		log_warn("copy: this driver lacks functions that staging needs; copies pass through");
		return;
	}
	move_start();
	size_t least = copy.min[COPY_H2D] < copy.min[COPY_D2H] ? copy.min[COPY_H2D] : copy.min[COPY_D2H];
	__atomic_store_n(&copy_min_bytes, least, __ATOMIC_RELAXED);
}

static void count_staged(const struct copy_call *call, uint64_t since)
{
	bool in = call->dir == COPY_H2D;
	stats_add(in ? STATS_COPY_H2D_STAGED : STATS_COPY_D2H_STAGED, 1);
	stats_add(in ? STATS_COPY_H2D_BYTES : STATS_COPY_D2H_BYTES, call->bytes);
	stats_add(in ? STATS_COPY_H2D_NS : STATS_COPY_D2H_NS, clock_ns() - since);
}

/* True when the bytes are right; otherwise the policy is off from here on. */
static bool checked(struct stage *st, bool settled)
{
	if (verify_equal(st, settled))
		return true;
	log_error("copy: staging is switched off; the copy is redone by the driver");
	copy_off();
	return false;
}

/* The driver does it all again and its own answer is the program's. */
static bool failed(CUresult r)
{
	stats_add(STATS_COPY_FALLBACK, 1);
	log_once(LOG_INFO, "copy: a staged copy failed (CUDA error %d) and was left to the driver", (int)r);
	return false;
}

static void tell(const struct copy_call *call, int device, uint64_t since)
{
	uint64_t now = events_now();
	struct event e = {
		.start = since,
		.duration = now > since ? now - since : 0, /* the clock may be set back */
		.value = call->bytes,
		.id = call->dir == COPY_H2D ? EVENT_COPY_H2D : EVENT_COPY_D2H,
		.thread = events_thread(),
		.detail = (uint32_t)device + 1,
	};
	events_tell(&e);
}

static bool staged(const struct copy_call *call, struct copy_ring *ring, CUresult *status)
{
	uint64_t since = clock_ns(), told_since = events_begin();
	size_t early = !ring->early_reads ? 0 : copy.early ? SIZE_MAX : COPY_EARLY_BYTES;
	bool on_caller = stage_fits_caller(call, ring, early);
	struct stage st;
	/* Nothing is held yet: a copy that waits for its turn is in nobody's way. */
	CUresult r = on_caller ? CUDA_SUCCESS : turn_wait(call);
	if (r != CUDA_SUCCESS)
		return failed(r);
	if (stage_open(&st, call, ring, on_caller) == STAGE_BUSY) {
		stats_add(STATS_COPY_PASS_BUSY, 1);
		return false;
	}
	bool verify = verify_due(), settled = verify && verify_settled(&st);
	r = call->dir == COPY_H2D ? h2d_run(&st) : d2h_run(&st);
	bool ok = r == CUDA_SUCCESS && (!verify || checked(&st, settled));
	stage_close(&st, r);
	if (!ok)
		return failed(r);
	count_staged(call, since);
	if (told_since)
		tell(call, ring->device, told_since);
	*status = CUDA_SUCCESS;
	return true;
}

/* While the thread is in relaxed mode a capture that another thread begins now
 * neither refuses our calls nor is broken by them. */
static bool staged_relaxed(const struct copy_call *call, struct copy_ring *ring, CUresult *status)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	if (REAL(cuThreadExchangeStreamCaptureMode)(&mode) != CUDA_SUCCESS)
		return false;
	bool taken = staged(call, ring, status);
	REAL(cuThreadExchangeStreamCaptureMode)(&mode);
	return taken;
}

/* A copy may be put on a stream of another context, our events and DMAs may not. */
static bool stream_in(const struct copy_ring *ring, CUstream stream)
{
	CUcontext ctx;
	if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
		return true; /* of the current context, which is the ring's */
	return REAL(cuStreamGetCtx)(stream, &ctx) == CUDA_SUCCESS &&
		   ctx == atomic_load_explicit(&ring->ctx, memory_order_relaxed);
}

static bool take(struct copy_call *call, CUresult *status)
{
	if (capture_live() || capture_on(call->stream, call->per_thread)) {
		stats_add(STATS_COPY_PASS_CAPTURE, 1);
		return false;
	}
	struct copy_ring *ring = ring_get();
	if (!ring || !stream_in(ring, call->stream)) {
		stats_add(STATS_COPY_PASS_NO_CONTEXT, 1);
		if (ring)
			ring_put(ring);
		return false;
	}
	bool taken = route_pointers(call, ring) && call->bytes >= copy.min[call->dir] &&
				 staged_relaxed(call, ring, status);
	ring_put(ring);
	return taken;
}

bool copy_take(const struct copy_call *call, CUresult *status)
{
	if (call->dir != COPY_UNIFIED && call->bytes < copy.min[call->dir]) {
		stats_add(STATS_COPY_PASS_SMALL, 1);
		return false;
	}
	int saved = errno, cancel;
	struct copy_call mine = *call;
	/* We sleep while we poll, which is where a thread may be cancelled: it would leave its
	 * slots and its job behind. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	bool taken = take(&mine, status);
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
	return taken;
}

static void context_gone(void *ctx, int device)
{
	ring_context_gone(ctx, device);
}

static void fork_child(void)
{
	copy_off(); /* until a cuInit of its own, which only a child without our driver has */
	/* Nothing was ever copied: each page that is written here costs every fork some 3 us. */
	if (!life_is_forked_child())
		return;
	ring_fork_child();
	workers_fork_child();
}

static int rate_line(char *buf, int size, const char *what, enum stats_counter calls)
{
	uint64_t n = stats_get(calls), bytes = stats_get(calls + 1), ns = stats_get(calls + 2);
	if (!n)
		return 0;
	return snprintf(buf, (size_t)size, "copies %s  %9.2f GB staged in %llu call%s, %.1f GB/s\n", what,
					(double)bytes / 1e9, (unsigned long long)n, PLURAL(n),
					ns ? (double)bytes / (double)ns : 0.0);
}

static int summary(char *buf, int size)
{
	int n = rate_line(buf, size, "to the device  ", STATS_COPY_H2D_STAGED);
	if (n < size)
		n += rate_line(buf + n, size - n, "from the device", STATS_COPY_D2H_STAGED);
	return n < size ? n : size;
}

const struct policy copy_policy = {
	.name = "copy",
	.start = start,
	.cuda_ready = cuda_ready,
	.context_gone = context_gone,
	.fork_child = fork_child,
	.stop = copy_off,
	.summary = summary,
};

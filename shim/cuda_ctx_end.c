/*
 * cuda_ctx_end.c - the driver calls that end a context: by its handle, by its last use, by a
 * reset or the last release of a primary context, together with a green context.
 *
 * Bodies are thin: count, guard, tell the policies, real call. A call made by libturbo itself
 * goes straight to the real function. errno is as the real call left it.
 */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* cuCtxAttach, cuCtxDetach */
#include <cuda.h>
#include <pthread.h>

#include "capture.h"
#include "doors.h"
#include "inside.h"
#include "life.h"
#include "real.h"
#include "stats.h"
#include "../policy/policy.h"
#include "../policy/devmem/devmem.h"
#include "../policy/hostmem/pinned.h"

/* ---- contexts that cuCtxAttach has counted again ---- */

#define ATTACHED 64 /* contexts; the policies hear of the end of one more at its first cuCtxDetach */

/* All under the lock. */
static struct {
	pthread_mutex_t lock;
	struct {
		CUcontext ctx;
		unsigned more; /* uses beyond the first; 0: a free row */
	} list[ATTACHED];
} attached = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The context's row; `fresh`: a free one when it has none. NULL: none. The lock is held. */
static unsigned *uses_of(CUcontext ctx, bool fresh)
{
	unsigned *none = NULL;
	for (unsigned i = 0; i < ATTACHED; i++) {
		unsigned *more = &attached.list[i].more;
		if (*more && attached.list[i].ctx == ctx)
			return more;
		if (!*more && fresh && !none) {
			attached.list[i].ctx = ctx;
			none = more;
		}
	}
	return none;
}

static void use_more(CUcontext ctx)
{
	pthread_mutex_lock(&attached.lock);
	unsigned *more = uses_of(ctx, true);
	if (more)
		++*more;
	pthread_mutex_unlock(&attached.lock);
}

/* Takes away one use, or all; false: there is only the first. */
static bool use_less(CUcontext ctx, bool all)
{
	pthread_mutex_lock(&attached.lock);
	unsigned *more = uses_of(ctx, false);
	if (more)
		*more = all ? 0 : *more - 1;
	pthread_mutex_unlock(&attached.lock);
	return more != NULL;
}

/* ---- ends ---- */

static void context_gone(CUcontext ctx, CUdevice device)
{
	int saved;

	if (guard_inside() || !life_cuda() || (!ctx && device < 0)) /* cuCtxDestroy(NULL) */
		return;
	saved = inside_begin();
	if (ctx)
		use_less(ctx, true);
	if (doors_on())
		doors_context_gone();
	capture_context_gone(ctx, device);
	policies_context_gone(ctx, device);
	inside_end(saved);
}

/* Before the real call: the policies' own handles still exist and can be given back. */
TURBO_EXPORT CUresult cuCtxDestroy(CUcontext ctx)
{
	stats_call(HOOK_cuCtxDestroy);
	DOOR_WAITS();
	context_gone(ctx, -1);
	return REAL(cuCtxDestroy)(ctx);
}

TURBO_EXPORT CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	stats_call(HOOK_cuCtxDestroy_v2);
	DOOR_WAITS();
	context_gone(ctx, -1);
	return REAL(cuCtxDestroy_v2)(ctx);
}

/*
 * A primary context's handle cannot be asked for without retaining it, and whether a
 * release was the last one is known afterwards only: both are told after the fact, by
 * device. A context that another thread has made meanwhile makes GetState say "active";
 * it has the handle of the old one, and the policies find their own handles dead.
 */
static void primary_reset(CUdevice device, CUresult status)
{
	if (status == CUDA_SUCCESS)
		context_gone(NULL, device);
}

static void primary_released(CUdevice device, CUresult status)
{
	unsigned int flags;
	int active = 1, saved = errno;

	if (status != CUDA_SUCCESS || guard_inside() || !life_cuda() || !REAL_HAS(cuDevicePrimaryCtxGetState))
		return;
	if (REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active) == CUDA_SUCCESS && !active)
		context_gone(NULL, device);
	errno = saved;
}

/* A reset takes what libturbo keeps along with the program's own memory; it is given back before
 * where that costs no wait. */
static void before_reset(CUdevice device)
{
	int saved;

	if (guard_inside() || !life_cuda())
		return;
	saved = inside_begin();
	devmem_resetting(device);
	pinned_resetting();
	inside_end(saved);
}

static void before_release(CUdevice device)
{
	(void)device; /* whether it is the last one is not known */
}

/* Threads of the policies' own must not use a context that is going. */
static bool quiet_begin(void)
{
	int saved;

	if (guard_inside() || !life_cuda())
		return false;
	saved = inside_begin();
	policies_quiet(true);
	inside_end(saved);
	return true;
}

static void quiet_end(bool begun)
{
	int saved = errno;

	if (begun)
		policies_quiet(false);
	errno = saved;
}

#define PRIMARY(symbol, before, told)             \
	TURBO_EXPORT CUresult symbol(CUdevice device) \
	{                                             \
		CUresult status;                          \
		bool quiet;                               \
		stats_call(HOOK_##symbol);                \
		DOOR_WAITS();                             \
		before(device);                           \
		quiet = quiet_begin();                    \
		status = REAL(symbol)(device);            \
		told(device, status);                     \
		quiet_end(quiet);                         \
		return status;                            \
	}

PRIMARY(cuDevicePrimaryCtxReset, before_reset, primary_reset)
PRIMARY(cuDevicePrimaryCtxReset_v2, before_reset, primary_reset)
PRIMARY(cuDevicePrimaryCtxRelease, before_release, primary_released)
PRIMARY(cuDevicePrimaryCtxRelease_v2, before_release, primary_released)

/* ---- by its last use ---- */

TURBO_EXPORT CUresult cuCtxAttach(CUcontext *ctx, unsigned int flags)
{
	CUresult status;

	stats_call(HOOK_cuCtxAttach);
	status = REAL(cuCtxAttach)(ctx, flags);
	if (status == CUDA_SUCCESS && !guard_inside() && life_cuda())
		use_more(*ctx);
	return status;
}

/* The driver takes only the thread's current context. */
static bool is_current(CUcontext ctx)
{
	CUcontext current = NULL;
	return ctx && REAL(cuCtxGetCurrent)(&current) == CUDA_SUCCESS && current == ctx;
}

/* Before the real call, as in cuCtxDestroy. */
TURBO_EXPORT CUresult cuCtxDetach(CUcontext ctx)
{
	bool counted;
	CUresult status;

	stats_call(HOOK_cuCtxDetach);
	DOOR_WAITS();
	if (guard_inside() || !life_cuda() || !is_current(ctx))
		return REAL(cuCtxDetach)(ctx);
	counted = use_less(ctx, false);
	if (!counted)
		context_gone(ctx, -1);
	status = REAL(cuCtxDetach)(ctx);
	if (counted && status != CUDA_SUCCESS)
		use_more(ctx);
	return status;
}

/* ---- with a green context ---- */

/* The context that a green one is to all other calls goes along with it. Its device, or -1. */
static CUdevice green_going(CUgreenCtx green)
{
	CUcontext ctx = NULL, popped;
	CUdevice device = -1;
	int saved;

	if (guard_inside() || !life_cuda() || !REAL_HAS(cuCtxFromGreenCtx))
		return -1;
	saved = errno;
	if (REAL(cuCtxFromGreenCtx)(&ctx, green) == CUDA_SUCCESS) {
		if (REAL(cuCtxPushCurrent_v2)(ctx) == CUDA_SUCCESS) {
			if (REAL(cuCtxGetDevice)(&device) != CUDA_SUCCESS)
				device = -1;
			REAL(cuCtxPopCurrent_v2)(&popped);
		}
		context_gone(ctx, -1);
	}
	errno = saved;
	return device;
}

/* It holds a reference to the device's primary context, which may be the last one. */
TURBO_EXPORT CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
	CUresult status;
	CUdevice device;
	bool quiet;

	stats_call(HOOK_cuGreenCtxDestroy);
	DOOR_WAITS();
	device = green_going(green);
	quiet = quiet_begin();
	status = REAL(cuGreenCtxDestroy)(green);
	if (device >= 0)
		primary_released(device, status);
	quiet_end(quiet);
	return status;
}

/* vmm_marks.c - contexts and their events: points in a stream's order. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>

#include "capture.h"
#include "clock.h"
#include "log.h"
#include "calls.h"
#include "vmm.h"
#include "vmm_calls.h"

#define CONTEXTS 64
#define LEAVE_NS 2000000000ull /* calls on a dying handle are short: they do not wait for the device */

struct vmm_mark {
	CUevent event;           /* timing disabled */
	struct vmm_context *ctx; /* NULL: passed from the beginning */
	struct vmm_mark *next;   /* in its context's list */
};

static struct vmm_mark passed;

static struct {
	pthread_mutex_t lock; /* guards which slots are in use */
	struct vmm_context list[CONTEXTS];
} contexts = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The last of `users` leaves, within the bound. */
static bool drained(_Atomic int *users)
{
	uint64_t since = clock_ns();
	while (atomic_load(users)) {
		if (clock_ns() - since > LEAVE_NS)
			return false;
		pause_poll(since);
	}
	return true;
}

/* ---- contexts ---- */

/* The caller may use the context's handles until leave(); false: they are dead. */
static bool enter(struct vmm_context *ctx)
{
	atomic_fetch_add(&ctx->users, 1);
	if (!atomic_load(&ctx->gone))
		return true;
	atomic_fetch_sub(&ctx->users, 1);
	return false;
}

static void leave(struct vmm_context *ctx)
{
	atomic_fetch_sub(&ctx->users, 1);
}

static void hold(struct vmm_context *ctx)
{
	pthread_mutex_lock(&ctx->lock);
	ctx->held++;
	pthread_mutex_unlock(&ctx->lock);
}

void vmm_context_put(struct vmm_context *ctx)
{
	pthread_mutex_lock(&ctx->lock);
	ctx->held--;
	pthread_mutex_unlock(&ctx->lock);
}

static bool device_of(CUcontext handle, int *device)
{
	CUdevice dev = -1;
	if (REAL(cuCtxPushCurrent_v2)(handle) != CUDA_SUCCESS)
		return false;
	bool ok = REAL(cuCtxGetDevice)(&dev) == CUDA_SUCCESS;
	pop_context();
	*device = dev;
	return ok;
}

/* Lock held. */
static struct vmm_context *find(CUcontext handle)
{
	for (unsigned i = 0; i < CONTEXTS; i++)
		if (contexts.list[i].handle == handle)
			return &contexts.list[i];
	return NULL;
}

/* Lock held. A slot never used, or one whose context died and that nothing points to. */
static struct vmm_context *find_slot(void)
{
	for (unsigned i = 0; i < CONTEXTS; i++) {
		struct vmm_context *ctx = &contexts.list[i];
		if (!ctx->handle && !ctx->held)
			return ctx;
	}
	return NULL;
}

static bool is_primary(CUcontext handle, int device)
{
	unsigned flags;
	int active = 0;
	CUcontext primary = NULL;
	if (REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active) != CUDA_SUCCESS || !active)
		return false;
	if (REAL(cuDevicePrimaryCtxRetain)(&primary, device) != CUDA_SUCCESS)
		return false;
	/* Balanced: it was active, so this cannot be the last reference. */
	REAL(cuDevicePrimaryCtxRelease_v2)(device);
	return primary == handle;
}

struct vmm_context *vmm_context_get(CUcontext handle)
{
	int device = -1;
	bool known = handle && device_of(handle, &device);
	bool primary = known && is_primary(handle, device);
	pthread_mutex_lock(&contexts.lock);
	struct vmm_context *ctx = known ? find(handle) : NULL;
	if (!ctx && known && (ctx = find_slot())) {
		*ctx = (struct vmm_context){.handle = handle, .device = device, .primary = primary};
		pthread_mutex_init(&ctx->lock, NULL);
	}
	if (ctx)
		hold(ctx);
	pthread_mutex_unlock(&contexts.lock);
	return ctx;
}

int vmm_context_only(CUcontext handle)
{
	int device = -1;
	unsigned others = 0;
	pthread_mutex_lock(&contexts.lock);
	for (unsigned i = 0; handle && i < CONTEXTS; i++) {
		if (contexts.list[i].handle == handle)
			device = contexts.list[i].device;
		else
			others += contexts.list[i].handle != NULL;
	}
	pthread_mutex_unlock(&contexts.lock);
	return others ? -1 : device;
}

/* False: it could not be made current, or a capture is live. */
static bool synchronize(CUcontext handle, CUresult *status)
{
	if (REAL(cuCtxPushCurrent_v2)(handle) != CUDA_SUCCESS)
		return false;
	bool quiet = capture_hold_off();
	if (quiet) {
		*status = RELAXED(REAL(cuCtxSynchronize)());
		capture_let_go();
	}
	pop_context();
	return quiet;
}

CUresult vmm_synchronize(int device, bool *waited)
{
	CUresult first = CUDA_SUCCESS;
	*waited = true;
	for (unsigned i = 0; i < CONTEXTS; i++) {
		struct vmm_context *ctx = &contexts.list[i];
		CUresult r = CUDA_SUCCESS;
		pthread_mutex_lock(&contexts.lock);
		CUcontext handle = device < 0 || ctx->device == device ? ctx->handle : NULL;
		bool alive = handle && enter(ctx);
		pthread_mutex_unlock(&contexts.lock);
		if (!alive)
			continue;
		*waited &= synchronize(handle, &r);
		leave(ctx);
		if (first == CUDA_SUCCESS)
			first = r;
	}
	return first;
}

/* Its events are dead, or die now: their handles still work when `alive`. */
static void drop_events(struct vmm_context *ctx, bool alive)
{
	pthread_mutex_lock(&ctx->lock);
	struct vmm_mark *list = ctx->free;
	ctx->free = NULL;
	pthread_mutex_unlock(&ctx->lock);
	for (struct vmm_mark *m = list, *next; m; m = next) {
		next = m->next;
		if (alive)
			REAL(cuEventDestroy_v2)(m->event);
		free(m);
	}
}

void vmm_context_gone(CUcontext handle, int device)
{
	for (unsigned i = 0; i < CONTEXTS; i++) {
		struct vmm_context *ctx = &contexts.list[i];
		pthread_mutex_lock(&contexts.lock);
		CUcontext own = ctx->handle;
		bool match = own && (handle ? own == handle : ctx->primary && ctx->device == device);
		pthread_mutex_unlock(&contexts.lock);
		if (!match)
			continue;
		CUresult r;
		if (handle)
			synchronize(handle, &r); /* what fails here has no work left that could run */
		atomic_store(&ctx->gone, true);
		if (!drained(&ctx->users))
			log_once(LOG_WARN, "devmem: a context was destroyed under a call that uses it");
		drop_events(ctx, handle != NULL);
		pthread_mutex_lock(&contexts.lock);
		ctx->handle = NULL;
		pthread_mutex_unlock(&contexts.lock);
	}
}

/* ---- marks ---- */

static struct vmm_mark *mark_take(struct vmm_context *ctx)
{
	pthread_mutex_lock(&ctx->lock);
	struct vmm_mark *m = ctx->free;
	if (m)
		ctx->free = m->next;
	ctx->held++;
	pthread_mutex_unlock(&ctx->lock);
	if (m)
		return m;
	m = malloc(sizeof(*m));
	CUresult r = m ? REAL(cuCtxPushCurrent_v2)(ctx->handle) : CUDA_ERROR_OUT_OF_MEMORY;
	if (r == CUDA_SUCCESS) {
		r = REAL(cuEventCreate)(&m->event, CU_EVENT_DISABLE_TIMING);
		pop_context();
	}
	if (r == CUDA_SUCCESS) {
		m->ctx = ctx;
		return m;
	}
	free(m);
	vmm_context_put(ctx);
	return NULL;
}

/* The context is entered. `keep`: the event may be recorded again. */
static void mark_give(struct vmm_mark *m, bool keep)
{
	struct vmm_context *ctx = m->ctx;
	if (!keep) {
		REAL(cuEventDestroy_v2)(m->event);
		free(m);
		vmm_context_put(ctx);
		return;
	}
	pthread_mutex_lock(&ctx->lock);
	m->next = ctx->free;
	ctx->free = m;
	ctx->held--;
	pthread_mutex_unlock(&ctx->lock);
}

static CUresult record(struct vmm_stream *s, CUevent event)
{
	CUresult r;
	atomic_fetch_add(&s->users, 1);
	switch (atomic_load(&s->kind)) {
	case VMM_EXPLICIT: r = REAL(cuEventRecord)(event, s->handle); break;
	case VMM_LEGACY: /* names the current context's */
		r = REAL(cuCtxPushCurrent_v2)(s->ctx->handle);
		if (r == CUDA_SUCCESS) {
			r = REAL(cuEventRecord)(event, CU_STREAM_LEGACY);
			pop_context();
		}
		break;
	default: r = REAL(cuCtxRecordEvent)(s->ctx->handle, event); break;
	}
	atomic_fetch_sub(&s->users, 1);
	return r;
}

/*
 * While a capture is live nothing is recorded: on a capturing stream the event would become part
 * of the capture, and on the legacy stream or a whole context it would break it.
 */
static int mark(void *arg, void *stream, void **out)
{
	(void)arg;
	struct vmm_stream *s = stream;
	*out = &passed;
	if (atomic_load(&s->kind) == VMM_DONE || !enter(s->ctx))
		return 0;
	CUresult r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	struct vmm_mark *m = NULL;
	if (capture_hold_off()) {
		m = RELAXED(mark_take(s->ctx));
		r = m ? RELAXED(record(s, m->event)) : CUDA_ERROR_OUT_OF_MEMORY;
		/* One that could not wait so long may have taken the event: it is not asked anything. */
		if (r == CUDA_SUCCESS && capture_live())
			r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		capture_let_go();
	}
	if (m && r != CUDA_SUCCESS)
		mark_give(m, false);
	leave(s->ctx);
	if (r == CUDA_SUCCESS)
		*out = m;
	return (int)r;
}

static int mark_done(void *arg, void *mark, bool *done)
{
	(void)arg;
	struct vmm_mark *m = mark;
	*done = true;
	if (!m->ctx || !enter(m->ctx))
		return 0;
	CUresult r = RELAXED(REAL(cuEventQuery)(m->event));
	leave(m->ctx);
	*done = r == CUDA_SUCCESS;
	return r == CUDA_ERROR_NOT_READY ? 0 : (int)r;
}

/* The requesting stream is the calling thread's, or one made by the program. */
static int mark_wait(void *arg, void *stream, void *mark)
{
	(void)arg;
	struct vmm_stream *s = stream;
	struct vmm_mark *m = mark;
	if (!m->ctx || !enter(m->ctx))
		return 0;
	int kind = atomic_load(&s->kind);
	CUresult r = CUDA_ERROR_NOT_SUPPORTED;
	bool quiet = capture_hold_off();
	if (!quiet)
		r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	else if (kind == VMM_EXPLICIT)
		r = RELAXED(REAL(cuStreamWaitEvent)(s->handle, m->event, 0));
	else if (kind == VMM_LEGACY)
		r = RELAXED(REAL(cuStreamWaitEvent)(CU_STREAM_LEGACY, m->event, 0));
	else if (s->per_thread)
		r = RELAXED(REAL(cuStreamWaitEvent)(CU_STREAM_PER_THREAD, m->event, 0));
	if (quiet)
		capture_let_go();
	leave(m->ctx);
	return (int)r;
}

static int mark_block(void *arg, void *mark, uint64_t ns)
{
	uint64_t since = clock_ns();
	for (;;) {
		bool done;
		int r = mark_done(arg, mark, &done);
		if (r || done || clock_ns() - since >= ns)
			return r;
		pause_poll(since);
	}
}

static void mark_drop(void *arg, void *mark)
{
	(void)arg;
	struct vmm_mark *m = mark;
	struct vmm_context *ctx = m->ctx;
	if (!ctx)
		return;
	if (enter(ctx)) {
		mark_give(m, true);
		leave(ctx);
		return;
	}
	free(m);
	vmm_context_put(ctx);
}

void vmm_marks_init(struct heap_backend *backend)
{
	backend->mark = mark;
	backend->mark_done = mark_done;
	backend->mark_wait = mark_wait;
	backend->mark_block = mark_block;
	backend->mark_drop = mark_drop;
}

void vmm_stream_retire(struct vmm_stream *stream)
{
	int was = VMM_EXPLICIT;
	if (atomic_compare_exchange_strong(&stream->kind, &was, VMM_CONTEXT))
		drained(&stream->users);
}

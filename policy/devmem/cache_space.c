/* cache_space.c - which context has which space; the barrier of cuMemFree. */
#define _GNU_SOURCE
#include "cache_space.h"

#include "answers_peers.h"
#include "block.h"
#include "bound.h"
#include "cache_relaxed.h"
#include "capture.h"
#include "clock.h"
#include "log.h"
#include "room.h"
#include "calls.h"
#include "stats.h"

#define RETIRE_NS 2000000000ull

struct space spaces[SPACES] = {[0 ... SPACES - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}};

/* spaces[0 .. top) have ever been used; only grows. Release: what find() reads is there. */
static _Atomic unsigned top;
/* Guards the making and retiring of spaces; no driver call is made under it. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

static struct {
	_Atomic size_t bytes;
} devices[SPACE_DEVICES];

size_t space_device_bytes(int device)
{
	return device >= 0 && device < SPACE_DEVICES ? devices[device].bytes : 0;
}

static unsigned long long context_id(CUcontext ctx)
{
	unsigned long long id = 0;
	if (!REAL_HAS(cuCtxGetId) || REAL(cuCtxGetId)(ctx, &id) != CUDA_SUCCESS)
		return 0;
	return id;
}

/* ---- holding ---- */

bool space_hold(struct space *s)
{
	/* seq_cst against retire(): it sees the user, or the user sees the new state. */
	atomic_fetch_add_explicit(&s->users, 1, memory_order_seq_cst);
	if (atomic_load_explicit(&s->state, memory_order_seq_cst) == SPACE_READY)
		return true;
	space_put(s);
	return false;
}

void space_put(struct space *s)
{
	/* Release: what this user did is done when retire() sees it gone. */
	atomic_fetch_sub_explicit(&s->users, 1, memory_order_release);
}

static struct space *find(CUcontext ctx)
{
	unsigned n = atomic_load_explicit(&top, memory_order_acquire);
	for (unsigned i = 0; i < n; i++)
		if (atomic_load_explicit(&spaces[i].ctx, memory_order_relaxed) == ctx)
			return &spaces[i];
	return NULL;
}

/* ---- making ---- */

static bool is_primary(CUcontext ctx, int device)
{
	unsigned flags;
	int active = 0;
	CUcontext primary = NULL;
	if (REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active) != CUDA_SUCCESS || !active ||
		REAL(cuDevicePrimaryCtxRetain)(&primary, device) != CUDA_SUCCESS)
		return false;
	/* Balanced: it was active, so this cannot be the last reference. */
	REAL(cuDevicePrimaryCtxRelease_v2)(device);
	return primary == ctx;
}

/* A green context's own synchronisation waits for a part of the work only. It is told from others
 * by exclusion, in programs that have made one. */
static bool maybe_green(bool primary)
{
	return !primary && (stats_cell_sum(HOOK_cuCtxFromGreenCtx) || stats_cell_sum(HOOK_cuGreenCtxCreate));
}

static const CUuuid *uuid_of(int device, CUuuid *uuid)
{
	if (REAL_HAS(cuDeviceGetUuid_v2) && REAL(cuDeviceGetUuid_v2)(uuid, device) == CUDA_SUCCESS)
		return uuid;
	if (REAL_HAS(cuDeviceGetUuid) && REAL(cuDeviceGetUuid)(uuid, device) == CUDA_SUCCESS)
		return uuid;
	return NULL;
}

enum described { DESCRIBE_OK, DESCRIBE_UNUSABLE, DESCRIBE_FAILED };

/* `ctx` is current. */
static enum described describe(struct space *s, CUcontext ctx)
{
	CUdevice device;
	CUuuid uuid;
	size_t bytes;
	if (REAL(cuCtxGetDevice)(&device) != CUDA_SUCCESS || device < 0 || device >= SPACE_DEVICES ||
		REAL(cuDeviceTotalMem_v2)(&bytes, device) != CUDA_SUCCESS)
		return DESCRIBE_FAILED;
	s->device = device;
	s->ctx_id = context_id(ctx);
	s->primary = is_primary(ctx, device);
	atomic_store(&devices[device].bytes, bytes);
	bound_device(device, bytes, uuid_of(device, &uuid));
	if (maybe_green(s->primary)) {
		log_once(LOG_INFO, "devmem: allocations of a green context pass through");
		return DESCRIBE_UNUSABLE;
	}
	return bins_open(&s->bins, bytes) ? DESCRIBE_OK : DESCRIBE_FAILED;
}

static struct space *claim(CUcontext ctx)
{
	struct space *s = NULL;
	pthread_mutex_lock(&making);
	if (!find(ctx)) {
		unsigned i = 0;
		while (i < SPACES && (atomic_load(&spaces[i].state) != SPACE_NONE || atomic_load(&spaces[i].users)))
			i++;
		if (i < SPACES) {
			s = &spaces[i];
			atomic_store_explicit(&s->state, SPACE_BUILDING, memory_order_relaxed);
			atomic_store_explicit(&s->ctx, ctx, memory_order_relaxed);
			if (i >= atomic_load(&top))
				atomic_store_explicit(&top, i + 1, memory_order_release);
		} else {
			log_once(LOG_WARN, "devmem: more than %d contexts; the others pass through", SPACES);
		}
	}
	pthread_mutex_unlock(&making);
	return s;
}

/* Makes the space of a current context. Calls of other threads in it pass through meanwhile. */
static struct space *make(CUcontext ctx)
{
	struct space *s = claim(ctx);
	if (!s)
		return find(ctx);
	CUstreamCaptureMode mode;
	enum described what = DESCRIBE_FAILED;
	if (relaxed_begin(&mode)) {
		what = describe(s, ctx);
		relaxed_end(mode);
	}
	if (what == DESCRIBE_FAILED) { /* the next call may try again */
		atomic_store_explicit(&s->ctx, NULL, memory_order_relaxed);
		atomic_store_explicit(&s->state, SPACE_NONE, memory_order_release);
		return NULL;
	}
	atomic_store_explicit(&s->state, what == DESCRIBE_OK ? SPACE_READY : SPACE_UNUSABLE,
						  memory_order_release);
	return s;
}

/* A context at an old one's address, whose end was not seen. */
static bool renewed(struct space *s, CUcontext ctx)
{
	return s->ctx_id && s->ctx_id != context_id(ctx);
}

struct space *space_get(CUcontext *current)
{
	CUcontext ctx = NULL;
	*current = NULL;
	if (REAL(cuCtxGetCurrent)(&ctx) != CUDA_SUCCESS || !ctx)
		return NULL;
	*current = ctx;
	struct space *s = find(ctx);
	if (!s)
		s = make(ctx);
	if (!s || !space_hold(s))
		return NULL;
	if (renewed(s, ctx)) {
		space_put(s);
		space_context_gone(ctx, -1);
		return NULL;
	}
	return s;
}

struct space *space_known(CUcontext ctx)
{
	struct space *s = find(ctx);
	return s && space_hold(s) ? s : NULL;
}

struct space *space_of_context(CUcontext ctx)
{
	struct space *s = find(ctx);
	if (!s) {
		CUresult r = REAL(cuCtxPushCurrent_v2)(ctx);
		if (r == CUDA_ERROR_INVALID_CONTEXT || r == CUDA_ERROR_CONTEXT_IS_DESTROYED)
			peers_forget(ctx);
		if (r != CUDA_SUCCESS)
			return NULL;
		s = make(ctx);
		pop_context();
	}
	return s && space_hold(s) ? s : NULL;
}

static bool among(const struct space *s, struct space *const *list, int n)
{
	while (n)
		if (list[--n] == s)
			return true;
	return false;
}

/* The other contexts of the device, after the `got` that are there. A copy that is queued in one of them may
 * name the memory of another, with peer access or without; the driver's cuMemFree waits for the device. */
static int add_neighbours(const struct space *s, struct space *peers[SPACE_PEERS], int got)
{
	unsigned n = atomic_load_explicit(&top, memory_order_acquire);
	for (unsigned i = 0; i < n && got >= 0; i++) {
		struct space *other = &spaces[i];
		if (other == s || among(other, peers, got) || !space_hold(other))
			continue;
		if (other->device != s->device) {
			space_put(other);
			continue;
		}
		if (got < SPACE_PEERS) {
			peers[got++] = other;
			continue;
		}
		space_put(other);
		while (got)
			space_put(peers[--got]);
		got = -1;
	}
	return got;
}

int space_peers(struct space *s, struct space *peers[SPACE_PEERS])
{
	CUcontext ctx[SPACE_PEERS];
	size_t n = peers_of(atomic_load_explicit(&s->ctx, memory_order_relaxed), ctx, SPACE_PEERS);
	int got = 0;
	if (n > SPACE_PEERS)
		return -1;
	for (size_t i = 0; i < n; i++) {
		peers[got] = space_of_context(ctx[i]);
		if (peers[got]) {
			got++;
			continue;
		}
		while (got)
			space_put(peers[--got]);
		return -1;
	}
	return add_neighbours(s, peers, got);
}

/* ---- calls in its context ---- */

bool space_enter(struct space *s, struct space_call *call)
{
	CUcontext ctx = atomic_load_explicit(&s->ctx, memory_order_relaxed), current = NULL;
	if (REAL(cuCtxGetCurrent)(&current) != CUDA_SUCCESS)
		return false;
	call->pushed = current != ctx;
	if (call->pushed && REAL(cuCtxPushCurrent_v2)(ctx) != CUDA_SUCCESS)
		return false;
	if (relaxed_begin(&call->mode))
		return true;
	if (call->pushed)
		pop_context();
	return false;
}

void space_leave(const struct space_call *call)
{
	relaxed_end(call->mode);
	if (call->pushed)
		pop_context();
}

static CUresult synchronize(struct space *s)
{
	struct space_call call;
	if (!space_enter(s, &call))
		return CUDA_ERROR_INVALID_CONTEXT;
	CUresult r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (capture_hold_off()) {
		r = REAL(cuCtxSynchronize)();
		capture_let_go();
	}
	space_leave(&call);
	return r;
}

CUresult space_barrier(struct space *s)
{
	struct space *peers[SPACE_PEERS];
	int n = space_peers(s, peers);
	CUresult r = n < 0 ? CUDA_ERROR_INVALID_CONTEXT : synchronize(s);
	for (int i = 0; i < n; i++) {
		/* An error of another context is none of this one's. */
		if (r == CUDA_SUCCESS && synchronize(peers[i]) != CUDA_SUCCESS)
			r = CUDA_ERROR_INVALID_CONTEXT;
		space_put(peers[i]);
	}
	return r;
}

/* ---- the end of a context ---- */

/* No new call gets the space, and those that hold it have left; false when they do not. */
static bool retire(struct space *s)
{
	uint64_t since = clock_ns();
	while (atomic_load_explicit(&s->users, memory_order_seq_cst) != 0) {
		if (clock_ns() - since > RETIRE_NS) {
			log_once(LOG_WARN, "devmem: a context ended under a call that does not return");
			return false;
		}
		pause_poll(since);
	}
	return true;
}

/* No driver call: memory and events went with the context, or are about to. */
static void forget(struct space *s, bool left)
{
	pthread_mutex_lock(&s->lock);
	bound_sub(s->device, s->cached);
	s->cached = 0;
	s->slack = 0;
	s->oldest = s->newest = NULL;
	s->faulted = false;
	defer_forget(s, left);
	atomic_fetch_add(&s->life, 1);
	bins_close(&s->bins);
	block_forget(s);
	pthread_mutex_unlock(&s->lock);
	peers_forget(atomic_load(&s->ctx));
}

bool space_is_primary(CUcontext ctx)
{
	struct space *s = space_known(ctx);
	bool primary = s && s->primary;
	if (s)
		space_put(s);
	return primary;
}

void space_context_gone(CUcontext ctx, int device)
{
	for (unsigned i = 0; i < atomic_load(&top); i++) {
		struct space *s = &spaces[i];
		int state = atomic_load_explicit(&s->state, memory_order_acquire);
		if ((state != SPACE_READY && state != SPACE_UNUSABLE) ||
			(ctx ? atomic_load(&s->ctx) != ctx : !(s->primary && s->device == device)))
			continue;
		if (!atomic_compare_exchange_strong(&s->state, &state, SPACE_BUILDING))
			continue;
		bool quiet = retire(s);
		forget(s, !quiet);
		atomic_store_explicit(&s->ctx, NULL, memory_order_relaxed);
		atomic_store_explicit(&s->state, quiet ? SPACE_NONE : SPACE_LEFT, memory_order_release);
	}
}

void space_fork_child(void)
{
	pthread_mutex_init(&making, NULL);
	for (unsigned i = 0; i < SPACES; i++) {
		pthread_mutex_init(&spaces[i].lock, NULL);
		atomic_store(&spaces[i].users, 0);
	}
	batch_fork_child();
	room_fork_child();
}

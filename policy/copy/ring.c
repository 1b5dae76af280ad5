/* ring.c - which context has which ring: built at its first copy, gone with the context. */
#define _GNU_SOURCE
#include "ring.h"

#include <sys/mman.h>

#include "log.h"
#include "options.h"
#include "pause.h"
#include "real.h"
#include "ring_mem.h"
#include "stats.h"

#define RINGS 32 /* contexts with a ring; a program with more passes copies through there */

static struct copy_ring rings[RINGS];

static unsigned long long context_id(CUcontext ctx)
{
	unsigned long long id = 0;
	if (!REAL_HAS(cuCtxGetId) || REAL(cuCtxGetId)(ctx, &id) != CUDA_SUCCESS)
		return 0;
	return id;
}

static int attribute(CUdevice_attribute what, int device, int missing)
{
	int v = missing;
	if (REAL(cuDeviceGetAttribute)(&v, what, device) != CUDA_SUCCESS)
		return missing;
	return v;
}

static bool is_primary(CUcontext ctx, int device)
{
	unsigned flags;
	int active = 0;
	if (REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active) != CUDA_SUCCESS || !active)
		return false;
	CUcontext primary = NULL;
	if (REAL(cuDevicePrimaryCtxRetain)(&primary, device) != CUDA_SUCCESS)
		return false;
	/* Balanced: it was active, so this cannot be the last reference. */
	REAL(cuDevicePrimaryCtxRelease_v2)(device);
	return primary == ctx;
}

/* Undo what build() made; `made` events exist. */
static void destroy(struct copy_ring *ring, unsigned made, bool registered)
{
	for (unsigned i = 0; i < made; i++)
		REAL(cuEventDestroy_v2)(ring->slot[i].own);
	if (ring->stream_in)
		REAL(cuStreamDestroy_v2)(ring->stream_in);
	if (ring->stream_out)
		REAL(cuStreamDestroy_v2)(ring->stream_out);
	ring->stream_in = ring->stream_out = NULL;
	ring->slots = 0;
	/* Memory that stays registered must not be unmapped: whatever is mapped there next
	 * would be taken for pinned. It goes when its context has gone. */
	if (registered && REAL(cuMemHostUnregister)(ring->mem) != CUDA_SUCCESS)
		return;
	if (ring->mem)
		munmap(ring->mem, ring->mem_bytes);
	ring->mem = NULL;
}

static CUresult make_handles(struct copy_ring *ring, unsigned *made)
{
	CUresult r = REAL(cuStreamCreate)(&ring->stream_in, CU_STREAM_NON_BLOCKING);
	if (r == CUDA_SUCCESS)
		r = REAL(cuStreamCreate)(&ring->stream_out, CU_STREAM_NON_BLOCKING);
	unsigned n = (unsigned)(ring->mem_bytes / COPY_SLOT_BYTES);
	for (; r == CUDA_SUCCESS && *made < n; ++*made) {
		struct copy_slot *s = &ring->slot[*made];
		s->mem = ring->mem + (size_t)*made * COPY_SLOT_BYTES;
		atomic_store_explicit(&s->state, SLOT_FREE, memory_order_relaxed);
		r = REAL(cuEventCreate)(&s->own, CU_EVENT_DISABLE_TIMING);
		if (r != CUDA_SUCCESS)
			break;
	}
	return r;
}

static bool build(struct copy_ring *ring, CUcontext ctx)
{
	CUdevice device;
	if (REAL(cuCtxGetDevice)(&device) != CUDA_SUCCESS)
		return false;
	ring->device = device;
	ring->ctx_id = context_id(ctx);
	ring->primary = is_primary(ctx, device);
	/* Where the GPU walks the host's page tables, pageable copies are already fast
	 * (GH200: 93 of 97 GiB/s) and registering means nothing. */
	if (attribute(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, device, 0)) {
		log_info("copy: device %d uses the host's page tables; copies pass through", device);
		return false;
	}
	/* With HMM a kernel ahead in the stream may still write the source. */
	ring->early_reads = !attribute(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, device, 0);
	int64_t mb = option_get(OPT_COPY_RING_MB);
	ring->mem_bytes = (size_t)(mb == OPTION_AUTO ? COPY_RING_MB : mb) << 20;
	ring->mem = ring_mem_map(ring->mem_bytes, attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device, -1));
	if (!ring->mem) {
		log_once(LOG_WARN, "copy: no memory for a %zu MiB ring; copies on device %d pass through",
				 ring->mem_bytes >> 20, device);
		stats_add(STATS_ERRORS, 1);
		return false;
	}
	unsigned made = 0;
	bool registered = false;
	CUresult r = REAL(cuMemHostRegister_v2)(ring->mem, ring->mem_bytes, CU_MEMHOSTREGISTER_PORTABLE);
	if (r == CUDA_SUCCESS) {
		registered = true;
		r = make_handles(ring, &made);
	}
	if (r != CUDA_SUCCESS) {
		log_once(LOG_WARN, "copy: ring on device %d failed (CUDA error %d); copies pass through", device,
				 (int)r);
		stats_add(STATS_ERRORS, 1);
		destroy(ring, made, registered);
		return false;
	}
	ring->slots = made;
	stats_add(STATS_COPY_RING_BYTES, ring->mem_bytes);
	log_info("copy: %zu MiB ring on device %d", ring->mem_bytes >> 20, device);
	return true;
}

/* The current thread's calls must neither disturb nor be disturbed by a capture
 * that another thread starts meanwhile. */
static bool build_relaxed(struct copy_ring *ring, CUcontext ctx)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	if (REAL(cuThreadExchangeStreamCaptureMode)(&mode) != CUDA_SUCCESS)
		return false;
	bool ok = build(ring, ctx);
	REAL(cuThreadExchangeStreamCaptureMode)(&mode);
	return ok;
}

static struct copy_ring *hold(struct copy_ring *ring)
{
	atomic_fetch_add_explicit(&ring->users, 1, memory_order_seq_cst);
	if (atomic_load_explicit(&ring->state, memory_order_seq_cst) == RING_READY)
		return ring;
	ring_put(ring);
	return NULL;
}

static struct copy_ring *find(CUcontext ctx)
{
	for (unsigned i = 0; i < RINGS; i++) {
		struct copy_ring *ring = &rings[i];
		/* Acquire: `ctx`, and everything else once the state is RING_READY. */
		if (atomic_load_explicit(&ring->state, memory_order_acquire) != RING_NONE &&
			atomic_load_explicit(&ring->ctx, memory_order_relaxed) == ctx)
			return ring;
	}
	return NULL;
}

/* One ring is built at a time; callers that come meanwhile pass their copy through. */
static struct copy_ring *build_first(CUcontext ctx)
{
	static atomic_flag building = ATOMIC_FLAG_INIT;
	if (atomic_flag_test_and_set_explicit(&building, memory_order_acquire))
		return NULL;
	struct copy_ring *ring = find(ctx);
	for (unsigned i = 0; i < RINGS && !ring; i++)
		if (atomic_load_explicit(&rings[i].state, memory_order_acquire) == RING_NONE)
			ring = &rings[i];
	bool ok = false;
	if (!ring) {
		log_once(LOG_WARN, "copy: more than %d contexts; copies in the others pass through", RINGS);
	} else if (atomic_load_explicit(&ring->state, memory_order_acquire) == RING_NONE) {
		atomic_store_explicit(&ring->ctx, ctx, memory_order_relaxed);
		ok = build_relaxed(ring, ctx);
		atomic_store_explicit(&ring->state, ok ? RING_READY : RING_FAILED, memory_order_release);
	}
	atomic_flag_clear_explicit(&building, memory_order_release);
	return ok ? ring : NULL;
}

struct copy_ring *ring_get(void)
{
	CUcontext ctx = NULL;
	if (REAL(cuCtxGetCurrent)(&ctx) != CUDA_SUCCESS || !ctx)
		return NULL;
	struct copy_ring *ring = find(ctx);
	if (!ring)
		ring = build_first(ctx);
	ring = ring ? hold(ring) : NULL;
	if (ring && ring->ctx_id && ring->ctx_id != context_id(ctx)) {
		ring_put(ring); /* a new context at an old address, whose end was not seen */
		return NULL;
	}
	return ring;
}

void ring_put(struct copy_ring *ring)
{
	atomic_fetch_sub_explicit(&ring->users, 1, memory_order_release);
}

/* No new call gets the ring, and those that hold it have left; false when they do
 * not leave within 2 s (a copy stuck in a dying context: the ring is left behind). */
static bool retire(struct copy_ring *ring)
{
	int state = atomic_load_explicit(&ring->state, memory_order_acquire);
	if (state != RING_READY && state != RING_FAILED)
		return false;
	if (!atomic_compare_exchange_strong_explicit(&ring->state, &state, RING_BUILDING, memory_order_seq_cst,
												 memory_order_relaxed))
		return false;
	uint64_t since = clock_ns();
	while (atomic_load_explicit(&ring->users, memory_order_seq_cst) != 0) {
		if (clock_ns() - since > 2000000000ull) {
			log_once(LOG_WARN, "copy: a context was destroyed under a copy; its ring is left behind");
			return false;
		}
		pause_poll(since);
	}
	return true;
}

/* While the context lives: undo the registration too. The program's call waits for
 * the device anyway, so an unregister that does is in its place here. Relaxed: another
 * thread may be capturing in another context. */
static void release_handles(struct copy_ring *ring)
{
	CUcontext popped;
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	if (!ring->mem || REAL(cuCtxPushCurrent_v2)(atomic_load(&ring->ctx)) != CUDA_SUCCESS)
		return;
	if (REAL(cuThreadExchangeStreamCaptureMode)(&mode) == CUDA_SUCCESS) {
		REAL(cuCtxSynchronize)();
		destroy(ring, ring->slots, true);
		REAL(cuThreadExchangeStreamCaptureMode)(&mode);
	}
	REAL(cuCtxPopCurrent_v2)(&popped);
}

void ring_context_gone(CUcontext ctx, int device)
{
	for (unsigned i = 0; i < RINGS; i++) {
		struct copy_ring *ring = &rings[i];
		if (atomic_load_explicit(&ring->state, memory_order_acquire) == RING_NONE)
			continue;
		if (ctx ? atomic_load(&ring->ctx) != ctx : !(ring->primary && ring->device == device))
			continue;
		if (!retire(ring))
			continue;
		if (ctx)
			release_handles(ring);
		/* Registration, events and streams went with the context; the mapping is ours. */
		if (ring->mem)
			munmap(ring->mem, ring->mem_bytes);
		ring->mem = NULL;
		ring->stream_in = ring->stream_out = NULL;
		ring->slots = 0;
		atomic_store_explicit(&ring->ctx, NULL, memory_order_relaxed);
		atomic_store_explicit(&ring->state, RING_NONE, memory_order_release);
	}
}

void ring_fork_child(void)
{
	/* The mapping is MADV_DONTFORK and the handles are the parent's: forget all. */
	for (unsigned i = 0; i < RINGS; i++) {
		atomic_store(&rings[i].users, 0);
		atomic_store(&rings[i].ctx, NULL);
		rings[i].mem = NULL;
		atomic_store(&rings[i].state, RING_NONE);
	}
}

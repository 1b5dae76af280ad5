#include "verify.h"

#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "options.h"
#include "pause.h"
#include "real.h"
#include "stats.h"

#define PIECE (1u << 20)
/* How long the stream of an asynchronous copy is waited for. */
#define PATIENCE_NS 20000000ull

bool verify_due(void)
{
	static _Atomic uint64_t seen; /* relaxed: only which copy is the N-th depends on it */
	int64_t every = option_get(OPT_VERIFY);
	if (every <= 0)
		return false;
	return atomic_fetch_add_explicit(&seen, 1, memory_order_relaxed) % (uint64_t)every == 0;
}

bool verify_settled(struct stage *st)
{
	const struct copy_call *call = st->call;
	if (!st->on_caller)
		return true; /* it has had its turn */
	if (!REAL_HAS(cuStreamQuery) || !REAL_HAS(cuStreamQuery_ptsz))
		return false;
	return (call->per_thread ? REAL(cuStreamQuery_ptsz)(call->stream) : REAL(cuStreamQuery)(call->stream)) ==
		   CUDA_SUCCESS;
}

/* True once every DMA has run. On our own stream that is soon; on the program's an
 * asynchronous copy may be behind work that ends only after this call has returned. */
static bool arrived(struct stage *st)
{
	if (!st->on_caller || st->call->sync)
		return stage_finish(st) == CUDA_SUCCESS;
	uint64_t since = clock_ns();
	CUevent fence;
	if (stage_fence(st, &fence) != CUDA_SUCCESS)
		return false;
	while (stage_poll(st) == CUDA_SUCCESS && st->done != st->issued) {
		if (clock_ns() - since > PATIENCE_NS)
			return false;
		pause_poll(since);
	}
	return st->done == st->issued;
}

static bool piece_equal(struct stage *st, const unsigned char *host, CUdeviceptr dev, void *buf, size_t n)
{
	/* Pageable, so it returns when the bytes are here; our stream, so it waits for
	 * nothing of the program's. */
	CUresult r = REAL(cuMemcpyDtoHAsync_v2)(buf, dev, n, st->ring->stream_out);
	if (r == CUDA_SUCCESS)
		r = REAL(cuStreamSynchronize)(st->ring->stream_out);
	return r != CUDA_SUCCESS || memcmp(buf, host, n) == 0;
}

/* Offset of the piece in which the device's bytes differ from `host`, or call->bytes. */
static size_t device_differs(struct stage *st, const unsigned char *host)
{
	const struct copy_call *call = st->call;
	CUdeviceptr dev = call->dir == COPY_H2D ? call->dst : call->src;
	size_t at = 0;
	void *buf = malloc(PIECE);
	if (!buf)
		return call->bytes;
	while (at < call->bytes) {
		size_t n = call->bytes - at < PIECE ? call->bytes - at : PIECE;
		if (!piece_equal(st, host + at, dev + at, buf, n))
			break;
		at += n;
	}
	free(buf);
	return at;
}

/* The same for the ring of a copy that has every byte in it still, and the source. */
static size_t ring_differs(struct stage *st)
{
	const unsigned char *ring = st->slot[0]->mem, *host = st->job->host;
	size_t at = 0;
	while (at < st->call->bytes) {
		size_t n = st->call->bytes - at < PIECE ? st->call->bytes - at : PIECE;
		if (memcmp(ring + at, host + at, n) != 0)
			break;
		at += n;
	}
	return at;
}

static size_t differs(struct stage *st, bool settled)
{
	if (!st->on_caller)
		return arrived(st) ? device_differs(st, st->job->host) : st->call->bytes;
	size_t at = settled ? ring_differs(st) : st->call->bytes;
	if (at == st->call->bytes && arrived(st))
		at = device_differs(st, st->slot[0]->mem);
	return at;
}

bool verify_equal(struct stage *st, bool settled)
{
	const struct copy_call *call = st->call;
	size_t at = differs(st, settled);
	stats_add(STATS_COPY_VERIFIED, 1);
	if (at == call->bytes)
		return true;
	stats_add(STATS_COPY_MISMATCH, 1);
	log_error("copy: TURBO_VERIFY: a %s copy of %zu bytes differs within %u bytes of offset %zu",
			  call->dir == COPY_H2D ? "host-to-device" : "device-to-host", call->bytes, PIECE, at);
	return false;
}

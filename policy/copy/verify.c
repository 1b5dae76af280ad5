#include "verify.h"

#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "options.h"
#include "real.h"
#include "stats.h"

#define PIECE (1u << 20)

bool verify_due(void)
{
	static _Atomic uint64_t seen; /* relaxed: only which copy is the N-th depends on it */
	int64_t every = option_get(OPT_VERIFY);
	if (every <= 0)
		return false;
	return atomic_fetch_add_explicit(&seen, 1, memory_order_relaxed) % (uint64_t)every == 0;
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

bool verify_equal(struct stage *st)
{
	const struct copy_call *call = st->call;
	bool in = call->dir == COPY_H2D;
	const unsigned char *host = (const unsigned char *)(in ? call->src : call->dst);
	CUdeviceptr dev = in ? call->dst : call->src;
	void *buf = malloc(PIECE);
	if (!buf)
		return true;
	bool equal = true;
	for (size_t at = 0; equal && at < call->bytes; at += PIECE) {
		size_t n = call->bytes - at < PIECE ? call->bytes - at : PIECE;
		equal = piece_equal(st, host + at, dev + at, buf, n);
		if (!equal)
			log_error("copy: TURBO_VERIFY: a %s copy of %zu bytes differs within %zu bytes of offset %zu",
					  in ? "host-to-device" : "device-to-host", call->bytes, n, at);
	}
	free(buf);
	stats_add(STATS_COPY_VERIFIED, 1);
	if (!equal)
		stats_add(STATS_COPY_MISMATCH, 1);
	return equal;
}

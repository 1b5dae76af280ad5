/*
 * copy_bench.h - the buffers and the copies of copy_bench.
 */
#ifndef TURBO_COPY_BENCH_H
#define TURBO_COPY_BENCH_H

#include <stdbool.h>

#include "tests/gpu/common/cuda_dl.h"
#include "tests/gpu/common/util.h"

enum { OP_H2D, OP_D2H };
enum { KIND_PINNED, KIND_HEAP, KIND_SHM, KIND_FRESH };
enum { API_ASYNC, API_STREAM, API_SYNC };

struct cell {
	unsigned op, kind, api;
	size_t bytes;
};

struct bench_options {
	bool verify;
	uint64_t cell_ms;
	size_t min_reps;
};

struct copy_times {
	uint64_t total, blocked, cpu; /* ns; cpu only where asked for */
};

struct cell_result {
	size_t reps;
	uint64_t total_ns, blocked_ns, p10_ns, cpu_ns;
};

/* Context, streams, device block of `largest` bytes, warm heap and pinned blocks; prints the
 * machine line. False, after a line on stderr, on an error. */
bool bench_open(size_t largest, size_t largest_pinned);
void bench_close(void);

/* True for kinds that take a new mapping for every copy. */
bool bench_block_is_per_copy(const struct cell *c);
/* The host side of one copy, written for H2D if it is new; NULL after a line on stderr. */
void *bench_block_get(const struct cell *c, uint32_t seed);
void bench_block_put(const struct cell *c, void *host);

/* One copy between `host` and the device block. */
bool bench_copy(const struct cell *c, void *host, bool with_cpu, struct copy_times *t);

/*
 * One copy with its bytes checked: a pageable source is overwritten as soon as the call
 * returns, a pageable destination is read before anything else happens. *wrong becomes the
 * offset of the first wrong byte. False on a driver error.
 */
bool bench_verify(const struct cell *c, int64_t *wrong);

#endif

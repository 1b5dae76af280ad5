/*
 * launches.h - launches that the GPU has not finished, each with its two events.
 *
 * A fixed table. A launch has its events for as long as their context lives and is handed out again with them, so in
 * the steady state the issuing thread makes two records and no other call. Who holds a launch: the issuing thread from
 * launch_take() to launch_push(), then the sampler until launch_give(). Events belong to the context of the stream.
 *
 * No lock is taken but for a context that was never seen, and none across a driver call.
 */
#ifndef TURBO_NCCL_LAUNCHES_H
#define TURBO_NCCL_LAUNCHES_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "flight_page.h"

/* A stream takes some thousand kernels before its launches block, so more are not open on it. A power of two. */
#define LAUNCHES 4096
#define GPU_CONTEXTS 32

enum gpu_state {
	GPU_NONE,
	GPU_LIVE,
	GPU_FAILED, /* the driver answers with an error that lasts: nothing more is asked */
	GPU_GONE,   /* the program has ended it; free again when the sampler has taken its launches out */
};

struct gpu {
	_Atomic int state;     /* enum gpu_state; release when LIVE */
	_Atomic unsigned life; /* counted up when it ends: older events are dead */
	_Atomic CUcontext ctx;
	_Atomic uint64_t free; /* stack of launches that have events of it: changes << 32 | slot + 1 */
	/* Constant while LIVE. */
	int device;
	bool primary;
};

struct launch {
	_Atomic uint32_t next; /* in a stack: slot + 1 */
	uint32_t number;       /* uses << 12 | slot; never 0 */
	/* With its events: constant until it is blank again. */
	struct gpu *gpu;
	unsigned gpu_life;
	CUevent begin, end;
	/* The issuing thread's, until it is pushed; then the sampler's. */
	struct flight_comm *comm;
	uint32_t life;   /* of the communicator's place */
	bool recorded;   /* the end has been recorded */
	uint64_t stream; /* tells streams apart; a thread's own default stream by its thread */
	CUstream handle;
	uint64_t first, index; /* operations; of a group the same on all streams, but for how far they go */
	uint64_t last; /* operation that gets its time with this launch: `index`, or one of a launch that was done
							  earlier */
	uint64_t bytes; /* of them */
	/* ns: it had not begun yet; 0 or when it was seen to have. */
	uint64_t not_begun, begun;
	uint64_t prior; /* index of the launch before this one in its communicator */
	struct launch *older, *newer;
};

static inline uint64_t progress_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/*
 * One with events for `stream`, for the calling thread; NULL: the context cannot be found or has failed, or there is
 * none left. `device`: the communicator's, -1 not known; a default stream is only taken for it when it is the current
 * device's. Inside the guard; nothing captures on the stream.
 */
struct launch *launch_take(CUstream stream, int device);
struct launch *launch_of(uint32_t number);
/* To the sampler. */
void launch_push(struct launch *launch);
/* All that were pushed since the last call, oldest first, linked by `newer`. The sampler. */
struct launch *launch_pushed(void);
/* Nobody looks at its events any more. The holder. */
void launch_give(struct launch *launch);
/* Its events are still there. */
bool launch_alive(const struct launch *launch);

/* See struct policy. The caller has seen to it that the sampler is not in a driver call. */
void gpus_gone(CUcontext ctx, int device);
/* Takes what was of contexts that are gone out. The sampler. */
void gpus_bury(void);
/* An error that lasts: says so once. */
void gpu_failed(struct gpu *gpu, CUresult error);

void launches_fork_child(void);

#endif

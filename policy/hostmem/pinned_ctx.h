/*
 * pinned_ctx.h - the contexts of the process, as far as the cache of pinned memory must know them: who owns a
 * block, and what work may still use one that was freed.
 *
 * Pinned memory is reached from every context of every device. The driver's cuMemFreeHost waits for the owner's
 * device: so do we. For the others we do not wait, because a program could wait for us in turn; a block that they may
 * still use is handed out when events recorded there at the free have passed.
 *
 * A thread that uses a context holds it: its end waits for such threads, at most two seconds.
 */
#ifndef TURBO_HOSTMEM_PINNED_CTX_H
#define TURBO_HOSTMEM_PINNED_CTX_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PINNED_CTXS 64       /* contexts; with more of them blocks are not kept */
#define PINNED_CTX_EVENTS 32 /* unused ones kept for each */
#define PINNED_FENCES 128    /* blocks that other devices may still use */
#define PINNED_FENCE_MOST 16 /* contexts of other devices */

struct pinned_ctx {
	_Atomic int state; /* 0 free, 1 being made or ending, 2 ready, 3 ended under a call: never used again */
	_Atomic unsigned users;
	_Atomic CUcontext ctx;
	_Atomic unsigned life; /* counts the contexts that have ended here */
	/* Constant while ready. */
	int device;
	unsigned long long id; /* 0: not known */
	bool primary;
	CUevent alive; /* never recorded: asked whether the context's work has failed */
	/* pinned_lock. */
	unsigned n_events;
	CUevent event[PINNED_CTX_EVENTS];
};

extern struct pinned_ctx pinned_ctxs[PINNED_CTXS];

struct pinned_fence {
	unsigned n; /* events that have not passed */
	struct {
		struct pinned_ctx *ctx;
		unsigned life;
		CUevent event;
	} at[PINNED_FENCE_MOST];
	struct pinned_fence *next; /* unused ones; pinned_lock */
};

/* The thread's current context, made known when it is new, held; NULL: none, or one that is not served. */
struct pinned_ctx *pinned_ctx_current(void);
/* pinned_ctxs[0 .. n) have ever been used. */
unsigned pinned_ctx_count(void);
bool pinned_ctx_hold(struct pinned_ctx *c);
void pinned_ctx_put(struct pinned_ctx *c);
/* Its work has not failed, as far as the driver knows. */
bool pinned_ctx_alive(const struct pinned_ctx *c);

/* Around calls of ours in a context that is held: current, and the thread in relaxed capture mode. */
struct pinned_call {
	bool pushed;
	CUstreamCaptureMode mode;
};
bool pinned_relaxed_begin(CUstreamCaptureMode *mode);
void pinned_relaxed_end(CUstreamCaptureMode mode);
bool pinned_enter(struct pinned_ctx *c, struct pinned_call *call);
void pinned_leave(const struct pinned_call *call);

/* Waits for the work of the device of `owner` (held). The owner's own error; INVALID_CONTEXT when another one
 * cannot be waited for, STREAM_CAPTURE_UNSUPPORTED during captures. */
CUresult pinned_barrier(struct pinned_ctx *owner);

enum pinned_elsewhere {
	PINNED_IDLE,   /* no other device has work, or has passed what it had */
	PINNED_AHEAD,  /* *fence says when */
	PINNED_UNSURE, /* cannot be told */
};
/* The work of all contexts of devices other than `device`; -1: of all devices. No wait. */
enum pinned_elsewhere pinned_fence_record(int device, struct pinned_fence **fence);
/* Never waits. PINNED_IDLE, PINNED_UNSURE: the fence is no more. */
enum pinned_elsewhere pinned_fence_look(struct pinned_fence *fence);
void pinned_fence_drop(struct pinned_fence *fence);
/* The same in two steps: with pinned_lock held, and some time later without. */
void pinned_fence_abandon(struct pinned_fence *fence);
void pinned_fence_sweep(void);

/* Makes the devices' primary contexts known; false: a context exists that is not. */
bool pinned_all_known(void);
/* The program has made contexts whose work cannot be waited for. */
bool pinned_green(void);
bool pinned_is_primary(CUcontext ctx);
/* A context ends (struct policy): its blocks are forgotten when nobody holds it any more. */
void pinned_ctx_gone(CUcontext ctx, int device);
void pinned_ctx_fork_child(void);

#endif

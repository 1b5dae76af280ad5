/*
 * policy.h - the interface every capability stands behind.
 *
 * A policy lives in a folder of its own below policy/ and is one row of
 * policies.def. shim/ calls it through this table and through the few entry
 * points of its own header; it calls the driver only through REAL() and knows
 * no other policy. What must happen to all of them happens by walking the table.
 */
#ifndef TURBO_POLICY_H
#define TURBO_POLICY_H

#include <stdbool.h>

/* All members but name may be NULL: not interested. */
struct policy {
	const char *name;
	/* Option values are known; no CUDA, no threads yet. Constructor, one thread. */
	void (*start)(void);
	/* The program's cuInit has returned CUDA_SUCCESS; driver calls are allowed. Once,
	 * on the thread that called cuInit, inside the guard. */
	void (*cuda_ready)(void);
	/* A context ends. With `ctx` (a CUcontext): it is about to be destroyed and its
	 * handles still work. With NULL: the primary context of `device` has just been
	 * reset or released for good, and its handles are dead. */
	void (*context_gone)(void *ctx, int device);
	/* true: a primary context is about to be reset, so threads of the policy's own make no
	 * driver call until quiet(false). Nests. */
	void (*quiet)(bool on);
	/* Forked child, in the atfork handler: async-signal-safe work only. */
	void (*fork_child)(void);
	/* The process exits: stop taking calls. No driver call (it may be gone). */
	void (*stop)(void);
	/* Lines for the exit summary; writes at most `size` bytes, returns the length. */
	int (*summary)(char *buf, int size);
};

extern const struct policy *const policy_table[];
extern const int policy_count;

void policies_start(void);
void policies_cuda_ready(void);
void policies_context_gone(void *ctx, int device);
void policies_quiet(bool on);
void policies_fork_child(void);
void policies_stop(void);

#endif

/*
 * python_gil.h - what needs the interpreter's lock: by a thread that can be left behind.
 */
#ifndef TURBO_PYTHON_GIL_H
#define TURBO_PYTHON_GIL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "python.h"

/* Text of one thread's Python frames. */
struct python_stack {
	uint32_t thread; /* Linux thread id */
	unsigned at, bytes;
};

#define PYTHON_STACKS 65
struct python_stacks {
	unsigned count; /* of threads that were asked for, have a state, and are here */
	struct python_stack stack[PYTHON_STACKS];
	unsigned used;
	char text[56 << 10]; /* lines "  python FILE:LINE FUNCTION", innermost first */
};

/*
 * The interpreter's own answer: asked by a disposable thread that takes the GIL. NULL when it has not got it within
 * `ms`, or an earlier one still waits: the thread is left behind and does nothing when it wakes. What is
 * returned is valid until the next call. One caller at a time (the watch's thread).
 */
const struct python_stacks *python_ask(const struct python *p, const uint32_t *threads, unsigned count,
									   unsigned ms);

/* Compares our reading of all threads' frames with the interpreter's, in the same way, once; it waits for `ms`, and is
 * done later if it must. Until there was something to compare it is begun again. False: nothing is under way, and
 * nothing is known. Same caller. */
bool python_self_test(const struct python *p, unsigned ms);

/* As stacks_tick(). */
void python_tick(const struct python *p, _Atomic uint64_t *tick);

/* ---- between python_gil.c and python_asked.c ---- */

/* Work that is done under the GIL by a thread of its own. */
struct python_job {
	int state;
	bool late; /* it is done however late the GIL comes */
	const struct python *python;
	void (*work)(const struct python *);
	pthread_t caller;
	pid_t caller_tid;
};
extern struct python_job python_asking __attribute__((visibility("hidden")));
extern struct python_job python_testing __attribute__((visibility("hidden")));

/* Runs `work`; false: not within `ms`. Only if python_job_free(): no earlier one is still there. */
bool python_with_gil(struct python_job *job, const struct python *p, void (*work)(const struct python *),
					 unsigned ms);
bool python_job_free(struct python_job *job);

void python_gil_fork_child(void);

#endif

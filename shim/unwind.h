/*
 * unwind.h - call stacks, by libunwind when the machine has it.
 *
 * libunwind.so.8 is loaded at the first use, from the folder of libturbo.so and else as the
 * loader finds it; libturbo never links it.
 */
#ifndef TURBO_UNWIND_H
#define TURBO_UNWIND_H

/*
 * Return addresses of the calling thread, innermost first, beginning in the caller of this
 * function. Returns how many were stored, at most `max`; 0 when libunwind is missing (said
 * once at info) or another thread is loading it just now. Any thread; a signal handler only
 * after a call elsewhere has returned. Keeps errno; the first use may replace the thread's pending
 * dlerror().
 */
int unwind_stack(void **frames, int max);

/* fork.c, in the child: async-signal-safe. */
void unwind_fork_child(void);

#endif

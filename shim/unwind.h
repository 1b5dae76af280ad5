/*
 * unwind.h - call stacks, by libunwind when the machine has it.
 *
 * libunwind.so.8 is loaded at the first use, from the folder of libturbo.so and
 * then from the system's; libturbo never links it.
 */
#ifndef TURBO_UNWIND_H
#define TURBO_UNWIND_H

/*
 * Return addresses of the calling thread, innermost first, beginning with the
 * caller of this function. Returns how many were stored, at most `max`; 0 when
 * libunwind is missing (said once at info) or another thread is just loading it.
 * Any thread, but not a signal handler; keeps errno.
 */
int unwind_stack(void **frames, int max);

/* fork.c, in the child: async-signal-safe. */
void unwind_fork_child(void);

#endif

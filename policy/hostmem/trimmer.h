/*
 * trimmer.h - the thread that gives back what is kept too long, or when memory is short. It starts with the first block that
 * is kept, and sleeps while none is.
 */
#ifndef TURBO_HOSTMEM_TRIMMER_H
#define TURBO_HOSTMEM_TRIMMER_H

void trimmer_begin(void);
/* Something is kept. Any thread; starts the thread if there is none; where there can be none, nothing is kept from now on. */
void trimmer_wake(void);
/* Something is kept that waits for the policy's hook: looked at soon, not at leisure. */
void trimmer_hurry(void);
/* Async-signal-safe: a child has no such thread until it keeps something. */
void trimmer_fork_child(void);

#endif

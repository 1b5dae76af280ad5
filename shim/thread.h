/*
 * thread.h - threads of libturbo's own.
 */
#ifndef TURBO_THREAD_H
#define TURBO_THREAD_H

#include <stdbool.h>

/*
 * Starts a detached thread that blocks every signal but the synchronous ones: a page of the program may be
 * repaired by the program's own SIGSEGV or SIGBUS handler, which then runs on this thread's stack. `name` has at
 * most 15 bytes. False: there is none. Any thread; the caller's signal mask is as before.
 */
bool thread_start(const char *name, void *(*run)(void *), void *arg);

#endif

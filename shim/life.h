/*
 * life.h - what kind of process this is, and how far it has come.
 *
 * active    options allow us to do anything at all (not TURBO=off, not a set-uid program)
 * engaged   active, and: cuInit succeeded here, or the program is python*, or the command of
 *           `turbo run`, or a child of an engaged process
 * cuda      cuInit succeeded here and the policies have been told
 *
 * A forked child of a process that had used CUDA never gets to `cuda` again: the
 * driver does not work there, and we make no driver call. A child made by vfork() or
 * by clone() itself runs no fork handlers; the former shares the parent's memory until
 * it execs, the latter must not use CUDA, which no driver survives either.
 */
#ifndef TURBO_LIFE_H
#define TURBO_LIFE_H

#include <stdbool.h>

/* All readers: any thread, one relaxed or acquire load. */
bool life_active(void);
bool life_engaged(void);
bool life_cuda(void);
/* This process came from fork() of a process that had called cuInit successfully. */
bool life_is_forked_child(void);
/* The dlopen stub may clear RTLD_DEEPBIND. */
bool life_clear_deepbind(void);

/* The program's cuInit has just succeeded. The first call engages the process, publishes the
 * counters and tells the policies; others return at once or wait for nothing. Inside the guard. */
void life_cuda_ready(void);

/* Constructor: options are parsed. */
void life_start(bool active, bool engaged);
/* fork.c, in the child: async-signal-safe. */
void life_fork_child(void);

#endif

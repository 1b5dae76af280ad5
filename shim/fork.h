/* fork.h - what a forked child must set right. */
#ifndef TURBO_FORK_H
#define TURBO_FORK_H

/* Registers the handlers. Constructor. */
void fork_start(void);

#endif

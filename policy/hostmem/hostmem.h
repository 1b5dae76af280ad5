/* hostmem.h - what shim/hostmem.c tells the policy. */
#ifndef TURBO_HOSTMEM_H
#define TURBO_HOSTMEM_H

/* A block has been given: starts the thread that gives back what is idle. Any thread, not inside an allocator. */
void hostmem_kept(void);

#endif

/*
 * oom.h - what is said when the program hears CUDA_ERROR_OUT_OF_MEMORY.
 *
 * Whoever allocates has tried everything by then: cache.c and the heap each have their ladder.
 */
#ifndef TURBO_DEVMEM_OOM_H
#define TURBO_DEVMEM_OOM_H

#include <stddef.h>

/* An allocation of `bytes` on `device` fails. Counted; the first in a process writes a report to
 * the log: what is in use, kept and left, and the call sites that hold most. The program's thread,
 * with a context of the device current; no lock held. */
void oom_report(int device, size_t bytes);

/* More memory was taken of the driver: from when much of the device is ours, call sites are sampled. */
void oom_watch(int device);

#endif

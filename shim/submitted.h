/*
 * submitted.h - has the program given work to a device since?
 *
 * Threads that free memory behind the program's back ask: a real free holds up launches until the device is idle.
 */
#ifndef TURBO_SUBMITTED_H
#define TURBO_SUBMITTED_H

#include <stdint.h>

/* Before the first submitted(), in cuda_ready. Again: nothing. */
void submitted_start(void);
/* Calls so far by which the program may have submitted work, to any device. Any thread. */
uint64_t submitted(void);

#endif

/*
 * doors_work.h - how much was submitted to each stream, and what events were recorded behind.
 *
 * Any thread; no lock, no allocation. The counters are relaxed: a thread counts a call before it makes it, so whoever
 * finds that call's work before his own in the driver, which orders the calls of a stream under a lock of its own, has
 * the count in view, too.
 */
#ifndef TURBO_DOORS_WORK_H
#define TURBO_DOORS_WORK_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

/* Before the call. */
void doors_work_submitted(CUstream stream);
void doors_work_submitted_anywhere(void);

/* After a stream was made, before it goes. What is not known to be non-blocking counts with the default streams. */
void doors_work_stream(CUstream stream, bool non_blocking);
void doors_work_forget_streams(void);

/* After the real call, inside the guard; `before`: doors_submissions() before it. */
void doors_work_recorded(CUevent event, CUstream stream, bool per_thread, uint64_t before);
void doors_work_forget_record(CUevent event);
/* All of them. */
void doors_work_forget_records(void);

#endif

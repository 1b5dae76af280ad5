/*
 * buffers.h - the memory that CUPTI writes its records to.
 *
 * A pool of buffers, zeroed, so that CUPTI need not do it on a launch. Taking one is a bit of a word; nothing is
 * allocated in a callback. The helper adds buffers before the pool runs dry; when all are out there are small ones, and
 * then one whose records are thrown away, which is counted: NULL would crash CUPTI before 12.9.
 *
 * The two callbacks stand between CUPTI and a foreign client, too: buffers asked for by one side must not end with the
 * other. Whose a buffer is, its address tells.
 */
#ifndef TURBO_CUPTI_BUFFERS_H
#define TURBO_CUPTI_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cupti_abi.h"

/* Memory for the first buffers; false: there is none. Once; later calls do nothing. */
bool buffers_start(void);
/* Adds a buffer when few are left. The helper, now and then. */
void buffers_grow(void);

/*
 * A foreign client registers its callbacks with `real`, cuptiActivityRegisterCallbacks. From now on buffers that are not
 * ours go to it, and it is asked for new ones while we do not record.
 */
cupti_result buffers_register(cupti_result (*real)(cupti_requested *, cupti_completed *),
							  cupti_requested *requested, cupti_completed *completed);
/* CUPTI was finalized: nobody's callbacks are registered. */
void buffers_forget(void);
/* New buffers are ours (true) or the foreign client's. */
void buffers_ours(bool on);

/* For cuptiActivityRegisterCallbacks. Any thread. */
cupti_requested buffers_requested;
cupti_completed buffers_completed;

/* CUPTI has asked for a buffer of ours since buffers_ours(true): before that nothing may be flushed. */
bool buffers_asked(void);
/* Bytes that CUPTI has written into the buffers that it holds now: moves while it records. Reads what CUPTI writes, so it is
 * no more than a sign of life. Some 100 µs a buffer. */
uint64_t buffers_filled(void);

#endif

/*
 * decode.h - CUPTI's records into the ring.
 *
 * Runs inside CUPTI's buffer callback, on a thread of CUPTI's or on the one that flushes: names are copied there and
 * then, because they may be gone once the callback has returned. Nothing allocates or waits for a launch.
 * What cannot be recorded is counted (enum timeline_count).
 */
#ifndef TURBO_CUPTI_DECODE_H
#define TURBO_CUPTI_DECODE_H

#include <stddef.h>
#include <stdint.h>

/* The `valid` first bytes of a buffer that CUPTI has filled. Any thread; several at once. */
void decode_buffer(uint8_t *buffer, size_t valid);

/* Records of work on a device so far: the watch for a capture that has stopped looks whether it moves. Any thread. */
uint64_t decode_records(void);

#endif

/*
 * sampled.h - TURBO_TIMELINE=sampled: a second is recorded, then nothing for several, with CUPTI out of the process.
 *
 * The pauses differ a little in length, so that what repeats itself in the program is not always met at the same
 * place. The share that was seen is in the file's counts. The helper.
 */
#ifndef TURBO_CUPTI_SAMPLED_H
#define TURBO_CUPTI_SAMPLED_H

#include <stdbool.h>
#include <stddef.h>

#include "record.h"

/* The client is on: a window begins. Nothing happens in other modes. */
void sampled_start(enum timeline_mode mode);
typedef bool sampled_begin(char *why, size_t why_size);
/* Begins and ends windows; `begin` starts the client. */
void sampled_tick(sampled_begin *begin);
/* Counts the time since it was counted last. */
void sampled_account(void);

#endif

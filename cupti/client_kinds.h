/*
 * client_kinds.h - which activities are enabled in which mode, and CUPTI's settings of the process that we change.
 * One thread at a time: the one that moves (client.h).
 */
#ifndef TURBO_CUPTI_CLIENT_KINDS_H
#define TURBO_CUPTI_CLIENT_KINDS_H

#include <stdbool.h>

#include "cupti_abi.h"
#include "record.h"

/* What matters failed, or CUPTI_OK; the rest is left out where it is not supported. */
cupti_result kinds_on(enum timeline_mode mode, bool whole_graphs);
void kinds_off(void);

/* true: as we want them, what they were is remembered; false: as they were. */
void kinds_settings(bool ours, bool thread_ids);

#endif

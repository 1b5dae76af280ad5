/*
 * capture.h - is any stream capture live in this process?
 */
#ifndef TURBO_COPY_CAPTURE_H
#define TURBO_COPY_CAPTURE_H

#include <stdbool.h>

/* Any thread; one relaxed load when none is. Drops entries whose capture has
 * ended without a cuStreamEndCapture (the driver is asked, by a call that is
 * legal during a capture). */
bool capture_live(void);
void capture_fork_child(void);

#endif

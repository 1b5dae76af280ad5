/*
 * capture.h - is any stream capture live in this process?
 */
#ifndef TURBO_COPY_CAPTURE_H
#define TURBO_COPY_CAPTURE_H

#include <cuda.h>
#include <stdbool.h>

/* Any thread; one relaxed load. */
bool capture_live(void);
/* True unless the driver says that this stream is not capturing. Any thread, legal during a
 * capture; finds captures that were begun by a way we do not see. */
bool capture_on(CUstream stream, bool per_thread);
/* The captures in a context end with it: see struct policy. */
void capture_context_gone(void *ctx, int device);
void capture_fork_child(void);

#endif

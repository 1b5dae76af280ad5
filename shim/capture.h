/*
 * capture.h - is any stream capture live in this process?
 *
 * While one is, policies make no call that could break it; they ask here.
 */
#ifndef TURBO_CAPTURE_H
#define TURBO_CAPTURE_H

#include <cuda.h>
#include <stdbool.h>

/* Any thread; one relaxed load. */
bool capture_live(void);
/*
 * Around a call that breaks captures of its context whatever the thread's mode (cuCtxSynchronize,
 * cuCtxRecordEvent): false when a capture is live, and then nothing is to be undone. One that is to
 * begin meanwhile waits until capture_let_go(), at most 10 ms: then the call has
 * looked for captures already and only waits. Any thread.
 */
bool capture_hold_off(void);
void capture_let_go(void);
/* True unless the driver says that this stream is not capturing. Any thread, legal during a
 * capture; finds captures that were begun by a way we do not see. */
bool capture_on(CUstream stream, bool per_thread);
/*
 * What the hook bodies of cuda_ctx.c tell. Any thread, after cuInit, inside the guard.
 * begin: one is about to begin on `stream`; false when nothing was noted that a failed
 * begin would have to take back (a capture is known there already).
 * end: it has ended. end_failed: cuStreamEndCapture failed, perhaps because the capture is
 * another thread's; the driver is asked. stream_gone: the stream was destroyed, and with it
 * the capture if one was there.
 */
bool capture_note_begin(CUstream stream, bool per_thread);
void capture_note_end(CUstream stream, bool per_thread);
void capture_note_end_failed(CUstream stream, bool per_thread);
void capture_note_stream_gone(CUstream stream);
/* The captures in a context end with it: see struct policy. */
void capture_context_gone(void *ctx, int device);
void capture_fork_child(void);

#endif

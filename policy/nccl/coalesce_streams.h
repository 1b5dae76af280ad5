/*
 * coalesce_streams.h - streams whose all-gathers may wait to be launched, and what each has waited for.
 *
 * A few, by handle. Writers hold a lock under which no driver call is made; the handles are read without it.
 */
#ifndef TURBO_COALESCE_STREAMS_H
#define TURBO_COALESCE_STREAMS_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "../../shim/doors.h"

/* What a stream was told to wait for last. PyTorch waits for one stream before each collective. */
#define STREAM_WAITS 4

struct gather_stream {
	CUstream _Atomic stream; /* NULL: nobody's; release when the rest is its, acquire */
	CUcontext ctx;
	bool serves; /* made with CU_STREAM_NON_BLOCKING: no default stream waits for it, or it for one */
	unsigned next;
	struct doors_last waits[STREAM_WAITS]; /* stream NULL and ctx NULL: none */
};

/* One that may be used, NULL: not. Asks the driver about a stream that is not known. Inside the guard, by whoever holds the
 * batch. */
struct gather_stream *coalesce_streams_get(CUstream stream);
/* A wait for this record was placed on the stream. Any thread; nothing when the stream is not here. */
void coalesce_streams_waited(CUstream stream, CUevent event);
void coalesce_streams_gone(CUstream stream);
void coalesce_streams_forget(void);

/* The stream has waited for all that `event` stands for. */
bool coalesce_streams_has(struct gather_stream *s, CUevent event);
/* The stream has waited for all that was submitted to `other` so far. */
bool coalesce_streams_follows(struct gather_stream *s, CUstream other);

#endif

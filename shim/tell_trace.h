/*
 * tell_trace.h - hook bodies tell the recorder of TURBO_DEVMEM_TRACE. While nothing is recorded
 * that is one load and a branch.
 */
#ifndef TURBO_TELL_TRACE_H
#define TURBO_TELL_TRACE_H

#include "guard.h"
#include "../policy/devmem/trace.h"

/* `call` is one of trace.h's; libturbo's own calls are nobody's. */
#define TELL_TRACE(when, call)                                                    \
	do {                                                                          \
		if (__builtin_expect(devmem_tracing(), 0) && !guard_inside() && (when)) { \
			guard_enter();                                                        \
			call;                                                                 \
			guard_leave();                                                        \
		}                                                                         \
	} while (0)

/* The default stream of a `_ptsz` or `_ptds` symbol is the thread's own. */
static inline CUstream traced_stream(CUstream stream, bool per_thread)
{
	return !stream && per_thread ? CU_STREAM_PER_THREAD : stream;
}

#endif

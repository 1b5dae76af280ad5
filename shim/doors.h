/*
 * doors.h - what passes between a call of the program and all-gathers that wait to be launched.
 *
 * While TURBO_NCCL_COALESCE is on, whoever submits something to a stream that has a pending batch, waits for it or could
 * see that it has not run must have it launched first (policy/nccl/coalesce.h). shim/doors.def says what each function
 * of the driver is; the stubs of counted functions and the hook bodies tell it here, before the real call. Off, that is
 * one load and a branch not taken; on, with nothing pending, it counts.
 *
 * Calls of libturbo's own and of NCCL are only counted: NCCL's threads make calls while a launch waits for them, and must
 * never wait for who launches.
 *
 * What is counted: submissions, so that one can tell whether two records of an event on a stream mean the same work.
 * A stream that was seen to be made with CU_STREAM_NON_BLOCKING has a counter, which it may share; all others, which the
 * legacy default stream orders, have one together; and what names no stream counts for all.
 */
#ifndef TURBO_DOORS_H
#define TURBO_DOORS_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "hooks.h"
#include "../policy/nccl/coalesce.h"

enum door_class {
	DOOR_NONE,
	DOOR_STREAM,
	DOOR_STREAMS,
	DOOR_EVENT,
	DOOR_EVENTS,
	DOOR_RECORDED,
	DOOR_GONE,
	DOOR_WAIT,
	DOOR_UNNAMED,
	DOOR_OWN
};

struct door {
	uint8_t class;         /* enum door_class */
	uint8_t first, second; /* numbers of arguments, each of which is one integer */
	bool per_thread;       /* NULL is the thread's own default stream */
};
/* Indexed by enum hook_id. */
extern const struct door door_table[HOOK_COUNT];

static inline bool doors_on(void)
{
	return __builtin_expect(atomic_load_explicit(&coalesce_on, memory_order_relaxed), 0);
}

/*
 * For the stubs (hook_door of stubs_*.S), while it is on. `in_registers` are the first integer arguments, `on_stack` those
 * beyond, `caller` the program's return address.
 */
void doors_counted(enum hook_id id, const uint64_t *in_registers, const uint64_t *on_stack,
				   const void *caller) __attribute__((visibility("hidden")));

/*
 * For hook bodies, before the real call, while it is on: any thread; errno is kept. `caller`: the program's return address;
 * `id`: of the body's own symbol.
 */
void doors_stream(enum hook_id id, CUstream stream, const void *caller);
void doors_wait(const void *caller);
/* It submits something and names no stream: a synchronous copy. */
void doors_unnamed(enum hook_id id, const void *caller);
/* It waits for one stream, or one event. */
void doors_stream_sync(enum hook_id id, CUstream stream, const void *caller);
void doors_event_sync(CUevent event, const void *caller);
/* It launches a graph, which may also record events. */
void doors_graph_launch(enum hook_id id, CUstream stream, const void *caller);
void doors_stream_wait(enum hook_id id, CUstream stream, CUevent event, const void *caller);
/* True: *status is the answer, and the real call is not made. False: doors_recorded() wants *before. */
bool doors_record(enum hook_id id, CUevent event, CUstream stream, unsigned flags, const void *caller,
				  CUresult *status, uint64_t *before);
/* True: the answer is CUDA_ERROR_NOT_READY. */
bool doors_event_query(CUevent event, const void *caller);
bool doors_stream_query(enum hook_id id, CUstream stream, const void *caller);
/* A stream is destroyed; a context is, and all of its streams are forgotten. */
void doors_stream_gone(CUstream stream, const void *caller);
void doors_context_gone(void);

/* After the real call has succeeded. */
void doors_stream_waited(enum hook_id id, CUstream stream, CUevent event, const void *caller);
void doors_recorded(enum hook_id id, CUevent event, CUstream stream, uint64_t before, const void *caller);
void doors_event_made(CUevent event, unsigned flags, const void *caller);
void doors_stream_made(CUstream stream, unsigned flags);

#define DOOR_CALLER __builtin_return_address(0)
/* The body of a function of class `stream`, or `wait`. */
#define DOOR_STREAM_OF(symbol, stream)                          \
	do {                                                        \
		if (doors_on())                                         \
			doors_stream(HOOK_##symbol, (stream), DOOR_CALLER); \
	} while (0)
#define DOOR_UNNAMED_OF(symbol)                        \
	do {                                               \
		if (doors_on())                                \
			doors_unnamed(HOOK_##symbol, DOOR_CALLER); \
	} while (0)
#define DOOR_WAITS()                 \
	do {                             \
		if (doors_on())              \
			doors_wait(DOOR_CALLER); \
	} while (0)

/* ---- for policy/nccl/coalesce ---- */

/*
 * What was submitted to a stream so far, as a number that comes once: two looks that are equal mean that nothing was
 * submitted between them by a call that began after the first one. Never 0. Any thread, no lock.
 */
uint64_t doors_submissions(CUstream stream);

/* The last record of an event. */
struct doors_last {
	CUcontext ctx; /* of a default stream; else NULL */
	CUstream stream;
	uint64_t before, after; /* doors_submissions() around the real call */
};
/* False: not known. A graph, another process or a capture may have recorded it, or nobody, or on a thread's own stream. Any
 * thread, no lock. */
bool doors_last_record(CUevent event, struct doors_last *last);

/* What comes after `again` comes after nothing that does not come before `first` in an order of the same calls that the
 * program allows: nothing was submitted from before the one record until after the other. */
static inline bool doors_same_work(const struct doors_last *first, const struct doors_last *again)
{
	return first->stream == again->stream && first->ctx == again->ctx && first->before == again->after;
}

#endif

/*
 * coalesce.h - small asynchronous all-gathers are held back for a moment and launched as one group.
 *
 * What the hook bodies and the doors (shim/doors.h) tell. While `coalesce_on` is false nothing here is called but
 * what bodies of NCCL's functions tell, which then do nothing. All others: any thread, inside the guard, errno
 * is the caller's business.
 */
#ifndef TURBO_COALESCE_H
#define TURBO_COALESCE_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../../shim/hooks.h"
#include "flight.h"

/* The option, and the policy is alive; false in a forked child. Relaxed: a call that sees it late passes through. Read by
 * the stubs of counted functions (one byte). */
extern _Atomic bool coalesce_on __attribute__((visibility("hidden")));
/* 1: all-gathers wait to be launched. What every door looks at first. Relaxed: a thread sees what it queued itself, and what
 * others queued before they told it. */
extern _Atomic uint32_t coalesce_pending __attribute__((visibility("hidden")));

/* True: taken and in the flight record, and *result is what the program gets. `plain`: without options for this call. Outside
 * the guard. */
bool coalesce_gather(const struct flight_call *call, const void *from, void *to, bool plain, int *result);
/* It was not taken, has been called, and has answered that. Outside the guard. */
void coalesce_gathered(const struct flight_call *call, int result);
/*
 * Before any other call of NCCL; `comm` NULL: none, or not known. Answers what the program gets instead, 0: the real call: a
 * launch has failed that it had been told was fine. Outside the guard.
 */
int coalesce_before_nccl(const void *comm);
/* The same before the end of a group, which submits what was called in it. Outside the guard. */
void coalesce_before_group_end(void);
/* It is about to be destroyed, finalized or revoked, or `aborted`; before the flight record forgets it. Outside the guard. */
void coalesce_comm_ending(const void *comm, bool aborted);
/* ncclResult_t that ncclCommGetAsyncError is to give, 0: what NCCL says. No lock. */
int coalesce_async_error(const void *comm);

/* A call that submits something to `stream` is about to be made, NULL also where it names none; `per_thread`: NULL is the thread's own default stream.
 * Only while something is pending. */
void coalesce_before_stream(CUstream stream, bool per_thread, enum hook_id id);
/*
 * The same for cuStreamWaitEvent: whether that is a new dependency depends on the event (doors_last_record(), which has
 * none of an event that is queued here). And after the real call has succeeded, whether something is pending or not: what a stream has
 * waited for already is no new dependency of what is queued on it later.
 */
void coalesce_before_stream_wait(CUstream stream, bool per_thread, CUevent event);
void coalesce_stream_waited(CUstream stream, bool per_thread, CUevent event);
/* A call that waits for this stream, or this event. Only while something is pending. */
void coalesce_before_stream_sync(CUstream stream, bool per_thread);
void coalesce_before_event_sync(CUevent event);
/* A call after which the program sees that something has ended, or that ends, frees or waits for something of a whole
 * context or device; or one of which nothing is known. Only while something is pending. */
void coalesce_before_wait(void);

/* An event was made by cuEventCreate, with these flags. Of all others nothing is known. */
void coalesce_event_made(CUevent event, unsigned flags);
/* Only this process records it. No lock. */
bool coalesce_event_is_ours(CUevent event);
/* True: the record is queued behind the pending batch, and *status is what the program gets. Only while something is
 * pending. */
bool coalesce_record(CUevent event, CUstream stream, bool per_thread, unsigned flags, CUresult *status);
/* True: the answer is CUDA_ERROR_NOT_READY. No lock. Only while something is pending. */
bool coalesce_event_query(CUevent event);
bool coalesce_stream_query(CUstream stream, bool per_thread);
/* It is about to be destroyed; or, only while something is pending, to be shown to another process or asked for its time.
 * One that is queued is recorded first. */
void coalesce_event_gone(CUevent event, bool destroyed);
/* It is about to be destroyed; what was pending on it has been launched. */
void coalesce_stream_gone(CUstream stream);

#endif

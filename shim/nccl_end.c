/*
 * nccl_end.c - the calls that end NCCL's communicators, and those that ask how they are: here the framework is told of
 * a verdict, and a communicator that libturbo has aborted is not touched again.
 */
#include <stddef.h>

#include "nccl_comm.h"
#include "nccl_record.h"

/* ---- ending ---- */

/* All ranks make it: an operation, too. */
#define ENDING(symbol, kind, state)                                                                \
	TURBO_EXPORT int symbol(void *comm);                                                           \
	TURBO_EXPORT int symbol(void *comm)                                                            \
	{                                                                                              \
		NCCL_BODY(symbol, int, (void *));                                                          \
		if (guard_inside())                                                                        \
			return real(comm);                                                                     \
		const struct flight_call what = nccl_call(kind, comm, caller, __builtin_frame_address(0)); \
		struct flight_ticket ticket;                                                               \
		coalesce_comm_ending(comm, false);                                                         \
		flight_begin(&ticket, &what);                                                              \
		ending(comm, state);                                                                       \
		int result = act_tombstone(comm) ? NCCL_SUCCESS : real(comm);                              \
		flight_end(&ticket, result);                                                               \
		return result;                                                                             \
	}

static void ending(void *comm, enum flight_state state)
{
	if (state != FLIGHT_ENDING)
		nccl_comm_gone(comm);
	flight_comm_ending(comm, state);
}

ENDING(ncclCommFinalize, FLIGHT_FINALIZE, FLIGHT_ENDING)
ENDING(pncclCommFinalize, FLIGHT_FINALIZE, FLIGHT_ENDING)
ENDING(ncclCommDestroy, FLIGHT_DESTROY, FLIGHT_GONE)
ENDING(pncclCommDestroy, FLIGHT_DESTROY, FLIGHT_GONE)

/* A rank makes it for itself. */
#define STOPPING(symbol, state, params, args)                        \
	TURBO_EXPORT int symbol params;                                  \
	TURBO_EXPORT int symbol params                                   \
	{                                                                \
		NCCL_BODY(symbol, int, params);                              \
		if (guard_inside())                                          \
			return real args;                                        \
		struct flight_ticket ticket;                                 \
		coalesce_comm_ending(comm, (state) == FLIGHT_ABORTED);       \
		flight_enter(&ticket);                                       \
		ending(comm, state);                                         \
		int result = act_tombstone(comm) ? NCCL_SUCCESS : real args; \
		flight_end(&ticket, result);                                 \
		return result;                                               \
	}

STOPPING(ncclCommAbort, FLIGHT_ABORTED, (void *comm), (comm))
STOPPING(pncclCommAbort, FLIGHT_ABORTED, (void *comm), (comm))
STOPPING(ncclCommRevoke, FLIGHT_ENDING, (void *comm, int flags), (comm, flags))
STOPPING(pncclCommRevoke, FLIGHT_ENDING, (void *comm, int flags), (comm, flags))

/* ---- asking ---- */

#define ASYNC_ERROR(symbol)                                                      \
	TURBO_EXPORT int symbol(void *comm, int *error);                             \
	TURBO_EXPORT int symbol(void *comm, int *error)                              \
	{                                                                            \
		NCCL_BODY(symbol, int, (void *, int *));                                 \
		int ours = guard_inside() ? 0 : act_async_error(comm);                   \
		if (!ours && !guard_inside())                                            \
			ours = coalesce_async_error(comm);                                   \
		if (__builtin_expect(ours != 0, 0)) {                                    \
			if (!error)                                                          \
				return NCCL_INVALID_ARGUMENT;                                    \
			*error = ours;                                                       \
			return NCCL_SUCCESS;                                                 \
		}                                                                        \
		int result = real(comm, error);                                          \
		if (result == NCCL_SUCCESS && *error == NCCL_SUCCESS && !guard_inside()) \
			flight_comm_settled(comm, caller);                                   \
		return result;                                                           \
	}

ASYNC_ERROR(ncclCommGetAsyncError)
ASYNC_ERROR(pncclCommGetAsyncError)

#define LAST_ERROR(symbol)                                               \
	TURBO_EXPORT const char *symbol(void *comm);                         \
	TURBO_EXPORT const char *symbol(void *comm)                          \
	{                                                                    \
		NCCL_BODY(symbol, const char *, (void *));                       \
		const char *ours = guard_inside() ? NULL : act_last_error(comm); \
		return ours ? ours : real(comm);                                 \
	}

LAST_ERROR(ncclGetLastError)
LAST_ERROR(pncclGetLastError)

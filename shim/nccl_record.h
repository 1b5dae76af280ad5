/*
 * nccl_record.h - what the bodies of NCCL's functions have in common.
 *
 * The real function is that of the copy of NCCL that the call is for (copies.h). nccl.h may be missing at build time;
 * handles are pointers, enumerations and results are ints in every version.
 */
#ifndef TURBO_NCCL_RECORD_H
#define TURBO_NCCL_RECORD_H

#include "guard.h"
#include "hooks.h"
#include "real.h"
#include "stats.h"
#include "../policy/nccl/act.h"
#include "../policy/nccl/coalesce.h"
#include "../policy/nccl/flight.h"

#define NCCL_SUCCESS 0
#define NCCL_INVALID_ARGUMENT 4
#define NCCL_REMOTE_ERROR 6
#define NCCL_IN_PROGRESS 7

/* Begins a body: `caller`, and `real`, typed by its parameters. */
#define NCCL_BODY(symbol, result, params)                                                    \
	const void *const caller = __builtin_return_address(0);                                  \
	result(*const real) params = (result(*) params)real_resolve_lazy(HOOK_##symbol, caller); \
	stats_call(HOOK_##symbol)

/*
 * The body of a call that goes to the GPU. `params` in parentheses, with comm and stream among them; `args` the same
 * without types. `before` and `after` are statements around the real call: they see `what`, and the latter `result`. The
 * rest: members of `what`.
 */
#define NCCL_OPERATION(symbol, kind, params, args, before, after, ...) \
	TURBO_EXPORT int symbol params;                                    \
	TURBO_EXPORT int symbol params                                     \
	{                                                                  \
		NCCL_BODY(symbol, int, params);                                \
		if (guard_inside())                                            \
			return real args;                                          \
		if (__builtin_expect(act_tombstone(comm), 0))                  \
			return NCCL_REMOTE_ERROR;                                  \
		int late = coalesce_before_nccl(comm);                         \
		if (__builtin_expect(late != NCCL_SUCCESS, 0))                 \
			return late;                                               \
		const struct flight_call what = {                              \
			.function = kind,                                          \
			.comm = comm,                                              \
			.stream = stream,                                          \
			.caller = caller,                                          \
			.frame = __builtin_frame_address(0),                       \
			__VA_ARGS__,                                               \
		};                                                             \
		before;                                                        \
		int result = real args;                                        \
		after;                                                         \
		return result;                                                 \
	}

/* A call of this communicator that moves no data. `frame`: the body's own. */
static inline struct flight_call nccl_call(enum flight_function function, void *comm, const void *caller,
										   const void *frame)
{
	return (struct flight_call){
		.function = function,
		.comm = comm,
		.type = -1,
		.reduction = -1,
		.peer = -1,
		.caller = caller,
		.frame = frame,
	};
}

#endif

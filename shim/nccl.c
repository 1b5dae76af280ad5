/*
 * nccl.c - NCCL's collectives, sends and receives: recorded for the watchdog, numbered in their communicator and told
 * to the timeline, gone on with.
 */
#include <stddef.h>
#include <stdint.h>

#include "events.h"
#include "nccl_comm.h"
#include "nccl_record.h"

struct call {
	struct flight_ticket ticket;
	struct nccl_comm *comm;
	uint64_t since; /* as events_begin() gave it */
	uint32_t sequence;
};

static struct call begin_unrecorded(const struct flight_call *what, enum nccl_order order)
{
	struct call call = {.comm = nccl_comm_get(what->comm)};

	call.sequence = call.comm ? nccl_comm_enter(call.comm, order) : 0;
	call.since = events_begin();
	return call;
}

static struct call begin(const struct flight_call *what, enum nccl_order order)
{
	struct call call = begin_unrecorded(what, order);

	flight_begin(&call.ticket, what);
	return call;
}

/* ---- telling the timeline ---- */

/* From the copy of NCCL that `caller` uses. */
static void learn_ranks(struct nccl_comm *comm, void *handle, const void *caller)
{
	typedef int ask_fn(void *comm, int *answer);
	ask_fn *user_rank = (ask_fn *)real_resolve_lazy(HOOK_ncclCommUserRank, caller);
	ask_fn *count = (ask_fn *)real_resolve_lazy(HOOK_ncclCommCount, caller);
	int rank = -1, ranks = -1;

	if (user_rank(handle, &rank) == NCCL_SUCCESS && count(handle, &ranks) == NCCL_SUCCESS && rank >= 0 &&
		ranks > rank)
		nccl_comm_set_ranks(comm, (uint32_t)rank, (uint32_t)ranks);
}

static void tell(const struct call *call, const struct flight_call *what, const char *name, int result)
{
	uint64_t now = events_now();
	struct event e = {
		.start = call->since,
		.duration = now > call->since ? now - call->since : 0,
		.value = what->count * flight_type_bytes(what->type),
		.id = EVENT_COLLECTIVE,
		.thread = events_thread(),
		.sequence = call->sequence,
		.detail = call->comm ? nccl_comm_number(call->comm) : 0,
		.type = (uint32_t)what->type,
		.name = name,
		.failed = result != NCCL_SUCCESS && result != NCCL_IN_PROGRESS,
	};

	events_tell(&e);
}

static void end_unrecorded(const struct call *call, const struct flight_call *what, const char *name,
						   int result)
{
	bool nested = call->comm && call->sequence == 0;

	if (nested)
		return;
	if (call->comm)
		nccl_comm_leave(call->comm);
	if (__builtin_expect(call->since == 0, 1) || guard_inside())
		return;
	guard_enter();
	/* Not of one that is busy: NCCL would warn. */
	if (call->comm && result == NCCL_SUCCESS && !nccl_comm_has_ranks(call->comm))
		learn_ranks(call->comm, what->comm, what->caller);
	tell(call, what, name, result);
	guard_leave();
}

static void end(struct call *call, const struct flight_call *what, const char *name, int result)
{
	flight_end(&call->ticket, result);
	end_unrecorded(call, what, name, result);
}

/* ---- bodies ---- */

#define BODY(symbol, told, order, kind, params, args, ...)                             \
	NCCL_OPERATION(symbol, kind, params, args, struct call call = begin(&what, order), \
				   end(&call, &what, told, result), __VA_ARGS__)
/* The second of a pair is the name that NCCL gives to tools which take the first. */
#define BOTH(symbol, told, order, kind, params, args, ...)     \
	BODY(symbol, told, order, kind, params, args, __VA_ARGS__) \
	BODY(p##symbol, told, order, kind, params, args, __VA_ARGS__)
/* A collective, and the same with options for this call, a pointer more (2.30). */
#define COLLECTIVE(...) COLLECTIVE_(__VA_ARGS__)
#define COLLECTIVE_(name, kind, params, args, ...)                                                   \
	BOTH(nccl##name, "nccl" #name, NCCL_COLLECTIVE, kind, (LIST params), (LIST args), __VA_ARGS__)   \
	BOTH(nccl##name##Config, "nccl" #name, NCCL_COLLECTIVE, kind, (LIST params, const void *config), \
		 (LIST args, config), __VA_ARGS__)
#define LIST(...) __VA_ARGS__

#define PLAIN                                                                       \
	(const void *from, void *to, size_t count, int type, void *comm, void *stream), \
		(from, to, count, type, comm, stream), .count = count, .type = type, .reduction = -1, .peer = -1
#define REDUCING                                                                            \
	(const void *from, void *to, size_t count, int type, int op, void *comm, void *stream), \
		(from, to, count, type, op, comm, stream), .count = count, .type = type, .reduction = op, .peer = -1
#define ROOTED                                                                                      \
	(const void *from, void *to, size_t count, int type, int root, void *comm, void *stream),       \
		(from, to, count, type, root, comm, stream), .count = count, .type = type, .reduction = -1, \
													 .peer = root
#define ROOTED_REDUCING                                                                                 \
	(const void *from, void *to, size_t count, int type, int op, int root, void *comm, void *stream),   \
		(from, to, count, type, op, root, comm, stream), .count = count, .type = type, .reduction = op, \
														 .peer = root
#define ONE_BUFFER                                                                                \
	(void *buffer, size_t count, int type, int root, void *comm, void *stream),                   \
		(buffer, count, type, root, comm, stream), .count = count, .type = type, .reduction = -1, \
												   .peer = root

COLLECTIVE(AlltoAll, FLIGHT_ALL_TO_ALL, PLAIN)
COLLECTIVE(AllReduce, FLIGHT_ALL_REDUCE, REDUCING)
COLLECTIVE(ReduceScatter, FLIGHT_REDUCE_SCATTER, REDUCING)
COLLECTIVE(Broadcast, FLIGHT_BROADCAST, ROOTED)
COLLECTIVE(Gather, FLIGHT_GATHER, ROOTED)
COLLECTIVE(Scatter, FLIGHT_SCATTER, ROOTED)
COLLECTIVE(Reduce, FLIGHT_REDUCE, ROOTED_REDUCING)

/* An all-gather may be held back, and is in the record then. `plain`: without options for this call. */
#define GATHER(symbol, plain, params, args)                          \
	TURBO_EXPORT int symbol params;                                  \
	TURBO_EXPORT int symbol params                                   \
	{                                                                \
		NCCL_BODY(symbol, int, params);                              \
		if (guard_inside())                                          \
			return real args;                                        \
		if (__builtin_expect(act_tombstone(comm), 0))                \
			return NCCL_REMOTE_ERROR;                                \
		const struct flight_call what = {                            \
			.function = FLIGHT_ALL_GATHER,                           \
			.comm = comm,                                            \
			.stream = stream,                                        \
			.caller = caller,                                        \
			.frame = __builtin_frame_address(0),                     \
			.count = count,                                          \
			.type = type,                                            \
			.reduction = -1,                                         \
			.peer = -1,                                              \
		};                                                           \
		struct call call = begin_unrecorded(&what, NCCL_COLLECTIVE); \
		int result;                                                  \
		if (!coalesce_gather(&what, from, to, plain, &result)) {     \
			flight_begin(&call.ticket, &what);                       \
			result = real args;                                      \
			flight_end(&call.ticket, result);                        \
			coalesce_gathered(&what, result);                        \
		}                                                            \
		end_unrecorded(&call, &what, "ncclAllGather", result);       \
		return result;                                               \
	}
#define GATHERS(prefix)                                                                                     \
	GATHER(prefix##ncclAllGather, true,                                                                     \
		   (const void *from, void *to, size_t count, int type, void *comm, void *stream),                  \
		   (from, to, count, type, comm, stream))                                                           \
	GATHER(                                                                                                 \
		prefix##ncclAllGatherConfig, false,                                                                 \
		(const void *from, void *to, size_t count, int type, void *comm, void *stream, const void *config), \
		(from, to, count, type, comm, stream, config))
GATHERS()
GATHERS(p)

#define EACH(symbol, order, kind, ...) BOTH(symbol, #symbol, order, kind, __VA_ARGS__)
EACH(ncclBcast, NCCL_COLLECTIVE, FLIGHT_BROADCAST, ONE_BUFFER)
EACH(ncclSend, NCCL_PAIRWISE, FLIGHT_SEND, ONE_BUFFER)
EACH(ncclRecv, NCCL_PAIRWISE, FLIGHT_RECV, ONE_BUFFER)

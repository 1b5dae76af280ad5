/*
 * nccl.c - NCCL's collectives, sends and receives: counted in their communicator, and told to the timeline.
 *
 * As in nccl_register.c the bodies go on to the copy of NCCL that the call is for. Nothing of a call is
 * looked at while nobody records. nccl.h may be missing at build time; handles are pointers, enumerations and
 * results ints in every version.
 */
#include <stddef.h>
#include <stdint.h>

#include "events.h"
#include "guard.h"
#include "hooks.h"
#include "nccl_comm.h"
#include "real.h"
#include "stats.h"

#define NCCL_SUCCESS 0
#define NCCL_IN_PROGRESS 7

struct call {
	struct nccl_comm *comm;
	uint64_t since; /* as events_begin() gave it */
	uint32_t sequence;
};

static struct call begin(const void *handle, enum nccl_order order)
{
	struct call call = {.comm = nccl_comm_get(handle)};

	call.sequence = call.comm ? nccl_comm_enter(call.comm, order) : 0;
	call.since = events_begin();
	return call;
}

/* ---- telling ---- */

/* Bytes of one element, by ncclDataType_t; what comes later: not known. */
static size_t size_of(int type)
{
	static const uint8_t size[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

	return type >= 0 && (size_t)type < sizeof(size) ? size[type] : 0;
}

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

struct what {
	const char *name;
	size_t count;
	int type;
};

static void tell(const struct call *call, const struct what *what, int result)
{
	uint64_t now = events_now();
	struct event e = {
		.start = call->since,
		.duration = now > call->since ? now - call->since : 0,
		.value = what->count * size_of(what->type),
		.id = EVENT_COLLECTIVE,
		.thread = events_thread(),
		.sequence = call->sequence,
		.detail = call->comm ? nccl_comm_number(call->comm) : 0,
		.type = (uint32_t)what->type,
		.name = what->name,
		.failed = result != NCCL_SUCCESS && result != NCCL_IN_PROGRESS,
	};

	events_tell(&e);
}

static void end(const struct call *call, void *handle, const void *caller, const struct what *what,
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
		learn_ranks(call->comm, handle, caller);
	tell(call, what, result);
	guard_leave();
}

/* ---- bodies ---- */

/* `params` in parentheses, with comm, count and type among them; `args` the same without types. The second of
 * a pair is the name that NCCL gives to tools which take the first. */
#define CALL(symbol, name, order, params, args)                              \
	TURBO_EXPORT int symbol params;                                          \
	TURBO_EXPORT int symbol params                                           \
	{                                                                        \
		const void *caller = __builtin_return_address(0);                    \
		void *real = real_resolve_lazy(HOOK_##symbol, caller);               \
		stats_call(HOOK_##symbol);                                           \
		struct call call = begin(comm, order);                               \
		int result = ((int(*) params)real)args;                              \
		end(&call, comm, caller, &(struct what){name, count, type}, result); \
		return result;                                                       \
	}
#define BOTH(symbol, order, params, args)      \
	CALL(symbol, #symbol, order, params, args) \
	CALL(p##symbol, #symbol, order, params, args)

#define PLAIN                                                                       \
	(const void *from, void *to, size_t count, int type, void *comm, void *stream), \
		(from, to, count, type, comm, stream)
#define REDUCING                                                                            \
	(const void *from, void *to, size_t count, int type, int op, void *comm, void *stream), \
		(from, to, count, type, op, comm, stream)
#define ROOTED                                                                                \
	(const void *from, void *to, size_t count, int type, int root, void *comm, void *stream), \
		(from, to, count, type, root, comm, stream)
#define ROOTED_REDUCING                                                                               \
	(const void *from, void *to, size_t count, int type, int op, int root, void *comm, void *stream), \
		(from, to, count, type, op, root, comm, stream)
#define ONE_BUFFER                                                              \
	(void *buffer, size_t count, int type, int root, void *comm, void *stream), \
		(buffer, count, type, root, comm, stream)
#define EACH(symbol, order, shape) BOTH(symbol, order, shape)

EACH(ncclAllGather, NCCL_COLLECTIVE, PLAIN)
EACH(ncclAlltoAll, NCCL_COLLECTIVE, PLAIN)
EACH(ncclAllReduce, NCCL_COLLECTIVE, REDUCING)
EACH(ncclReduceScatter, NCCL_COLLECTIVE, REDUCING)
EACH(ncclBroadcast, NCCL_COLLECTIVE, ROOTED)
EACH(ncclGather, NCCL_COLLECTIVE, ROOTED)
EACH(ncclScatter, NCCL_COLLECTIVE, ROOTED)
EACH(ncclReduce, NCCL_COLLECTIVE, ROOTED_REDUCING)
EACH(ncclBcast, NCCL_COLLECTIVE, ONE_BUFFER)
EACH(ncclSend, NCCL_PAIRWISE, ONE_BUFFER)
EACH(ncclRecv, NCCL_PAIRWISE, ONE_BUFFER)

#define LAST(symbol)                                                                \
	TURBO_EXPORT int symbol(void *comm);                                            \
	TURBO_EXPORT int symbol(void *comm)                                             \
	{                                                                               \
		void *real = real_resolve_lazy(HOOK_##symbol, __builtin_return_address(0)); \
		stats_call(HOOK_##symbol);                                                  \
		nccl_comm_gone(comm);                                                       \
		return ((int (*)(void *))real)(comm);                                       \
	}

LAST(ncclCommDestroy)
LAST(pncclCommDestroy)
LAST(ncclCommAbort)
LAST(pncclCommAbort)

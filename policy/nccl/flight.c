/*
 * flight.c - operations: numbered, signed, written into their communicator's ring, ended.
 *
 * An operation is in the record before anything that may block is done for it.
 */
#include "flight.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "capture.h"
#include "comms.h"
#include "flight_ring.h"
#include "flight_thread.h"
#include "guard.h"
#include "progress.h"
#include "stacks.h"
#include "stats.h"

#define NCCL_SUCCESS 0
#define NCCL_IN_PROGRESS 7
#define BUILT_IN_REDUCTIONS 5
#define NO_REDUCTION 0xffff

_Atomic bool flight_on;
__thread struct flight_thread flight_thread __attribute__((tls_model("initial-exec"), visibility("hidden")));

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint32_t thread_id(void)
{
	if (__builtin_expect(flight_thread.id == 0, 0))
		flight_thread.id = (uint32_t)syscall(SYS_gettid);
	return flight_thread.id;
}

unsigned flight_type_bytes(int type)
{
	static const uint8_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

	return type >= 0 && (size_t)type < sizeof(bytes) ? bytes[type] : 0;
}

static bool reduces(enum flight_function f)
{
	return f == FLIGHT_ALL_REDUCE || f == FLIGHT_REDUCE || f == FLIGHT_REDUCE_SCATTER;
}

/* Made by all ranks of the communicator, in the same order. */
static bool is_collective(enum flight_function f)
{
	return (f >= FLIGHT_ALL_GATHER && f <= FLIGHT_SCATTER) || (f >= FLIGHT_INIT && f <= FLIGHT_GRAPH);
}

/* Ends with the call, if not with the group or later still. */
static bool is_management(enum flight_function f)
{
	return f >= FLIGHT_INIT && f <= FLIGHT_DESTROY;
}

/* ---- numbers ---- */

static void number_pair(struct flight_op *op, struct comm_private *own)
{
	if ((op->function != FLIGHT_SEND && op->function != FLIGHT_RECV) || op->peer < 0 ||
		op->peer >= COMMS_PEERS)
		return;
	_Atomic uint32_t *pair = &own->pair[op->function == FLIGHT_RECV][op->peer];
	if (!atomic_load_explicit(&own->paired, memory_order_relaxed))
		atomic_store_explicit(&own->paired, 1, memory_order_relaxed);
	op->pair = atomic_fetch_add_explicit(pair, 1, memory_order_relaxed) + 1;
}

/* What all ranks give alike. A sum of bytes stands for count and type where these may differ. */
static uint64_t sign(uint64_t signature, const struct flight_op *op)
{
	bool reducing = reduces((enum flight_function)op->function);
	uint64_t what = op->function | (uint64_t)(uint32_t)op->peer << 16;

	if (reducing)
		what |= (uint64_t)op->type << 8 | (uint64_t)op->reduction << 48;
	return comms_mix(comms_mix(signature, what), reducing ? op->count : op->bytes);
}

/* `calls`: how many of the communicator's collective calls it stands for. */
static void number_collective(struct flight_op *op, struct flight_comm *comm, struct comm_private *own,
							  uint64_t calls)
{
	if (calls == 0)
		return;
	op->sequence =
		(uint32_t)(atomic_fetch_add_explicit(&comm->sequence, calls, memory_order_relaxed) + calls);
	op->signature = sign(atomic_load_explicit(&own->signature, memory_order_relaxed), op);
	atomic_store_explicit(&own->signature, op->signature, memory_order_relaxed);
}

/* ---- into the ring ---- */

/* `what` into the ring, as the communicator's next. Fills in what is numbered. */
static void put(struct flight_ticket *ticket, struct flight_comm *comm, struct flight_op *what,
				uint64_t calls)
{
	struct comm_private *own = comms_private(comm);
	struct flight_op *op;

	ticket->before = atomic_load_explicit(&own->signature, memory_order_relaxed);
	what->index = atomic_fetch_add_explicit(&own->next, 1, memory_order_relaxed) + 1;
	number_collective(what, comm, own, calls);
	if (!(what->flags & FLIGHT_CAPTURED))
		number_pair(what, own);
	op = ring_write(comm, what);
	ring_raise(&comm->issued, what->index);
	atomic_store_explicit(&comm->changed, what->issued, memory_order_relaxed);
	ticket->op = op;
	ticket->index = what->index;
	ticket->life = atomic_load_explicit(&comm->life, memory_order_relaxed);
	ticket->comm = comm;
}

/* The place is still the operation's: its communicator may be gone, and many calls may have come since. */
static bool is_still(const struct flight_ticket *t)
{
	return ring_index(t->op) == t->index &&
		   atomic_load_explicit(&t->comm->life, memory_order_relaxed) == t->life;
}

/* ---- one operation ---- */

static void describe(struct flight_op *op, const struct flight_call *call)
{
	*op = (struct flight_op){
		.function = (uint16_t)call->function,
		.type = (uint8_t)call->type,
		.count = call->count,
		.bytes = call->count * flight_type_bytes(call->type),
		.peer = call->peer,
		.reduction = call->reduction >= 0 && call->reduction < BUILT_IN_REDUCTIONS ? (uint16_t)call->reduction
																				   : NO_REDUCTION,
		.thread = thread_id(),
		.stream = (uint64_t)(uintptr_t)call->stream,
		.site = call->frame ? stacks_site(flight_page(), call->caller, call->frame) : 0,
		.issued = now_ns(),
	};
}

static bool captured_on(void *stream)
{
	return __builtin_expect(capture_live(), 0) && capture_on((CUstream)stream, false);
}

/* It is in the record; who will tell how far it gets? */
static void follow(struct flight_ticket *ticket, struct flight_comm *comm, const struct flight_op *what,
				   void *stream)
{
	bool on_gpu = !is_management((enum flight_function)what->function);

	if (what->flags & FLIGHT_CAPTURED) {
		progress_captured(comm, stream, what->function < FLIGHT_SEND,
						  what->function < FLIGHT_SEND ? what->bytes : 0);
	} else if (flight_thread.depth) {
		if (!flight_group_add(comm, stream, what->index, on_gpu) && on_gpu)
			ring_change(comm, what->index, FLIGHT_BLIND, 0);
	} else if (on_gpu) {
		/* NCCL launches behind the back of a caller that it does not block: no event stands where it should. */
		ticket->launch = comm->nonblocking ? 0 : progress_before(comm, stream);
		ring_change(comm, what->index, ticket->launch ? 0 : FLIGHT_BLIND, ticket->launch);
	}
}

static void begin_recorded(struct flight_ticket *ticket, struct flight_comm *comm,
						   const struct flight_call *call)
{
	struct flight_op what;

	describe(&what, call);
	if (!is_management(call->function) && captured_on(call->stream))
		what.flags |= FLIGHT_CAPTURED;
	if (flight_thread.depth) {
		what.flags |= FLIGHT_GROUPED;
		what.group = flight_group_number();
		what.grouped = flight_group_count();
	}
	put(ticket, comm, &what, is_collective(call->function) && !(what.flags & FLIGHT_CAPTURED));
	stats_add(STATS_NCCL_OPERATIONS, 1);
	follow(ticket, comm, &what, call->stream);
}

void flight_record_making(struct flight_comm *comm, const struct flight_made *how)
{
	const struct flight_call call = {
		.function = FLIGHT_INIT,
		.type = -1,
		.reduction = -1,
		.peer = -1,
		.caller = how->caller,
		.frame = how->frame,
	};
	struct flight_ticket ticket;
	struct flight_op what;

	describe(&what, &call);
	put(&ticket, comm, &what, 1);
	atomic_store_explicit(&comms_private(comm)->unsettled, 1, memory_order_relaxed);
}

void flight_enter(struct flight_ticket *ticket)
{
	*ticket = (struct flight_ticket){.comm = NULL};
	if (!atomic_load_explicit(&flight_on, memory_order_relaxed))
		return;
	ticket->entered = true;
	ticket->outermost = flight_thread.inside++ == 0;
}

void flight_begin(struct flight_ticket *ticket, const struct flight_call *call)
{
	struct flight_comm *comm;
	int saved;

	flight_enter(ticket);
	if (!ticket->outermost)
		return;
	saved = errno;
	guard_enter();
	comm = flight_comm_of(call->comm);
	if (__builtin_expect(comm != NULL, 1)) {
		begin_recorded(ticket, comm, call);
	} else if (flight_page()) {
		atomic_fetch_add_explicit(&flight_page()->lost, 1, memory_order_relaxed);
		stats_add(STATS_NCCL_LOST, 1);
	}
	guard_leave();
	errno = saved;
}

void flight_graph_begin(struct flight_ticket *ticket, struct flight_comm *comm, uint32_t life, uint64_t calls,
						uint64_t bytes, void *stream)
{
	const struct flight_call call = {
		.function = FLIGHT_GRAPH,
		.count = calls,
		.type = -1,
		.reduction = -1,
		.peer = -1,
		.stream = stream,
	};
	struct flight_op what;
	int saved = errno;

	*ticket = (struct flight_ticket){.comm = NULL};
	if (!atomic_load_explicit(&flight_on, memory_order_relaxed) ||
		atomic_load_explicit(&comm->life, memory_order_relaxed) != life)
		return;
	guard_enter();
	describe(&what, &call);
	what.bytes = bytes;
	put(ticket, comm, &what, calls);
	follow(ticket, comm, &what, stream);
	guard_leave();
	errno = saved;
}

/* Refused: it has no number among those that all ranks have made, if nothing came after it. */
static void refuse(const struct flight_ticket *t, uint64_t now)
{
	struct comm_private *own = comms_private(t->comm);
	uint64_t newest = t->op->sequence;
	uint32_t pair = t->op->pair;

	ring_change(t->comm, t->index, FLIGHT_FAILED, t->launch);
	if (newest && atomic_compare_exchange_strong_explicit(&t->comm->sequence, &newest, newest - 1,
														  memory_order_relaxed, memory_order_relaxed))
		atomic_store_explicit(&own->signature, t->before, memory_order_relaxed);
	if (pair)
		atomic_compare_exchange_strong_explicit(&own->pair[t->op->function == FLIGHT_RECV][t->op->peer],
												&pair, pair - 1, memory_order_relaxed, memory_order_relaxed);
	ring_over(t->comm, t->op, now);
}

static void end_recorded(const struct flight_ticket *t, int result)
{
	uint64_t now = now_ns();

	if (t->launch)
		progress_after(t->launch, t->index);
	if (!is_still(t))
		return;
	if (result != NCCL_SUCCESS && result != NCCL_IN_PROGRESS) {
		refuse(t, now);
		return;
	}
	/* In a group nothing is begun yet. */
	bool over =
		(t->op->flags & FLIGHT_CAPTURED) || (is_management((enum flight_function)t->op->function) &&
											 result == NCCL_SUCCESS && !(t->op->flags & FLIGHT_GROUPED));
	if (over)
		ring_over(t->comm, t->op, now);
	else
		atomic_store_explicit(&t->op->returned, now, memory_order_relaxed);
	if (is_management((enum flight_function)t->op->function) && result == NCCL_IN_PROGRESS)
		ring_raise(&comms_private(t->comm)->unsettled, t->index);
}

void flight_end(struct flight_ticket *ticket, int result)
{
	int saved;

	if (ticket->entered && flight_thread.inside)
		flight_thread.inside--;
	if (!ticket->comm || !flight_page())
		return;
	saved = errno;
	guard_enter();
	end_recorded(ticket, result);
	guard_leave();
	errno = saved;
}

/* ---- held back ---- */

void flight_hold(struct flight_ticket *ticket, const struct flight_call *call)
{
	struct flight_comm *comm = flight_comm_of(call->comm);
	struct flight_op what;

	*ticket = (struct flight_ticket){.comm = NULL};
	if (!comm)
		return;
	describe(&what, call);
	put(ticket, comm, &what, 1);
	stats_add(STATS_NCCL_OPERATIONS, 1);
	atomic_store_explicit(&ticket->op->returned, what.issued, memory_order_relaxed);
}

uint32_t flight_held_begin(const struct flight_ticket *tickets, unsigned n, void *stream)
{
	const struct flight_ticket *last = &tickets[n - 1];
	uint32_t group = n > 1 ? flight_group_new() : 0, launch;

	if (!last->comm)
		return 0;
	for (unsigned i = 0; group && i < n; i++)
		ring_group(last->comm, tickets[i].index, group, (uint16_t)(i + 1));
	launch = progress_before(last->comm, stream);
	if (launch)
		ring_change(last->comm, last->index, 0, launch);
	for (unsigned i = 0; !launch && i < n; i++)
		ring_change(last->comm, tickets[i].index, FLIGHT_BLIND, 0);
	return launch;
}

void flight_held_end(const struct flight_ticket *tickets, unsigned n, uint32_t launch, int result)
{
	uint64_t now = now_ns();

	if (launch)
		progress_after(launch, tickets[n - 1].index);
	for (unsigned i = n; result != NCCL_SUCCESS && i-- > 0;)
		if (tickets[i].comm && is_still(&tickets[i]))
			refuse(&tickets[i], now);
}

/* flight_ring.c - see flight_ring.h. */
#include "flight_ring.h"

#include <stdbool.h>
#include <stddef.h>

/* An operation's place in the ring while it is written: the version is odd. */
static struct flight_op *open_op(struct flight_comm *comm, uint64_t index)
{
	struct flight_op *op = &comm->op[index % FLIGHT_OPS];

	atomic_fetch_or_explicit(&op->version, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release); /* odd before any content changes */
	return op;
}

static void close_op(struct flight_op *op)
{
	uint32_t version = atomic_load_explicit(&op->version, memory_order_relaxed);

	atomic_store_explicit(&op->version, (version | 1) + 1, memory_order_release);
}

/* Others may read them, to find out by the version that they should not have. */
static void write_words(void *to, const void *from, size_t bytes)
{
	uint64_t *t = to;
	const uint64_t *f = from;

	for (size_t i = 0; i < bytes / sizeof(*t); i++)
		__atomic_store_n(&t[i], f[i], __ATOMIC_RELAXED);
}

void ring_raise(_Atomic uint64_t *to, uint64_t value)
{
	uint64_t is = atomic_load_explicit(to, memory_order_relaxed);

	while (is < value &&
		   !atomic_compare_exchange_weak_explicit(to, &is, value, memory_order_release, memory_order_relaxed))
		;
}

void ring_change(struct flight_comm *comm, uint64_t index, uint8_t flags, uint32_t launch)
{
	struct flight_op *op = &comm->op[index % FLIGHT_OPS];

	if (ring_index(op) != index)
		return;
	open_op(comm, index);
	op->flags |= flags;
	op->launch = launch;
	close_op(op);
}

void ring_group(struct flight_comm *comm, uint64_t index, uint32_t group, uint16_t nth)
{
	struct flight_op *op = &comm->op[index % FLIGHT_OPS];

	if (ring_index(op) != index)
		return;
	open_op(comm, index);
	op->flags |= FLIGHT_GROUPED;
	op->group = group;
	op->grouped = nth;
	close_op(op);
}

struct flight_op *ring_write(struct flight_comm *comm, struct flight_op *what)
{
	struct flight_op *op = open_op(comm, what->index);

	what->version = op->version;
	write_words(op, what, sizeof(*op));
	close_op(op);
	return op;
}

/* ---- over ---- */

static bool is_over(const struct flight_comm *comm, uint64_t index)
{
	const struct flight_op *op = &comm->op[index % FLIGHT_OPS];

	return ring_index(op) == index && atomic_load_explicit(&op->done, memory_order_relaxed);
}

void ring_tidy(struct flight_comm *comm)
{
	uint64_t issued = atomic_load_explicit(&comm->issued, memory_order_acquire);
	uint64_t done = atomic_load_explicit(&comm->done, memory_order_relaxed);

	for (unsigned i = 0; i < FLIGHT_OPS && done < issued && is_over(comm, done + 1); i++)
		done++;
	ring_raise(&comm->started, done);
	ring_raise(&comm->done, done);
}

void ring_over(struct flight_comm *comm, struct flight_op *op, uint64_t now)
{
	_Atomic uint64_t *const times[] = {&op->returned, &op->started};

	for (unsigned i = 0; i < 2; i++)
		if (!atomic_load_explicit(times[i], memory_order_relaxed))
			atomic_store_explicit(times[i], now, memory_order_relaxed);
	atomic_store_explicit(&op->done, now, memory_order_relaxed);
	atomic_store_explicit(&comm->changed, now, memory_order_relaxed);
	ring_tidy(comm);
}

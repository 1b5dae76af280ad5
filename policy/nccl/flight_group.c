/*
 * flight_group.c - what a thread has issued between ncclGroupStart and the end of the outermost group.
 *
 * NCCL counts depth by thread, too. The list is the thread's alone; one is taken from a few at the start of the
 * outermost group.
 */
#include <errno.h>
#include <stdatomic.h>
#include <time.h>

#include "comms.h"
#include "flight_ring.h"
#include "flight_thread.h"
#include "guard.h"
#include "progress.h"

#define NCCL_SUCCESS 0
#define NCCL_IN_PROGRESS 7

#define GROUPS 32  /* threads in a group at once */
#define ENTRIES 64 /* (communicator, stream) pairs of one; of the others nobody knows when they run */
#define MAKING 64  /* communicators that are made in one */

/* The operations of a communicator on a stream, or its management calls. */
struct entry {
	struct flight_comm *comm;
	void *stream;
	uint64_t first, last; /* indices */
	uint32_t life, launch;
	bool on_gpu;
};

struct making {
	struct flight_comm *comm;
	void **handle;
};

struct flight_group {
	_Atomic uint32_t taken; /* by compare-and-swap */
	uint32_t number;
	uint32_t count;
	unsigned entries, making;
	const void *caller; /* of its end */
	bool waits;         /* its thread is shown to wait for NCCL */
	struct entry entry[ENTRIES];
	struct making made[MAKING];
};

static struct flight_group groups[GROUPS];
static _Atomic uint32_t numbers; /* given to groups so far */

uint32_t flight_group_number(void)
{
	return flight_thread.group ? flight_thread.group->number : 0;
}

uint32_t flight_group_new(void)
{
	return atomic_fetch_add_explicit(&numbers, 1, memory_order_relaxed) + 1;
}

uint16_t flight_group_count(void)
{
	struct flight_group *group = flight_thread.group;

	if (!group)
		return 1;
	if (group->count < UINT16_MAX)
		group->count++;
	return (uint16_t)group->count;
}

/* ---- start ---- */

static struct flight_group *take(void)
{
	for (unsigned i = 0; i < GROUPS; i++) {
		uint32_t none = 0;
		if (atomic_compare_exchange_strong_explicit(&groups[i].taken, &none, 1, memory_order_acquire,
													memory_order_relaxed)) {
			groups[i].entries = groups[i].making = groups[i].count = 0;
			groups[i].waits = false;
			groups[i].number = flight_group_new();
			return &groups[i];
		}
	}
	return NULL;
}

void flight_group_start(void)
{
	if (flight_thread.inside || !atomic_load_explicit(&flight_on, memory_order_relaxed))
		return;
	if (flight_thread.depth++ == 0)
		flight_thread.group = take();
}

/* ---- in it ---- */

bool flight_group_add(struct flight_comm *comm, void *stream, uint64_t index, bool on_gpu)
{
	struct flight_group *group = flight_thread.group;
	struct entry *e;

	if (!group)
		return false;
	/* Most are of the one before. */
	for (unsigned i = group->entries; i-- > 0;) {
		e = &group->entry[i];
		if (e->comm == comm && e->stream == stream && e->on_gpu == on_gpu) {
			e->last = index;
			return true;
		}
	}
	if (group->entries == ENTRIES)
		return false;
	group->entry[group->entries++] = (struct entry){
		.comm = comm,
		.stream = stream,
		.first = index,
		.last = index,
		.life = atomic_load_explicit(&comm->life, memory_order_relaxed),
		.on_gpu = on_gpu,
	};
	return true;
}

bool flight_group_making(struct flight_comm *comm, void **handle)
{
	struct flight_group *group = flight_thread.group;

	if (!flight_thread.depth)
		return false;
	if (group && group->making < MAKING)
		group->made[group->making++] = (struct making){comm, handle};
	else
		comms_finish(comm, NULL, NCCL_SUCCESS, NULL);
	return true;
}

/* ---- end ---- */

/* The place is another's by now. */
static bool is_gone(const struct entry *e)
{
	return atomic_load_explicit(&e->comm->life, memory_order_relaxed) != e->life;
}

/* Calls `each` for the operations of an entry that are in the ring still. */
static void walk(const struct flight_group *group, const struct entry *e,
				 void (*each)(const struct entry *e, struct flight_op *op, uint64_t now), uint64_t now)
{
	uint64_t index = e->first;

	if (is_gone(e))
		return;
	if (e->last - index >= FLIGHT_OPS)
		index = e->last - FLIGHT_OPS + 1;
	for (; index <= e->last; index++) {
		struct flight_op *op = &e->comm->op[index % FLIGHT_OPS];
		if (op->index == index && op->group == group->number &&
			op->stream == (uint64_t)(uintptr_t)e->stream && !(op->flags & FLIGHT_CAPTURED))
			each(e, op, now);
	}
}

static void be_blind(const struct entry *e, struct flight_op *op, uint64_t now)
{
	(void)now;
	ring_change(e->comm, op->index, FLIGHT_BLIND, 0);
}

static void be_refused(const struct entry *e, struct flight_op *op, uint64_t now)
{
	ring_change(e->comm, op->index, FLIGHT_FAILED, op->launch);
	ring_over(e->comm, op, now);
}

static void launch(const struct flight_group *group, struct entry *e)
{
	if (is_gone(e))
		return;
	/* See follow() in flight.c. */
	e->launch = e->comm->nonblocking ? 0 : progress_before(e->comm, e->stream);
	if (e->launch)
		ring_change(e->comm, e->last, 0, e->launch);
	else
		walk(group, e, be_blind, 0);
}

void flight_group_end_begin(const void *caller)
{
	struct flight_group *group = flight_thread.group;
	bool outermost = flight_thread.depth == 1 && flight_thread.inside == 0;
	int saved = errno;

	flight_thread.inside++;
	if (!outermost || !group)
		return;
	guard_enter();
	group->caller = caller;
	for (unsigned i = 0; caller && i < group->entries; i++)
		if (group->entry[i].on_gpu)
			launch(group, &group->entry[i]);
	group->waits = progress_wait_begin(FLIGHT_WAIT_NCCL);
	guard_leave();
	errno = saved;
}

static void finish(struct flight_group *group, int result)
{
	bool good = result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS;
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	uint64_t now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	for (unsigned i = 0; i < group->entries; i++) {
		struct entry *e = &group->entry[i];
		if (e->launch)
			progress_after(e->launch, e->last);
		if (!good)
			walk(group, e, be_refused, now);
		if (!e->on_gpu && good && !is_gone(e)) {
			atomic_store_explicit(&comms_private(e->comm)->unsettled, e->last, memory_order_relaxed);
			if (result == NCCL_SUCCESS)
				comms_settle(e->comm);
		}
	}
	for (unsigned i = 0; i < group->making; i++)
		comms_finish(group->made[i].comm, good ? *group->made[i].handle : NULL, result, group->caller);
}

void flight_group_end(int result)
{
	struct flight_group *group = flight_thread.group;
	int saved = errno;

	if (flight_thread.inside)
		flight_thread.inside--;
	if (flight_thread.inside || !flight_thread.depth || --flight_thread.depth)
		return;
	flight_thread.group = NULL;
	if (!group)
		return;
	guard_enter();
	progress_wait_end(group->waits);
	group->waits = false;
	/* A child of fork() has the list, not the record. */
	if (flight_page())
		finish(group, result);
	guard_leave();
	atomic_store_explicit(&group->taken, 0, memory_order_release);
	errno = saved;
}

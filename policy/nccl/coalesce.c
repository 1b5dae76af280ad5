/*
 * coalesce.c - see coalesce.h: which all-gathers wait, and the policy. AGREE.md has the rules by which ranks agree.
 */
#include "coalesce.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "capture.h"
#include "coalesce_held.h"
#include "coalesce_launching.h"
#include "coalesce_timer.h"
#include "flight_thread.h"
#include "inside.h"
#include "options.h"
#include "policy.h"
#include "stats.h"

#define NCCL_SUCCESS 0
/* Sent by a rank. FACTS.md: 64 of 256 KiB take 171 us in one group and 848 one by one, of 1 MiB 339 and 1146: gains that shrink. */
#define LIMIT_KB 256
#define ABORT_NS 10000000u
#define QUIET_NS 1000000000ull /* the timer may be in a launch */

/* Each on a line of its own: the one is read by every call, the other changes with every batch. */
_Atomic bool coalesce_on __attribute__((aligned(64)));
_Atomic uint32_t coalesce_pending __attribute__((aligned(64)));

/* Constant from the start on. */
static uint64_t limit;
static bool checks_pointers; /* NCCL_CHECK_POINTERS: NCCL refuses at once what it would here be given later */

/* What waits is of this communicator: NCCL would have its caller wait, too. */
static enum patience patience_for(const void *comm)
{
	return comm && held_handle() == comm ? LAUNCHING_MUST : LAUNCHING_MAY;
}

/* ---- all-gathers ---- */

/* Of all ranks or none, for it depends on nothing else than what NCCL wants them to give alike. */
static bool is_counted(const struct flight_call *call, struct gather_call *g)
{
	size_t size = flight_type_bytes(call->type);

	if (call->function != FLIGHT_ALL_GATHER || !size || !call->count || call->count > limit / size)
		return false;
	g->count = call->count;
	g->type = call->type;
	g->bytes = call->count * size;
	return g->from && g->to;
}

/* Why it must not wait, 0: it may. What each rank decides for itself: one that is launched alone is counted all the same. */
static enum stats_counter why_alone(struct gather_comm *c, const struct gather_stream *place,
									const struct gather_call *g)
{
	if (!c->connected)
		return STATS_NCCL_ALONE_FIRST;
	if (capture_live())
		return STATS_NCCL_ALONE_CAPTURE;
	if (!place || checks_pointers)
		return STATS_NCCL_ALONE_STREAM;
	if (!coalesce_comms_complete(c))
		return STATS_NCCL_ALONE_RANKS;
	if (!launching_pending() && coalesce_comms_alone(c, coalesce_comms_site(g->bytes)))
		return STATS_NCCL_ALONE_SITE;
	return coalesce_timer_is_quiet() || !coalesce_timer_start() ? STATS_NCCL_ALONE_STREAM : 0;
}

/* A call that other ranks may count: none of this communicator's is from now on. */
static bool leave(struct gather_comm *c, enum stats_counter why)
{
	launching_locked(STATS_NCCL_LAUNCH_CUT);
	if (c)
		coalesce_comms_leave(c);
	stats_add(why, 1);
	return false;
}

/*
 * Counted, and launched by its own call, as without us: it may wait for other ranks, as the first does, and they for what another
 * thread does meanwhile. It needs no lock, for until it returns nobody calls for this communicator.
 */
static bool alone(struct gather_comm *c, enum stats_counter why)
{
	agree_step(&c->agree);
	c->connected = true;
	stats_add(why, 1);
	return false;
}

/* True: it waits. */
static bool gather_locked(const struct flight_call *call, const struct gather_call *g, bool plain)
{
	struct gather_comm *c = coalesce_comms_get(call, limit);
	CUstream stream = call->stream;
	struct flight_ticket ticket;

	if (!c)
		return leave(NULL, STATS_NCCL_PASS_COMM);
	if (!plain || (capture_live() && capture_on(stream, false)))
		return leave(c, STATS_NCCL_PASS_LEFT);
	struct gather_stream *place = coalesce_streams_get(stream);
	enum stats_counter why = why_alone(c, place, g);
	if (why || !held_takes(c, stream, g))
		launching_locked(STATS_NCCL_LAUNCH_CUT);
	if (!agree_queue(&c->agree)) {
		launching_locked(STATS_NCCL_LAUNCH_CUT);
		if (!agree_queue(&c->agree))
			return leave(c, STATS_NCCL_PASS_LEFT);
	}
	if (why)
		return alone(c, why);
	flight_hold(&ticket, call);
	held_add(c, stream, place, g, &ticket);
	atomic_store_explicit(&coalesce_pending, 1, memory_order_relaxed);
	stats_add(STATS_NCCL_HELD, 1);
	return true;
}

static bool gather(const struct flight_call *call, struct gather_call *g, bool plain)
{
	bool taken;

	if (!is_counted(call, g)) {
		if (!flight_thread.depth)
			launching(patience_for(call->comm), STATS_NCCL_LAUNCH_CUT);
		stats_add(STATS_NCCL_PASS_SIZE, 1);
		return false;
	}
	if (!launching_accepts()) {
		if (launching_pending())
			launching(patience_for(call->comm), STATS_NCCL_LAUNCH_CUT);
		return false;
	}
	/* In a group of the program's own: what is pending is another thread's, perhaps of this communicator. */
	if (flight_thread.depth && launching_pending())
		launching_elsewhere();
	if (!launching_lock(patience_for(call->comm)))
		return false;
	if (flight_thread.depth) {
		struct gather_comm *c = coalesce_comms_get(call, limit);
		if (c && launching_pending() && held_handle() == call->comm)
			c = NULL; /* another thread's, at the same time: an error of the program */
		if (c)
			coalesce_comms_leave(c);
		stats_add(STATS_NCCL_PASS_LEFT, 1);
		taken = false;
	} else {
		taken = gather_locked(call, g, plain);
	}
	held_unlock();
	if (taken && launching_pending())
		coalesce_timer_wake();
	return taken;
}

bool coalesce_gather(const struct flight_call *call, const void *from, void *to, bool plain, int *result)
{
	struct gather_call g = {.from = from, .to = to};
	bool taken;
	int saved;

	if (!atomic_load_explicit(&coalesce_on, memory_order_relaxed) || flight_thread.inside)
		return false;
	saved = inside_begin();
	*result = coalesce_comms_late(call->comm);
	taken = *result != NCCL_SUCCESS || gather(call, &g, plain);
	inside_end(saved);
	return taken;
}

/* Whatever has become of it: an answer that is no success may mean that it goes on (ncclInProgress). */
void coalesce_gathered(const struct flight_call *call, int result)
{
	int saved;

	if (__builtin_expect(result == NCCL_SUCCESS, 1) || flight_thread.inside || flight_thread.depth ||
		!atomic_load_explicit(&coalesce_on, memory_order_relaxed))
		return;
	saved = inside_begin();
	if (launching_lock(patience_for(call->comm))) {
		struct gather_comm *c = coalesce_comms_get(call, limit);
		if (c)
			leave(c, STATS_NCCL_PASS_LEFT);
		held_unlock();
	}
	inside_end(saved);
}

/* ---- other calls of NCCL ---- */

int coalesce_before_nccl(const void *comm)
{
	int saved, late;

	if (!atomic_load_explicit(&coalesce_on, memory_order_relaxed) || flight_thread.inside || guard_inside())
		return NCCL_SUCCESS;
	saved = inside_begin();
	if (launching_pending() && !flight_thread.depth)
		launching(patience_for(comm), STATS_NCCL_LAUNCH_NCCL);
	late = comm ? coalesce_comms_late(comm) : NCCL_SUCCESS;
	inside_end(saved);
	return late;
}

void coalesce_before_group_end(void)
{
	int saved;

	if (!atomic_load_explicit(&coalesce_on, memory_order_relaxed) || !launching_pending() ||
		flight_thread.inside || flight_thread.depth != 1 || guard_inside())
		return;
	saved = inside_begin();
	launching_elsewhere();
	inside_end(saved);
}

int coalesce_async_error(const void *comm)
{
	return atomic_load_explicit(&coalesce_on, memory_order_relaxed) ? coalesce_comms_late(comm)
																	: NCCL_SUCCESS;
}

/*
 * A launch that is under way goes on: it may wait for this very abort. The rest of its batch is not launched any more. The
 * moment is for one that has looked just before and is on its way into NCCL.
 */
static void end_aborted(const void *comm)
{
	const struct flight_comm *place = flight_comm_of(comm);
	struct gather_comm *c = place ? coalesce_comms_at(place) : NULL;

	if (c)
		atomic_store(&c->aborted, true);
	if (!held_lock(ABORT_NS))
		return;
	if (held_handle() == comm)
		held_drop();
	if (c)
		coalesce_comms_gone(c);
	held_unlock();
}

static void end_in_order(const void *comm)
{
	const struct flight_comm *place = flight_comm_of(comm);

	if (!launching_lock(patience_for(comm)))
		return;
	launching_locked(STATS_NCCL_LAUNCH_NCCL);
	if (place)
		coalesce_comms_gone(coalesce_comms_at(place));
	held_unlock();
}

void coalesce_comm_ending(const void *comm, bool aborted)
{
	int saved;

	if (!atomic_load_explicit(&coalesce_on, memory_order_relaxed) || flight_thread.inside)
		return;
	saved = inside_begin();
	if (aborted)
		end_aborted(comm);
	else if (flight_thread.depth)
		launching_elsewhere();
	else
		end_in_order(comm);
	inside_end(saved);
}

/* ---- the policy ---- */

static void start(void)
{
	int64_t kb = option_get(OPT_NCCL_COALESCE_KB);
	const char *check = getenv("NCCL_CHECK_POINTERS");

	limit = (uint64_t)(kb == OPTION_AUTO ? LIMIT_KB : kb) << 10;
	checks_pointers = check && *check && *check != '0';
	launching_accept(true);
	atomic_store_explicit(&coalesce_on, option_get(OPT_NCCL_COALESCE) != 0, memory_order_relaxed);
}

static void context_gone(void *ctx, int device)
{
	(void)device;
	if (ctx && launching_pending())
		launching(LAUNCHING_MUST, STATS_NCCL_LAUNCH_WAIT);
	coalesce_streams_forget();
}

static void quiet(bool on)
{
	coalesce_timer_quiet(on);
	if (on && launching_pending() && held_lock(QUIET_NS))
		held_unlock();
}

static void fork_child(void)
{
	atomic_store_explicit(&coalesce_on, false, memory_order_relaxed);
	launching_accept(false);
	atomic_store_explicit(&coalesce_pending, 0, memory_order_relaxed);
	coalesce_timer_fork_child();
}

static void stop(void)
{
	launching_accept(false);
	atomic_store_explicit(&coalesce_on, false, memory_order_relaxed);
	/* Unless a launch is stuck. */
	if (held_try()) {
		coalesce_comms_stop();
		held_unlock();
	}
}

static int summary(char *buf, int size)
{
	unsigned long long grouped = stats_get(STATS_NCCL_GROUPED), groups = 0;

	for (int i = STATS_NCCL_GROUPS_2; i <= STATS_NCCL_GROUPS_64; i++)
		groups += stats_get((enum stats_counter)i);
	if (!groups)
		return 0;
	return snprintf(buf, (size_t)size, "launched %llu all-gathers in %llu groups", grouped, groups);
}

const struct policy coalesce_policy = {
	.name = "coalesce",
	.start = start,
	.context_gone = context_gone,
	.quiet = quiet,
	.fork_child = fork_child,
	.stop = stop,
	.summary = summary,
};

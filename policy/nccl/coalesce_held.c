/* coalesce_held.c - see coalesce_held.h. */
#include "coalesce_held.h"

#include <pthread.h>

#include "act.h"
#include "events.h"
#include "launches.h"
#include "log.h"
#include "progress.h"
#include "real.h"
#include "stats.h"
#include "timed_lock.h"

#define NCCL_SUCCESS 0
#define NCCL_REMOTE_ERROR 6

/*
 * How long the first may wait. The next call of a loop in C comes after some microseconds, PyTorch's after 55 (FACTS.md): when none
 * has come for QUIET_NS the loop is over, or is none. Whatever comes, MOST_NS: a device that idles gains nothing.
 */
#define QUIET_NS 100000u
#define MOST_NS 1000000u
#define PATIENCE_NS 20000u

struct held_record {
	struct held_event *place;
	CUevent event;
	uint64_t number;
};

static struct timed_lock lock;

static struct {
	/* The lock. */
	unsigned gathers, launched, records, recorded;
	struct gather_comm *comm;
	CUcontext ctx;
	unsigned site;
	struct gather_call gather[HELD_GATHERS];
	struct flight_ticket ticket[HELD_GATHERS];
	unsigned records_by[HELD_GATHERS]; /* records queued before this all-gather */
	uint64_t since[HELD_GATHERS];      /* ns: it was queued */
	unsigned launches;                 /* of this batch so far */
	struct held_record record[HELD_RECORDS];
	uint64_t number; /* of records, given so far */
	/* Written with the lock; read by any thread, relaxed. */
	CUstream _Atomic stream;
	struct gather_stream *_Atomic on;
	_Atomic uintptr_t issuer, handle; /* thread of the newest; ncclComm_t */
	_Atomic uint64_t turn;            /* batches so far; release, acquire */
	_Atomic uint64_t first, last;     /* ns: when the oldest and the newest that wait were queued */
} batch;

bool held_lock(uint64_t ns)
{
	return timed_lock_take(&lock, ns);
}

bool held_try(void)
{
	return timed_lock_try(&lock);
}

void held_unlock(void)
{
	timed_lock_leave(&lock);
}

CUstream held_stream(void)
{
	return atomic_load_explicit(&batch.stream, memory_order_relaxed);
}

struct gather_stream *held_place(void)
{
	return atomic_load_explicit(&batch.on, memory_order_relaxed);
}

uint64_t held_number(void)
{
	return atomic_load_explicit(&batch.turn, memory_order_acquire);
}

bool held_is_mine(void)
{
	return atomic_load_explicit(&coalesce_pending, memory_order_relaxed) &&
		   atomic_load_explicit(&batch.issuer, memory_order_relaxed) == (uintptr_t)pthread_self();
}

const void *held_handle(void)
{
	return atomic_load_explicit(&coalesce_pending, memory_order_relaxed)
			   ? (const void *)atomic_load_explicit(&batch.handle, memory_order_relaxed)
			   : NULL;
}

uint64_t held_due(void)
{
	uint64_t first, last;

	if (!atomic_load_explicit(&coalesce_pending, memory_order_relaxed))
		return 0;
	first = atomic_load_explicit(&batch.first, memory_order_relaxed) + MOST_NS;
	last = atomic_load_explicit(&batch.last, memory_order_relaxed) + QUIET_NS;
	return first < last ? first : last;
}

/* ---- queued ---- */

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
	return (uintptr_t)a < (uintptr_t)b + b_bytes && (uintptr_t)b < (uintptr_t)a + a_bytes;
}

/* Members of a group run at the same time. */
static bool are_disjoint(const struct gather_call *a, const struct gather_call *b, size_t ranks)
{
	return !overlap(a->to, a->bytes * ranks, b->to, b->bytes * ranks) &&
		   !overlap(a->to, a->bytes * ranks, b->from, b->bytes) &&
		   !overlap(b->to, b->bytes * ranks, a->from, a->bytes);
}

bool held_takes(const struct gather_comm *c, CUstream stream, const struct gather_call *call)
{
	if (!batch.gathers)
		return true;
	if (batch.comm != c || held_stream() != stream || batch.gathers == HELD_GATHERS)
		return false;
	for (unsigned i = batch.launched; i < batch.gathers; i++)
		if (!are_disjoint(&batch.gather[i], call, c->ranks))
			return false;
	return true;
}

void held_add(struct gather_comm *c, CUstream stream, struct gather_stream *place,
			  const struct gather_call *call, const struct flight_ticket *ticket)
{
	uint64_t now = progress_now();
	unsigned i = batch.gathers++;

	batch.gather[i] = *call;
	batch.ticket[i] = *ticket;
	batch.records_by[i] = batch.records;
	batch.since[i] = now;
	atomic_store_explicit(&batch.issuer, (uintptr_t)pthread_self(), memory_order_relaxed);
	atomic_store_explicit(&batch.last, now, memory_order_relaxed);
	if (i)
		return;
	batch.comm = c;
	atomic_store_explicit(&batch.handle, (uintptr_t)c->handle, memory_order_relaxed);
	batch.ctx = place->ctx;
	batch.site = coalesce_comms_site(call->bytes);
	atomic_store_explicit(&batch.stream, stream, memory_order_relaxed);
	atomic_store_explicit(&batch.on, place, memory_order_relaxed);
	atomic_store_explicit(&batch.first, now, memory_order_relaxed);
}

bool held_add_record(struct held_event *place, CUevent event)
{
	/* An event of another context is refused by the driver. */
	if (batch.records == HELD_RECORDS || atomic_load_explicit(&place->timed, memory_order_relaxed) ||
		atomic_load_explicit(&place->ctx, memory_order_relaxed) != (uintptr_t)batch.ctx)
		return false;
	batch.record[batch.records++] = (struct held_record){place, event, ++batch.number};
	coalesce_events_queue(place, batch.number);
	return true;
}

/* ---- launched ---- */

/* Those that were queued before all-gather `next`. */
static void make_records(unsigned next)
{
	unsigned end = next < batch.gathers ? batch.records_by[next] : batch.records;

	for (; batch.recorded < end; batch.recorded++) {
		const struct held_record *r = &batch.record[batch.recorded];
		if (!coalesce_events_begin(r->place, r->number))
			continue;
		CUresult status = REAL(cuEventRecord)(r->event, held_stream());
		coalesce_events_recorded(r->place);
		if (status != CUDA_SUCCESS) {
			stats_add(STATS_ERRORS, 1);
			log_once(LOG_WARN, "nccl: an event behind all-gathers could not be recorded: error %d",
					 (int)status);
		}
	}
}

typedef int group_fn(void);
typedef int gather_fn(const void *from, void *to, size_t count, int type, void *comm, void *stream);

static int give_to_nccl(const struct gather_comm *c, const struct gather_call *g, unsigned n)
{
	gather_fn *gather = (gather_fn *)real_resolve_lazy(HOOK_ncclAllGather, c->caller);
	int result = NCCL_SUCCESS, ended;

	if (n == 1)
		return gather(g->from, g->to, g->count, g->type, c->handle, held_stream());
	result = ((group_fn *)real_resolve_lazy(HOOK_ncclGroupStart, c->caller))();
	if (result != NCCL_SUCCESS)
		return result;
	for (unsigned i = 0; i < n && result == NCCL_SUCCESS; i++)
		result = gather(g[i].from, g[i].to, g[i].count, g[i].type, c->handle, held_stream());
	ended = ((group_fn *)real_resolve_lazy(HOOK_ncclGroupEnd, c->caller))();
	return result != NCCL_SUCCESS ? result : ended;
}

static void count_group(unsigned n)
{
	static const enum stats_counter sizes[] = {STATS_NCCL_GROUPS_2,  STATS_NCCL_GROUPS_4,
											   STATS_NCCL_GROUPS_8,  STATS_NCCL_GROUPS_16,
											   STATS_NCCL_GROUPS_32, STATS_NCCL_GROUPS_64};
	unsigned log2 = 31u - (unsigned)__builtin_clz(n);

	if (n < 2)
		return;
	stats_add(STATS_NCCL_GROUPED, n);
	stats_add(sizes[log2 > 6 ? 5 : log2 - 1], 1);
}

/* The next n, as one launch. */
static int launch(unsigned n)
{
	struct gather_comm *c = batch.comm;
	const struct flight_ticket *ticket = &batch.ticket[batch.launched];
	int result = NCCL_REMOTE_ERROR;

	/* It was aborted meanwhile, by libturbo or by the program. */
	if (!act_tombstone(c->handle) && !atomic_load(&c->aborted)) {
		uint32_t number = flight_held_begin(ticket, n, held_stream());
		bool waits = progress_wait_begin(FLIGHT_WAIT_NCCL);
		uint64_t since = n > 1 ? events_begin() : 0;
		result = give_to_nccl(c, &batch.gather[batch.launched], n);
		events_end(EVENT_GATHERS, since, n, result != NCCL_SUCCESS);
		progress_wait_end(waits);
		flight_held_end(ticket, n, number, result);
		count_group(n);
	}
	batch.launched += n;
	batch.launches++;
	make_records(batch.launched);
	return result;
}

/* The stream's context is the thread's while the driver is called; a helper has none. */
static bool enter_context(void)
{
	CUcontext now = NULL;

	return batch.ctx && REAL(cuCtxGetCurrent)(&now) == CUDA_SUCCESS && now != batch.ctx &&
		   REAL(cuCtxPushCurrent_v2)(batch.ctx) == CUDA_SUCCESS;
}

static void leave_context(bool entered)
{
	CUcontext was;

	if (entered)
		REAL(cuCtxPopCurrent_v2)(&was);
}

static void empty(void)
{
	coalesce_comms_launched(batch.comm, batch.site, batch.launches == batch.gathers);
	batch.gathers = batch.launched = batch.launches = batch.records = batch.recorded = 0;
	atomic_fetch_add_explicit(&batch.turn, 1, memory_order_release);
	/* Whoever finds nothing pending has the launch before it: release. */
	atomic_store_explicit(&coalesce_pending, 0, memory_order_release);
}

static void fail(struct gather_comm *c, int result)
{
	coalesce_comms_leave(c);
	stats_add(STATS_NCCL_LATE, 1);
	log_warn("nccl: an all-gather that was held back has failed: NCCL error %d", result);
	atomic_store_explicit(&c->late_life, c->life, memory_order_relaxed);
	atomic_store_explicit(&c->late, result, memory_order_release);
}

/*
 * Ranks come to the end of a loop some microseconds apart, and the first would cut it for all where the last one is. So it looks
 * for a moment whether they come, unless they have not the last times: at most PATIENCE_NS, and nothing hangs on it.
 */
static void let_catch_up(struct gather_comm *c)
{
	uint64_t end = progress_now() + PATIENCE_NS;
	unsigned left = batch.gathers - batch.launched;
	bool decided;

	if (left < 2 || c->ranks == 1 || !coalesce_comms_patient(c))
		return;
	while (agree_ready(&c->agree, &decided) < left && !decided)
		if (progress_now() >= end) {
			coalesce_comms_waited(c, false);
			return;
		}
	coalesce_comms_waited(c, true);
}

/* Launches by steps while `goes_on` says so. */
static void launch_while(bool (*goes_on)(const struct agree *a))
{
	struct gather_comm *c = batch.comm;
	int first = NCCL_SUCCESS;
	unsigned n;

	bool entered = enter_context();
	/* After a failure this rank leaves, and nothing may be left then. */
	while ((first != NCCL_SUCCESS || goes_on(&c->agree)) && (n = agree_step(&c->agree)) != 0) {
		int result = launch(n);
		first = first == NCCL_SUCCESS ? result : first;
	}
	leave_context(entered);
	if (batch.launched == batch.gathers)
		empty();
	else
		atomic_store_explicit(&batch.first, batch.since[batch.launched], memory_order_relaxed);
	if (first != NCCL_SUCCESS)
		fail(c, first);
}

static bool always(const struct agree *a)
{
	(void)a;
	return true;
}

void held_launch(void)
{
	if (!batch.gathers)
		return;
	let_catch_up(batch.comm);
	launch_while(always);
}

/* What the others have come to, too, or have decided. */
static bool is_worth_it(const struct agree *a)
{
	bool decided;
	unsigned ready = agree_ready(a, &decided);

	return decided || ready > 1 || a->ranks == 1;
}

void held_launch_ready(void)
{
	uint64_t oldest = atomic_load_explicit(&batch.first, memory_order_relaxed);

	if (!batch.gathers)
		return;
	if (progress_now() - oldest >= MOST_NS)
		launch_while(always);
	else
		launch_while(is_worth_it);
	/* What is left waits for its time, or for another look when the next one comes. */
	if (batch.gathers)
		atomic_store_explicit(&batch.last, progress_now(), memory_order_relaxed);
}

void held_drop(void)
{
	if (!batch.gathers)
		return;
	bool entered = enter_context();
	flight_held_end(&batch.ticket[batch.launched], batch.gathers - batch.launched, 0, NCCL_REMOTE_ERROR);
	make_records(batch.gathers);
	leave_context(entered);
	empty();
}

/* comms.c - see comms.h and flight.h. */
#include "comms.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "file.h"
#include "flight_ring.h"
#include "flight_thread.h"
#include "guard.h"
#include "real.h"
#include "stats.h"

#define NCCL_SUCCESS 0
#define NCCL_IN_PROGRESS 7

/* From handle to place. An element is taken by compare-and-swap; a lookup ends at EMPTY. */
#define HANDLES 1024
#define PROBES 64
enum { EMPTY = 0, LEFT = 255 };
_Static_assert(FLIGHT_COMMS < LEFT, "a place fits an element");

static _Atomic uint8_t handles[HANDLES]; /* place + 1; release after the place's handle */
static struct comm_private privates[FLIGHT_COMMS];
static _Atomic uint32_t numbers; /* given to communicators so far */

/* ---- keys ---- */

uint64_t comms_mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	hash ^= hash >> 32;
	hash *= UINT64_C(0xd6e8feb86659fd93);
	return hash ^ hash >> 29;
}

static void fold(uint64_t key[2], uint64_t value)
{
	key[0] = comms_mix(key[0], value);
	key[1] = comms_mix(key[1] + UINT64_C(0xa0761d6478bd642f), value);
}

static void fold_bytes(uint64_t key[2], const void *bytes, size_t size)
{
	const unsigned char *at = bytes;

	fold(key, size);
	for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
		uint64_t word = 0;
		memcpy(&word, at + i, size - i < sizeof(word) ? size - i : sizeof(word));
		fold(key, word);
	}
}

/*
 * The same on all ranks. Of children NCCL itself counts as we do: the ordinal among all children of the parent, whatever
 * else was called in it. A rank that grow() adds knows nothing of the parent, so its key is the id's, as is that of no
 * other rank: to them it is as if it were on another machine.
 */
static void make_key(uint64_t key[2], const struct flight_made *how, const struct flight_comm *parent,
					 uint32_t ordinal)
{
	key[0] = key[1] = how->function;
	if (!parent) {
		fold_bytes(key, how->id, how->id_bytes);
		return;
	}
	fold(key, parent->key[0]);
	fold(key, parent->key[1]);
	fold(key, ordinal);
	fold(key, (uint32_t)how->colour);
	for (unsigned i = 0; i < how->excluded_count; i++)
		fold(key, (uint32_t)how->excluded[i]);
}

/* ---- handles ---- */

struct comm_private *comms_private(const struct flight_comm *comm)
{
	return &privates[comm - comms_at(flight_page(), 0)];
}

static unsigned home_of(uintptr_t handle)
{
	return (unsigned)((uint64_t)handle * UINT64_C(0x9e3779b97f4a7c15) >> 54);
}
_Static_assert(HANDLES == 1 << (64 - 54), "home_of() gives an index");

struct flight_comm *flight_comm_of(const void *handle)
{
	struct flight_page *page = flight_page();
	unsigned home = home_of((uintptr_t)handle);

	for (unsigned i = 0; page && handle && i < PROBES; i++) {
		uint8_t place = atomic_load_explicit(&handles[(home + i) % HANDLES], memory_order_acquire);
		if (place == EMPTY)
			break;
		if (place != LEFT &&
			atomic_load_explicit(&privates[place - 1].handle, memory_order_acquire) == (uintptr_t)handle)
			return comms_at(page, place - 1u);
	}
	return NULL;
}

void *flight_comm_handle(const struct flight_comm *comm, const void **caller)
{
	struct comm_private *own = comms_private(comm);

	*caller = (const void *)atomic_load_explicit(&own->caller, memory_order_relaxed);
	return (void *)atomic_load_explicit(&own->handle, memory_order_acquire);
}

/* The place loses its handle: nobody finds it any more. */
static void unname(struct flight_comm *comm)
{
	struct comm_private *own = comms_private(comm);
	uintptr_t handle = atomic_exchange_explicit(&own->handle, 0, memory_order_acq_rel);
	uint8_t place = (uint8_t)(own - privates + 1);
	unsigned home = home_of(handle);

	for (unsigned i = 0; handle && i < PROBES; i++) {
		uint8_t is = place;
		if (atomic_compare_exchange_strong_explicit(&handles[(home + i) % HANDLES], &is, LEFT,
													memory_order_relaxed, memory_order_relaxed))
			return;
	}
}

static void name(struct flight_comm *comm, void *handle)
{
	struct comm_private *own = comms_private(comm);
	uint8_t place = (uint8_t)(own - privates + 1);
	unsigned home = home_of((uintptr_t)handle);

	atomic_store_explicit(&own->handle, (uintptr_t)handle, memory_order_release);
	for (unsigned i = 0; i < PROBES; i++) {
		_Atomic uint8_t *at = &handles[(home + i) % HANDLES];
		uint8_t is = atomic_load_explicit(at, memory_order_relaxed);
		if ((is == EMPTY || is == LEFT) && atomic_compare_exchange_strong_explicit(
											   at, &is, place, memory_order_release, memory_order_relaxed))
			return;
	}
}

/* ---- places ---- */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void set_state(struct flight_comm *comm, enum flight_state state)
{
	atomic_store_explicit(&comm->state, state, memory_order_release);
	atomic_store_explicit(&comm->changed, now_ns(), memory_order_relaxed);
}

/* One that was never used, else the one that was given back first. */
static struct flight_comm *find_place(struct flight_page *page)
{
	struct flight_comm *best = NULL;
	uint64_t oldest = UINT64_MAX;

	for (unsigned i = 0; i < FLIGHT_COMMS; i++) {
		struct flight_comm *comm = comms_at(page, i);
		if (atomic_load_explicit(&privates[i].taken, memory_order_relaxed))
			continue;
		uint64_t changed = atomic_load_explicit(&comm->changed, memory_order_relaxed);
		if (changed < oldest) {
			oldest = changed;
			best = comm;
		}
	}
	return best;
}

static struct flight_comm *take_place(struct flight_page *page)
{
	struct flight_comm *comm;
	uint32_t none = 0, high, want;

	/* Some other thread may have taken it meanwhile. */
	do {
		comm = find_place(page);
		none = 0;
	} while (comm && !atomic_compare_exchange_strong_explicit(&comms_private(comm)->taken, &none, 1,
															  memory_order_acquire, memory_order_relaxed));
	if (!comm)
		return NULL;
	want = (uint32_t)(comm - comms_at(page, 0)) + 1;
	high = atomic_load_explicit(&page->comm_high, memory_order_relaxed);
	while (high < want && !atomic_compare_exchange_weak_explicit(&page->comm_high, &high, want,
																 memory_order_relaxed, memory_order_relaxed))
		;
	return comm;
}

static void give_back(struct flight_comm *comm, enum flight_state state)
{
	unname(comm);
	set_state(comm, state);
	atomic_store_explicit(&comms_private(comm)->taken, 0, memory_order_release);
}

/* What was another's. */
static void wipe(struct flight_comm *comm, struct comm_private *own)
{
	atomic_store_explicit(&comm->state, FLIGHT_FREE, memory_order_release);
	atomic_fetch_add_explicit(&comm->life, 1, memory_order_acq_rel);
	if (atomic_load_explicit(&comm->issued, memory_order_relaxed))
		memset(comm->op, 0, sizeof(comm->op));
	if (atomic_exchange_explicit(&own->paired, 0, memory_order_relaxed))
		memset(own->pair, 0, sizeof(own->pair));
	_Atomic uint64_t *const zero[] = {&comm->issued,    &comm->sequence, &comm->started,  &comm->done,
									  &comm->best_rate, &own->next,      &own->signature, &own->unsettled};
	for (unsigned i = 0; i < sizeof(zero) / sizeof(zero[0]); i++)
		atomic_store_explicit(zero[i], 0, memory_order_relaxed);
	atomic_store_explicit(&comm->verdict, 0, memory_order_relaxed);
	atomic_store_explicit(&own->children, 0, memory_order_relaxed);
}

static void fill(struct flight_comm *comm, const struct flight_made *how, const struct flight_comm *parent,
				 uint32_t ordinal)
{
	wipe(comm, comms_private(comm));
	atomic_store_explicit(&comms_private(comm)->caller, (uintptr_t)how->caller, memory_order_relaxed);
	make_key(comm->key, how, parent, ordinal);
	atomic_store_explicit(&comm->rank, how->rank, memory_order_relaxed);
	atomic_store_explicit(&comm->ranks, how->ranks, memory_order_relaxed);
	comm->device = -1;
	comm->number = atomic_fetch_add_explicit(&numbers, 1, memory_order_relaxed) + 1;
	comm->parent = parent ? parent->number : 0;
	comm->nonblocking = how->nonblocking || (parent && parent->nonblocking);
	memset(comm->name, 0, sizeof(comm->name));
	for (unsigned i = 0; how->name && how->name[i] && i < sizeof(comm->name) - 1; i++)
		comm->name[i] = (unsigned char)how->name[i] < 0x20 ? '?' : how->name[i];
	comm->made = now_ns();
	set_state(comm, FLIGHT_MAKING);
}

/* ---- made ---- */

struct flight_comm *flight_comm_making(const struct flight_made *how)
{
	struct flight_page *page;
	struct flight_comm *comm = NULL, *parent = NULL;
	uint32_t ordinal = 0;
	int saved = errno;

	guard_enter();
	page = flight_open(how->caller);
	if (page && how->parent) {
		parent = flight_comm_of(how->parent);
		if (parent)
			ordinal = atomic_fetch_add_explicit(&comms_private(parent)->children, 1, memory_order_relaxed);
	}
	bool wanted = page && !(how->function == FLIGHT_SPLIT && how->colour < 0);
	/* The key of a child whose parent found no place is not known. */
	if (wanted && (parent || !how->parent))
		comm = take_place(page);
	if (comm) {
		fill(comm, how, parent, ordinal);
		stats_add(STATS_NCCL_COMMS, 1);
		if (!parent)
			flight_record_making(comm, how);
		flight_file_hurry(false);
	} else if (wanted) {
		atomic_fetch_add_explicit(&page->lost, 1, memory_order_relaxed);
		stats_add(STATS_NCCL_LOST, 1);
	}
	guard_leave();
	errno = saved;
	return comm;
}

void comms_learn(struct flight_comm *comm, void *handle, const void *caller)
{
	typedef int ask_fn(void *comm, int *answer);
	static const enum hook_id ask[] = {HOOK_ncclCommUserRank, HOOK_ncclCommCount, HOOK_ncclCommCuDevice};
	int answer[3];

	for (unsigned i = 0; i < 3; i++) {
		answer[i] = -1;
		if (((ask_fn *)real_resolve_lazy(ask[i], caller))(handle, &answer[i]) != NCCL_SUCCESS)
			return;
	}
	atomic_store_explicit(&comm->rank, answer[0], memory_order_relaxed);
	atomic_store_explicit(&comm->ranks, answer[1], memory_order_relaxed);
	comm->device = answer[2];
}

void comms_settle(struct flight_comm *comm)
{
	struct comm_private *own = comms_private(comm);
	uint64_t last = atomic_exchange_explicit(&own->unsettled, 0, memory_order_relaxed), now = now_ns();
	uint64_t first = atomic_load_explicit(&comm->done, memory_order_relaxed) + 1;

	if (last > FLIGHT_OPS && first < last - FLIGHT_OPS + 1)
		first = last - FLIGHT_OPS + 1;
	for (uint64_t i = first; i <= last; i++) {
		struct flight_op *op = &comm->op[i % FLIGHT_OPS];
		if (op->index == i && op->function >= FLIGHT_INIT && op->function <= FLIGHT_DESTROY)
			ring_over(comm, op, now);
	}
}

/* The first operation of one without a parent is its making. */
static void init_returned(struct flight_comm *comm, bool refused)
{
	struct flight_op *op = &comm->op[1];

	if (op->index != 1 || op->function != FLIGHT_INIT)
		return;
	atomic_store_explicit(&op->returned, now_ns(), memory_order_relaxed);
	if (refused)
		ring_change(comm, 1, FLIGHT_FAILED, 0);
}

void comms_finish(struct flight_comm *comm, void *handle, int result, const void *caller)
{
	struct flight_comm *stale;

	init_returned(comm, result != NCCL_SUCCESS && result != NCCL_IN_PROGRESS);
	if (!handle || (result != NCCL_SUCCESS && result != NCCL_IN_PROGRESS)) {
		give_back(comm, FLIGHT_GONE);
		return;
	}
	/* NCCL has given an address again, and we have not seen the end of the one before. */
	stale = flight_comm_of(handle);
	if (stale && stale != comm)
		give_back(stale, FLIGHT_GONE);
	name(comm, handle);
	if (result == NCCL_IN_PROGRESS) {
		comm->nonblocking = 1;
		return;
	}
	comms_learn(comm, handle, caller);
	comms_settle(comm);
	set_state(comm, FLIGHT_LIVE);
	flight_file_hurry(true);
}

void flight_comm_made(struct flight_comm *comm, void **handle, int result, const void *caller)
{
	int saved = errno;

	if (!comm || !flight_page())
		return;
	guard_enter();
	/* In a group NCCL has it only at the end. */
	if ((result != NCCL_SUCCESS && result != NCCL_IN_PROGRESS) || !flight_group_making(comm, handle))
		comms_finish(comm, handle ? *handle : NULL, result, caller);
	guard_leave();
	errno = saved;
}

void flight_comm_settled(void *handle, const void *caller)
{
	struct flight_comm *comm = flight_comm_of(handle);
	int saved = errno;

	if (!comm)
		return;
	uint32_t state = atomic_load_explicit(&comm->state, memory_order_relaxed);
	if (state != FLIGHT_MAKING &&
		!atomic_load_explicit(&comms_private(comm)->unsettled, memory_order_relaxed))
		return;
	guard_enter();
	comms_settle(comm);
	/* Once, by the thread that is first. */
	if (state == FLIGHT_MAKING &&
		atomic_compare_exchange_strong_explicit(&comm->state, &state, FLIGHT_LIVE, memory_order_release,
												memory_order_relaxed))
		comms_learn(comm, handle, caller);
	guard_leave();
	errno = saved;
}

/* ---- ended ---- */

void flight_comm_ending(void *handle, enum flight_state state)
{
	struct flight_comm *comm = flight_comm_of(handle);
	int saved = errno;

	/* Within the operation of a destroy, but not in what NCCL calls of its own. */
	if (!comm || flight_thread.inside > 1)
		return;
	if (state == FLIGHT_ENDING)
		set_state(comm, FLIGHT_ENDING);
	else
		give_back(comm, state);
	errno = saved;
}

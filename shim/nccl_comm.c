/* nccl_comm.c - see nccl_comm.h. */
#include "nccl_comm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

/* Jobs have some, or some dozen when they mix kinds of parallelism. */
#define COMMS 512
#define PROBES 32

/* Values of `handle` that are no communicator's. */
#define FREE 0u
#define GONE 1u

struct nccl_comm {
	/* Moved from FREE or GONE to a handle by compare-and-swap, back to GONE by nccl_comm_gone(). Release when
	 * the rest is the new one's; acquire. */
	_Atomic uintptr_t handle;
	_Atomic uint32_t number;             /* relaxed; 0: never used */
	_Atomic uint32_t calls[NCCL_ORDERS]; /* relaxed */
	_Atomic uintptr_t inside; /* the thread that is in a call, relaxed: only its own value means anything */
	_Atomic uint64_t ranks;   /* rank << 32 | ranks; 0: not known; relaxed, it is all in one */
} __attribute__((aligned(64)));

static struct nccl_comm comms[COMMS];
static _Atomic uint32_t numbers; /* given so far */

static unsigned home_of(uintptr_t handle)
{
	return (unsigned)((uint64_t)handle * UINT64_C(0x9e3779b97f4a7c15) >> 55);
}
_Static_assert(COMMS == 1 << (64 - 55), "home_of() gives an index");

/* An element of its own for `handle`, in place of `was`. */
static bool claim(struct nccl_comm *c, uintptr_t was, uintptr_t handle)
{
	/* Not to be found by its handle before it is the new one's: GONE + 1 is nobody's, for handles are
	 * aligned. */
	if (!atomic_compare_exchange_strong_explicit(&c->handle, &was, GONE + 1, memory_order_acquire,
												 memory_order_relaxed))
		return false;
	for (unsigned i = 0; i < NCCL_ORDERS; i++)
		atomic_store_explicit(&c->calls[i], 0, memory_order_relaxed);
	atomic_store_explicit(&c->inside, 0, memory_order_relaxed);
	atomic_store_explicit(&c->ranks, 0, memory_order_relaxed);
	atomic_store_explicit(&c->number, atomic_fetch_add_explicit(&numbers, 1, memory_order_relaxed) + 1,
						  memory_order_relaxed);
	atomic_store_explicit(&c->handle, handle, memory_order_release);
	return true;
}

/* NULL and *room: it is not there, but could be put in *room, if that is not NULL. */
static struct nccl_comm *find(uintptr_t want, struct nccl_comm **room, uintptr_t *was)
{
	unsigned home = home_of(want);

	*room = NULL;
	for (unsigned i = 0; i < PROBES; i++) {
		struct nccl_comm *c = &comms[(home + i) % COMMS];
		uintptr_t is = atomic_load_explicit(&c->handle, memory_order_acquire);
		if (is == want)
			return c;
		if (!*room && (is == FREE || is == GONE)) {
			*room = c;
			*was = is;
		}
		if (is == FREE)
			break;
	}
	return NULL;
}

struct nccl_comm *nccl_comm_get(const void *handle)
{
	uintptr_t want = (uintptr_t)handle, was;
	struct nccl_comm *c, *room;

	if (want <= GONE + 1)
		return NULL;
	/* A place that another thread takes meanwhile is one less to lose. */
	for (unsigned tries = 0; tries < PROBES; tries++) {
		c = find(want, &room, &was);
		if (c || !room)
			return c;
		if (claim(room, was, want))
			return room;
	}
	return NULL;
}

void nccl_comm_gone(const void *handle)
{
	uintptr_t want = (uintptr_t)handle;
	unsigned home = home_of(want);

	for (unsigned i = 0; i < PROBES && want > GONE + 1; i++) {
		struct nccl_comm *c = &comms[(home + i) % COMMS];
		uintptr_t is = want;
		if (atomic_compare_exchange_strong_explicit(&c->handle, &is, GONE, memory_order_release,
													memory_order_relaxed) ||
			is == FREE)
			return;
	}
}

uint32_t nccl_comm_enter(struct nccl_comm *c, enum nccl_order order)
{
	uintptr_t me = (uintptr_t)pthread_self();

	if (atomic_load_explicit(&c->inside, memory_order_relaxed) == me)
		return 0;
	atomic_store_explicit(&c->inside, me, memory_order_relaxed);
	return atomic_fetch_add_explicit(&c->calls[order], 1, memory_order_relaxed) + 1;
}

void nccl_comm_leave(struct nccl_comm *c)
{
	atomic_store_explicit(&c->inside, 0, memory_order_relaxed);
}

uint32_t nccl_comm_number(const struct nccl_comm *c)
{
	return atomic_load_explicit(&c->number, memory_order_relaxed);
}

bool nccl_comm_has_ranks(const struct nccl_comm *c)
{
	return atomic_load_explicit(&c->ranks, memory_order_relaxed) != 0;
}

void nccl_comm_set_ranks(struct nccl_comm *c, uint32_t rank, uint32_t ranks)
{
	atomic_store_explicit(&c->ranks, (uint64_t)rank << 32 | ranks, memory_order_relaxed);
}

bool nccl_comm_ranks(uint32_t number, uint32_t *rank, uint32_t *ranks)
{
	for (unsigned i = 0; i < COMMS && number; i++) {
		if (atomic_load_explicit(&comms[i].number, memory_order_relaxed) != number)
			continue;
		uint64_t both = atomic_load_explicit(&comms[i].ranks, memory_order_relaxed);
		*rank = (uint32_t)(both >> 32);
		*ranks = (uint32_t)both;
		/* It may have become another one's meanwhile. */
		return both && atomic_load_explicit(&comms[i].number, memory_order_acquire) == number;
	}
	return false;
}

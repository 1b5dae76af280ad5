/* ring_slots.c - taking slots of a ring and giving them back, without a lock. */
#include "real.h"
#include "ring.h"

/*
 * Holds the slot if it is free. *passed is the ticket of the fence that was seen passed
 * last: the slots of one copy share it and need asking once. Not the event itself, which
 * another copy may have recorded anew since, in front of this very slot.
 */
static bool try_take(struct copy_slot *s, uint64_t *passed)
{
	int was = atomic_load_explicit(&s->state, memory_order_relaxed);
	if (was != SLOT_FREE && was != SLOT_IN_FLIGHT)
		return false;
	if (!atomic_compare_exchange_strong_explicit(&s->state, &was, SLOT_HELD, memory_order_acquire,
												 memory_order_relaxed))
		return false;
	if (was == SLOT_FREE || s->ticket == *passed)
		return true;
	/* Held while asking, so no lock is needed around the driver call. */
	if (REAL(cuEventQuery)(s->fence) == CUDA_SUCCESS) {
		*passed = s->ticket;
		return true;
	}
	atomic_store_explicit(&s->state, SLOT_IN_FLIGHT, memory_order_release);
	return false;
}

unsigned ring_take(struct copy_ring *ring, struct copy_slot **out, unsigned want, unsigned least)
{
	uint64_t passed = 0;
	unsigned got = 0;
	for (unsigned i = 0; i < ring->slots && got < want; i++) {
		if (try_take(&ring->slot[i], &passed)) {
			out[got++] = &ring->slot[i];
		} else if (got >= least) {
			break; /* a shorter run will do */
		} else {
			ring_give(out, got, NULL);
			got = 0;
		}
	}
	if (got >= least)
		return got;
	ring_give(out, got, NULL);
	return 0;
}

static void give(struct copy_slot **slots, unsigned n, CUevent fence, int state)
{
	static _Atomic uint64_t tickets; /* relaxed: only that no two are equal counts */
	uint64_t ticket = atomic_fetch_add_explicit(&tickets, 1, memory_order_relaxed) + 1;
	for (unsigned i = 0; i < n; i++) {
		slots[i]->fence = fence;
		slots[i]->ticket = ticket;
		atomic_store_explicit(&slots[i]->state, state, memory_order_release);
	}
}

void ring_give(struct copy_slot **slots, unsigned n, CUevent fence)
{
	give(slots, n, fence, fence ? SLOT_IN_FLIGHT : SLOT_FREE);
}

void ring_lose(struct copy_slot **slots, unsigned n)
{
	give(slots, n, NULL, SLOT_LOST);
}

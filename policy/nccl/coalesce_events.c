/* coalesce_events.c - see coalesce_events.h. */
#include "coalesce_events.h"

#include <sched.h>
#include <stddef.h>

/* PyTorch makes one a collective that is in flight and uses them again; those that find no place are never queued. */
#define EVENT_BITS 13
#define PROBES 16
#define FREE 0u
#define GONE 1u
#define RECORDING (UINT64_C(1) << 63)

static struct held_event events[(1 << EVENT_BITS) + PROBES];

static struct held_event *home_of(CUevent event)
{
	return &events[(uint64_t)(uintptr_t)event * UINT64_C(0x9e3779b97f4a7c15) >> (64 - EVENT_BITS)];
}

struct held_event *coalesce_events_find(CUevent event)
{
	struct held_event *home = home_of(event);

	for (unsigned i = 0; i < PROBES && (uintptr_t)event > GONE; i++) {
		uintptr_t is = atomic_load_explicit(&home[i].event, memory_order_acquire);
		if (is == (uintptr_t)event)
			return &home[i];
		if (is == FREE)
			break;
	}
	return NULL;
}

/* Not to be found before it is whole, and by nobody else taken: GONE + 1 is no event's address. */
static bool claim(struct held_event *place)
{
	uintptr_t is = atomic_load_explicit(&place->event, memory_order_relaxed);

	return is <= GONE && atomic_compare_exchange_strong_explicit(&place->event, &is, GONE + 1,
																 memory_order_acquire, memory_order_relaxed);
}

void coalesce_events_made(CUevent event, unsigned flags, CUcontext ctx)
{
	struct held_event *home = home_of(event);

	/* It was destroyed unseen, with its context. */
	coalesce_events_gone(event);
	if (flags & CU_EVENT_INTERPROCESS)
		return;
	for (unsigned i = 0; i < PROBES; i++)
		if (claim(&home[i])) {
			atomic_store_explicit(&home[i].ctx, (uintptr_t)ctx, memory_order_relaxed);
			atomic_store_explicit(&home[i].timed, !(flags & CU_EVENT_DISABLE_TIMING), memory_order_relaxed);
			atomic_store_explicit(&home[i].queued, 0, memory_order_relaxed);
			atomic_store_explicit(&home[i].event, (uintptr_t)event, memory_order_release);
			return;
		}
}

void coalesce_events_gone(CUevent event)
{
	struct held_event *place = coalesce_events_find(event);

	if (!place)
		return;
	for (uint64_t is = atomic_load_explicit(&place->queued, memory_order_acquire); is;) {
		/* A call of the driver that does not wait. */
		if (is & RECORDING) {
			sched_yield();
			is = atomic_load_explicit(&place->queued, memory_order_acquire);
		} else if (atomic_compare_exchange_weak_explicit(&place->queued, &is, 0, memory_order_acq_rel,
														 memory_order_acquire))
			break;
	}
	atomic_store_explicit(&place->event, GONE, memory_order_release);
}

bool coalesce_events_queued(CUevent event)
{
	const struct held_event *place = coalesce_events_find(event);

	return place && atomic_load_explicit(&place->queued, memory_order_acquire);
}

void coalesce_events_queue(struct held_event *place, uint64_t number)
{
	atomic_store_explicit(&place->queued, number, memory_order_release);
}

bool coalesce_events_begin(struct held_event *place, uint64_t number)
{
	return atomic_compare_exchange_strong_explicit(&place->queued, &number, number | RECORDING,
												   memory_order_acq_rel, memory_order_relaxed);
}

void coalesce_events_recorded(struct held_event *place)
{
	atomic_store_explicit(&place->queued, 0, memory_order_release);
}

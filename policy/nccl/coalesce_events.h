/*
 * coalesce_events.h - the program's events that may be recorded behind all-gathers which wait to be launched.
 *
 * Only those that cuEventCreate made in sight of us and that no other process sees; of those that have a time nothing is known
 * but that this process alone records them. An event that is queued is not over; who asks takes no lock. Any thread, no lock, no driver call.
 */
#ifndef TURBO_COALESCE_EVENTS_H
#define TURBO_COALESCE_EVENTS_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct held_event {
	_Atomic uintptr_t event; /* release when the rest is its; acquire */
	_Atomic uintptr_t ctx;   /* it was made in, relaxed */
	_Atomic bool timed;      /* it may be asked for its time, so it is never queued; relaxed */
	/*
	 * The number of the record that is queued for it, 0: none. With RECORDING, by compare-and-swap, while who launches makes
	 * that record; then 0, release: who finds 0 asks a driver that has the record. A record that finds another number here
	 * was overtaken by a later one, or its event has been destroyed: it is not made.
	 */
	_Atomic uint64_t queued;
};

void coalesce_events_made(CUevent event, unsigned flags, CUcontext ctx);
/* It is about to be destroyed, and a record that is queued for it is not made. Waits for one that is being made. */
void coalesce_events_gone(CUevent event);

/* NULL: not one of them. */
struct held_event *coalesce_events_find(CUevent event);
bool coalesce_events_queued(CUevent event);

/* Whoever holds the batch. `number` is never given twice and never 0. */
void coalesce_events_queue(struct held_event *event, uint64_t number);
/* True: the record is to be made now, and coalesce_events_recorded() follows. */
bool coalesce_events_begin(struct held_event *event, uint64_t number);
void coalesce_events_recorded(struct held_event *event);

#endif

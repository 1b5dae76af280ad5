/*
 * events.h - libturbo's own doings, told to whoever records a timeline.
 *
 * Policies and hook bodies tell; the recorder (cupti/) drains. Neither knows the other. While nobody records,
 * telling is one load and a branch. The queue is bounded and never waits: what does not fit is counted.
 */
#ifndef TURBO_EVENTS_H
#define TURBO_EVENTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum event_id {
#define EVENT(id, name, unit, text) EVENT_##id,
#include "events.def"
#undef EVENT
	EVENT_COUNT
};

struct event {
	uint64_t start;    /* ns, CLOCK_REALTIME */
	uint64_t duration; /* ns */
	uint64_t value;
	uint32_t id;               /* enum event_id */
	uint32_t thread;           /* Linux thread id */
	uint32_t sequence, detail; /* of collectives: number in the communicator, and communicator's number */
	const char *name;          /* NULL: the name in events.def; else a string that lives for ever */
	bool failed;
};

/* Written by events_start/stop, relaxed: an event more or less at the edges does not matter. */
extern _Atomic bool events_on __attribute__((visibility("hidden")));

static inline bool events_wanted(void)
{
	return __builtin_expect(atomic_load_explicit(&events_on, memory_order_relaxed), 0);
}

/* Now, or 0 while nobody records. */
uint64_t events_begin(void);
/* From `since`, as events_begin() gave it (0: nothing is told), until now. Any thread; keeps errno; allocates
 * nothing, takes no lock. */
void events_end(enum event_id id, uint64_t since, uint64_t value, bool failed);
void events_tell(const struct event *e);

/* The recorder's side; one thread at a time drains. */
bool events_start(void);
void events_stop(void);
/* Takes up to `most` events out; returns how many. */
unsigned events_drain(struct event *to, unsigned most);
/* How many did not fit, since the last call. */
uint64_t events_lost(void);
void events_fork_child(void);

#endif

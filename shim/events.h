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
#include <stddef.h>
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
	uint32_t id;     /* enum event_id */
	uint32_t thread; /* Linux thread id */
	/* Of collectives: number in the communicator (sends and receives apart), communicator's number
	 * (nccl_comm.h), and ncclDataType_t, below 65536. Of staged copies `detail` is the device's index + 1. */
	uint32_t sequence, detail, type;
	const char *name; /* NULL: the name in events.def; else a string that lives for ever */
	bool failed;
};

/* Written by events_start/stop, relaxed: an event more or less at the edges does not matter. */
extern _Atomic bool events_on __attribute__((visibility("hidden")));

static inline bool events_wanted(void)
{
	return __builtin_expect(atomic_load_explicit(&events_on, memory_order_relaxed), 0);
}

uint64_t events_now(void);    /* ns, CLOCK_REALTIME */
uint32_t events_thread(void); /* this thread's number */
/* Now, or 0 while nobody records. */
static inline uint64_t events_begin(void)
{
	return events_wanted() ? events_now() : 0;
}

/*
 * Telling. Any thread and any signal handler; keeps errno; allocates nothing, takes no lock, never waits. A
 * thread that vanishes in the middle costs its own event.
 */
void events_tell(const struct event *e);
/* This thread's `id`, from `since` until now; `name` as in struct event. */
void events_tell_span(enum event_id id, uint64_t since, uint64_t value, const char *name, bool failed);
/* From `since`, as events_begin() gave it (0: nothing is told), until now. */
static inline void events_end(enum event_id id, uint64_t since, uint64_t value, bool failed)
{
	if (__builtin_expect(since != 0, 0))
		events_tell_span(id, since, value, NULL, failed);
}

/* The recorder's side: these four by one thread at a time. What an earlier recording left is thrown away at
 * the start; false: no memory. */
bool events_start(void);
/* Nothing more is wanted; what was told can still be drained. */
void events_stop(void);
/* Takes up to `most` events out, in the order in which they were begun to be told; returns how many. */
unsigned events_drain(struct event *to, unsigned most);
/* How many were not delivered since the last call: there was no room, or their thread did not finish telling
 * them within a second. */
uint64_t events_lost(void);
/* Nobody records in a forked child. Async-signal-safe. */
void events_fork_child(void);

#endif

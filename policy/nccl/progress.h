/*
 * progress.h - how far the GPU got: when the operations that the flight record holds began and ended there.
 *
 * The issuing thread puts an event before and one behind each launch (an operation, or a whole group), on the
 * caller's own stream and never into a capture; the sampler, a thread of its own, asks the driver about them and
 * stores what it learns in the record. It is the only thread here that calls the driver unasked, and nobody waits
 * for it: while it is stuck there, flight_page.sampled stands still, and that is seen. (It stands still, too, when
 * nothing that can be followed has been issued for a while.)
 *
 * flight_comm.started and .done are only ever raised, with compare-and-swap: by the sampler, and by flight.c over
 * operations that do not run by themselves (captured, refused, done by the time they return).
 */
#ifndef TURBO_PROGRESS_H
#define TURBO_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "flight_page.h"

/* Before the real call, of an operation that is not in a group, or of a group's end for each (communicator,
 * stream) in it. Returns a launch's number, 0 when it cannot be followed (capture, no events, no room).
 * Issuing thread, inside the guard. */
uint32_t progress_before(struct flight_comm *comm, void *stream);
/* After it, whatever became of it: the launch holds operation `index` of that communicator, and those before it that are
 * of the same group. */
void progress_after(uint32_t launch, uint64_t index);

/* A call on a stream that captures: it runs when a graph does that comes of the capture (graphs.h). `bytes`: of a
 * collective call, and 0 of any other, which ranks may make differently. Issuing thread, inside the guard. */
void progress_captured(struct flight_comm *comm, void *stream, bool collective, uint64_t bytes);

/*
 * The program's thread is about to wait for the GPU, and does no longer: hook bodies of the calls that may. Nests;
 * the outermost one is shown. Some 15 ns while there is a communicator, else a load and a branch. Keeps errno.
 */
extern _Atomic bool progress_waits_shown __attribute__((visibility("hidden")));
void progress_wait_begin_shown(enum flight_wait_kind kind);
void progress_wait_end_shown(void);
/* Answers what progress_wait_end() is to be given. */
static inline bool progress_wait_begin(enum flight_wait_kind kind)
{
	if (__builtin_expect(!atomic_load_explicit(&progress_waits_shown, memory_order_relaxed), 1))
		return false;
	progress_wait_begin_shown(kind);
	return true;
}
static inline void progress_wait_end(bool begun)
{
	if (__builtin_expect(begun, 0))
		progress_wait_end_shown();
}

void progress_start(void); /* first communicator: starts the sampler */
void progress_stop(void);  /* the process exits: no driver call any more */
void progress_context_gone(void *ctx, int device);
void progress_quiet(bool on);
void progress_fork_child(void);

#endif

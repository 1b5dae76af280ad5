/*
 * progress.h - how far the GPU got: when the operations that the flight record holds began and ended there.
 *
 * The issuing thread puts an event before and one behind each launch (an operation, or a whole group), on the
 * caller's own stream and never into a capture; the sampler, a thread of its own, asks the driver about them and
 * stores what it learns in the record. It is the only thread here that calls the driver unasked, and nobody waits
 * for it: while it is stuck there, flight_page.sampled stands still, and that is seen.
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
/* After it: the launch holds the operations up to `index` of that communicator. */
void progress_after(uint32_t launch, uint64_t index);

/* CUDA graphs whose capture held collectives: see graphs.c. */
void progress_captured(struct flight_comm *comm, void *stream);

/* The program's thread is about to wait for the GPU, and does no longer: shim's bodies of the synchronising calls. */
void progress_wait_begin(enum flight_wait_kind kind);
void progress_wait_end(void);

void progress_start(void); /* first communicator: starts the sampler */
void progress_context_gone(void *ctx, int device);
void progress_quiet(bool on);
void progress_fork_child(void);

#endif

/*
 * sampler.h - the thread that asks the driver how far the GPU got.
 *
 * It alone asks, in relaxed capture mode, and nobody waits for it but who ends a context, for at most one second.
 * While it is stuck in the driver flight_page.sampled stands still.
 */
#ifndef TURBO_NCCL_SAMPLER_H
#define TURBO_NCCL_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#define SAMPLER_TICK_MS 50
/* With many launches open, so that they are free again before there are none left. */
#define SAMPLER_FAST_MS 5
#define SAMPLER_MANY 512
/* Looks without anything to look at before it sleeps until it is woken, which costs the issuing thread a system
 * call: a job that calls NCCL every two seconds pays that once. */
#define SAMPLER_IDLE 40

/* False: there is no thread. */
bool sampler_start(void);
/* A launch was pushed. One load, unless the sampler sleeps. */
void sampler_wake(void);
/* The watch's thread, at each poll: while the sampler sleeps there is nothing to ask, so what was last said stands. */
void sampler_tick(void);
/* No driver call until quiet(false): waits for the one it is in, at most one second. Nests. */
void sampler_quiet(bool on);
/* No driver call any more; does not wait. */
void sampler_stop(void);
void sampler_fork_child(void);

#endif

/*
 * coalesce_timer.h - the thread that launches what nobody else does.
 *
 * While all-gathers come it wakes by the clock; without any for some time it sleeps until it is woken.
 */
#ifndef TURBO_COALESCE_TIMER_H
#define TURBO_COALESCE_TIMER_H

#include <stdbool.h>
#include <stdint.h>

/* Starts it, once. False: there is no thread to be had. Any thread, inside the guard. */
bool coalesce_timer_start(void);
/* Something is pending now: stored before this. */
void coalesce_timer_wake(void);
/* A thread that must not launch itself wants it done: the next look does it. */
void coalesce_timer_hurry(void);
/* It makes no call of the driver from now on, unless it is in one. Nests. */
void coalesce_timer_quiet(bool on);
bool coalesce_timer_is_quiet(void);
void coalesce_timer_fork_child(void);

/* coalesce_launching.c: launches what is due, or all, if nobody else is about to. */
void coalesce_due(bool hurry);

#endif

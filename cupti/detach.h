/*
 * detach.h - CUPTI out of the process again, once recording has stopped.
 *
 * Disabled activities leave some 1.6 µs on every launch; only cuptiFinalize() takes that away. NVIDIA names one safe
 * place for it: the exit callback of a driver call. So a subscription is made, for as long as it takes until the
 * program's next driver call returns. Only while nobody but libturbo has used CUPTI, and no graph was instantiated.
 */
#ifndef TURBO_CUPTI_DETACH_H
#define TURBO_CUPTI_DETACH_H

#include <stdbool.h>

enum detach {
	DETACH_NOT,   /* nothing was begun */
	DETACH_ARMED, /* at the next driver call */
	DETACH_NOW,   /* in this moment, on a thread of the program's */
	DETACH_DONE,  /* CUPTI is out; starting again is possible */
	DETACH_KEPT   /* it stays: somebody else uses it, or it is not wanted */
};

/* The helper, after client_stop(). */
enum detach detach_begin(void);
enum detach detach_state(void);
/* CUPTI is needed again: takes back what has not happened, waits for what happens just now (a second at most). */
void detach_cancel(void);
/* Forked child. Async-signal-safe. */
void detach_fork_child(void);

#endif

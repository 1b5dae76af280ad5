/*
 * watch_tell.h - what the watch does about findings: one process speaks for all, each acts for itself.
 *
 * The watch's thread alone.
 */
#ifndef TURBO_WATCH_TELL_H
#define TURBO_WATCH_TELL_H

#include <stdbool.h>
#include <stdint.h>

#include "world.h"

struct watch_tell {
	struct flight_page *page;
	bool acts;
	uint64_t timeout;
	bool (*ended)(void); /* the process exits: nothing is waited for any more */
	bool alone;          /* nobody else has looked: this process tells */
};

uint64_t watch_now(void);

/* The findings of a look at w->judge: told if this process is the one to, acted on. */
void watch_tell(const struct watch_tell *t, struct world *w, const struct judge_finding *found,
				unsigned count);

/* Another process asks for the stacks of this one: they are put into the page. */
void watch_answer(const struct watch_tell *t, struct world *w);

#endif

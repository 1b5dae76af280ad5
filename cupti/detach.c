/* detach.c - see detach.h. */
#include "detach.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "bind.h"
#include "capture.h"
#include "foreign.h"
#include "graphs.h"
#include "guard.h"
#include "hooks.h"
#include "options.h"
#include "stats.h"
#include "times.h"

#define PATIENCE_NS 1000000000ull

static _Atomic int state; /* enum detach; ARMED to NOW or NOT by compare-and-swap: one of the two happens */
static void *subscriber;  /* written before ARMED */

enum detach detach_state(void)
{
	return (enum detach)atomic_load(&state);
}

static void on_call(void *arg, uint32_t domain, uint32_t callback, const void *data)
{
	const struct cupti_callback_data *d = data;
	int armed = DETACH_ARMED;
	bool done = false;
	(void)arg;
	(void)callback;
	if (domain != CUPTI_DOMAIN_DRIVER || d->site != CUPTI_SITE_EXIT || capture_live() ||
		!atomic_compare_exchange_strong(&state, &armed, DETACH_NOW))
		return;
	guard_enter();
	if (graphs_used())
		cupti.Unsubscribe(subscriber);
	else
		done = cupti.Finalize() == CUPTI_OK;
	if (done)
		stats_add(STATS_TIMELINE_DETACHED, 1);
	guard_leave();
	atomic_store(&state, done ? DETACH_DONE : DETACH_KEPT);
}

enum detach detach_begin(void)
{
	if (option_get(OPT_TIMELINE_DETACH) == 0 || foreign_ever() || graphs_used() ||
		cupti.Subscribe(&subscriber, on_call, NULL) != CUPTI_OK) {
		atomic_store(&state, DETACH_KEPT);
		return DETACH_KEPT;
	}
	atomic_store(&state, DETACH_ARMED);
	if (cupti.EnableDomain(1, subscriber, CUPTI_DOMAIN_DRIVER) != CUPTI_OK) {
		detach_cancel();
		atomic_store(&state, DETACH_KEPT);
	}
	return detach_state();
}

void detach_cancel(void)
{
	uint64_t since = times_steady();
	struct timespec nap = {0, 100000};
	int armed = DETACH_ARMED;
	if (atomic_compare_exchange_strong(&state, &armed, DETACH_NOT)) {
		cupti.Unsubscribe(subscriber);
		return;
	}
	while (atomic_load(&state) == DETACH_NOW && times_steady() - since < PATIENCE_NS)
		nanosleep(&nap, NULL);
}

void detach_fork_child(void)
{
	atomic_store(&state, DETACH_NOT);
}

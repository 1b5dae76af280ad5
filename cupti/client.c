/* client.c - see client.h. */
#include "client.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bind.h"
#include "buffers.h"
#include "capture.h"
#include "client_kinds.h"
#include "detach.h"
#include "foreign.h"
#include "gap.h"
#include "graphs.h"
#include "log.h"
#include "stats.h"
#include "times.h"

#define NAP_NS 100000
#define PATIENCE_NS 1000000000ull
#define QUIET_NS 2000000000ull

static _Atomic int state;          /* enum client; seq_cst with `inside` */
static _Atomic unsigned inside;    /* between client_enter() and client_leave(); seq_cst with `quiet`, too */
static _Atomic unsigned quiet;     /* client_quiet() calls */
static struct client_setup wanted; /* written while MOVING */

enum client client_state(void)
{
	return (enum client)atomic_load(&state);
}

static void nap(void)
{
	struct timespec t = {0, NAP_NS};
	nanosleep(&t, NULL);
}

static void settle(enum client to)
{
	int moving = CLIENT_MOVING;
	atomic_compare_exchange_strong(&state, &moving, (int)to); /* DEAD stays */
}

/* From `from` to MOVING, waiting for another thread's move. false: the state is something else. */
static bool move_from(enum client from)
{
	uint64_t since = times_steady();
	for (;;) {
		int s = (int)from;
		if (atomic_compare_exchange_strong(&state, &s, CLIENT_MOVING))
			return true;
		if (s != CLIENT_MOVING || times_steady() - since > PATIENCE_NS)
			return false;
		nap();
	}
}

/* No call of the helper's is under way. */
static void wait_for_helper(void)
{
	uint64_t since = times_steady();
	while (atomic_load(&inside) && times_steady() - since < PATIENCE_NS)
		nap();
}

void client_quiet(bool on)
{
	if (!on) {
		atomic_fetch_sub(&quiet, 1);
		return;
	}
	atomic_fetch_add(&quiet, 1);
	wait_for_helper();
}

bool client_enter(void)
{
	atomic_fetch_add(&inside, 1);
	if (atomic_load(&state) == CLIENT_ON && !atomic_load(&quiet))
		return true;
	client_leave();
	return false;
}

void client_leave(void)
{
	atomic_fetch_sub(&inside, 1);
}

/* ---- is anybody there? ---- */

static void no_callback(void *arg, uint32_t domain, uint32_t callback, const void *data)
{
	(void)arg;
	(void)domain;
	(void)callback;
	(void)data;
}

/* Tools outside this process's libcupti (Nsight, a debugger) and clients that our hooks have missed show here alone. */
static cupti_result probe(char *other, size_t size)
{
	struct cupti_subscriber_params params = {sizeof(params), "libturbo", other, size};
	void *subscriber = NULL;
	cupti_result r;
	other[0] = '\0';
	if (cupti.Subscribe_v2)
		r = cupti.Subscribe_v2(&subscriber, no_callback, NULL, &params);
	else
		r = cupti.Subscribe(&subscriber, no_callback, NULL);
	if (r == CUPTI_OK)
		cupti.Unsubscribe(subscriber);
	other[size - 1] = '\0';
	return r;
}

static void explain(cupti_result r, const char *other, char *why, size_t size)
{
	if (r == CUPTI_OTHER_CLIENT)
		snprintf(why, size, "another tool uses CUPTI%s%s", *other ? ": " : "", other);
	else if (r == CUPTI_NO_PRIVILEGE || r == CUPTI_NO_PRIVILEGE_VIRTUAL)
		snprintf(why, size,
				 "the driver lets administrators alone profile (%s): its module option "
				 "NVreg_RestrictProfilingToAdminUsers=0, or CAP_SYS_ADMIN for the container, allows it",
				 cupti_text(r));
	else
		snprintf(why, size, "CUPTI says %s (%d)", cupti_text(r), r);
}

/* ---- on and off; MOVING ---- */

static cupti_result switch_on(void)
{
	cupti_result r = cupti.ActivityRegisterCallbacks(buffers_requested, buffers_completed);
	if (r != CUPTI_OK)
		return r;
	kinds_settings(true, wanted.mode == TIMELINE_MODE_LAUNCH);
	buffers_ours(true);
	r = kinds_on(wanted.mode, wanted.whole_graphs);
	if (r != CUPTI_OK) {
		kinds_off();
		buffers_ours(false);
		kinds_settings(false, false);
	}
	return r;
}

static void switch_off(void)
{
	kinds_off();
	if (buffers_asked())
		cupti.ActivityFlushAll(CUPTI_FLUSH_FORCED);
	buffers_ours(false);
	kinds_settings(false, false);
}

#define GRAPHS_FORBID                                                                            \
	"graphs were made after others had been recorded whole, and CUPTI would crash on them (use " \
	"TURBO_TIMELINE_GRAPHS=nodes)"

static bool start_moving(char *why, size_t why_size)
{
	char other[64];
	cupti_result r = CUPTI_OK;
	if (foreign_busy()) {
		gap_begin(GAP_CLIENT);
		settle(CLIENT_AWAY);
		return true;
	}
	other[0] = '\0';
	if (!graphs_may_resume()) {
		snprintf(why, why_size, GRAPHS_FORBID);
		settle(CLIENT_OFF);
		return false;
	}
	if (!foreign_holds_subscription())
		r = probe(other, sizeof(other));
	if (r == CUPTI_OK)
		r = switch_on();
	if (r == CUPTI_OK) {
		settle(CLIENT_ON);
		return true;
	}
	explain(r, other, why, why_size);
	settle(CLIENT_OFF);
	return false;
}

bool client_start(const struct client_setup *setup, char *why, size_t why_size)
{
	if (!buffers_start()) {
		snprintf(why, why_size, "no memory for CUPTI's buffers");
		return false;
	}
	detach_cancel();
	if (!move_from(CLIENT_OFF)) {
		snprintf(why, why_size, "it is recording already");
		return false;
	}
	wanted = *setup;
	times_forget();
	return start_moving(why, why_size);
}

void client_stop(void)
{
	if (move_from(CLIENT_ON)) {
		wait_for_helper();
		switch_off();
		settle(CLIENT_OFF);
	} else if (move_from(CLIENT_AWAY)) {
		gap_end(GAP_CLIENT);
		settle(CLIENT_OFF);
	}
}

/* ---- aside, and back ---- */

void client_yield(void)
{
	foreign_begin();
	detach_cancel();
	if (!move_from(CLIENT_ON))
		return;
	wait_for_helper();
	switch_off();
	gap_begin(GAP_CLIENT);
	settle(CLIENT_AWAY);
	stats_add(STATS_TIMELINE_YIELDS, 1);
	log_info("timeline: another CUPTI client is at work; recording pauses");
}

/* Its clock may stay behind when a client has gone: two looks, TIMES_APART_NS apart, before the first record. */
static bool clock_settled(void)
{
	struct timeline_clock clock;
	switch (times_look(&clock)) {
	case TIMES_REAL: return true;
	case TIMES_FOREIGN:
		log_once(LOG_INFO, "timeline: another client has left its own clock in CUPTI; times are converted");
		return true;
	case TIMES_USELESS:
		log_once(LOG_WARN,
				 "timeline: another client has left a clock in CUPTI that is none; recording cannot go on");
		return false;
	default: return false;
	}
}

void client_resume(void)
{
	char other[64];
	cupti_result r = CUPTI_OK;
	if (foreign_busy() || foreign_quiet_ns() < QUIET_NS || capture_live() || !move_from(CLIENT_AWAY))
		return;
	if (!foreign_holds_subscription())
		r = probe(other, sizeof(other));
	if (r != CUPTI_OK || foreign_busy() || !clock_settled()) {
		settle(CLIENT_AWAY);
		return;
	}
	if (!graphs_may_resume()) {
		log_once(LOG_WARN, "timeline: recording does not go on: " GRAPHS_FORBID);
		settle(CLIENT_AWAY);
		return;
	}
	r = switch_on();
	if (r != CUPTI_OK) {
		log_once(LOG_WARN, "timeline: recording cannot go on: CUPTI says %s", cupti_text(r));
		settle(CLIENT_AWAY);
		return;
	}
	gap_end(GAP_CLIENT);
	settle(CLIENT_ON);
	log_info("timeline: recording goes on");
}

void client_dead(void)
{
	atomic_store(&state, CLIENT_DEAD);
	atomic_store(&inside, 0);
	atomic_store(&quiet, 0);
}

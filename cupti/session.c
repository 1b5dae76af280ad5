/* session.c - see session.h. */
#include "session.h"

#include <stdatomic.h>
#include <unistd.h>

#include <cuda.h>

#include "bind.h"
#include "buffers.h"
#include "client.h"
#include "detach.h"
#include "device.h"
#include "events.h"
#include "gap.h"
#include "log.h"
#include "memory.h"
#include "options.h"
#include "real.h"
#include "recording.h"
#include "sampled.h"
#include "session_events.h"
#include "stats.h"
#include "times.h"
#include "watch.h"

#define SECOND 1000000000ull
#define MB_AUTO 256
#define MB_LEAST 1

static _Atomic bool on; /* relaxed: a hint for others than the helper */
static enum timeline_mode mode;
static uint64_t last_second; /* CLOCK_MONOTONIC of the last full tick */

bool session_on(void)
{
	return atomic_load_explicit(&on, memory_order_relaxed);
}

static bool open_file(bool on_demand, const char *dir, char *why, size_t why_size)
{
	static struct timeline_device device[TIMELINE_DEVICES];
	int64_t mb = option_get(OPT_TIMELINE_MB);
	int driver = 0;
	struct recording_setup setup = {
		.mode = mode,
		.on_demand = on_demand,
		.dir = dir,
		.bytes = (uint64_t)(mb == OPTION_AUTO ? MB_AUTO : mb) << 20,
		.least_bytes = (uint64_t)MB_LEAST << 20,
		.cupti_version = cupti.version,
		.device = device,
	};
	REAL(cuDriverGetVersion)(&driver);
	setup.driver_version = (uint32_t)driver;
	setup.device_count = device_describe(device, TIMELINE_DEVICES);
	return recording_open(&setup, why, why_size);
}

static bool client_begin(char *why, size_t why_size)
{
	struct client_setup setup = {
		.mode = mode,
		.whole_graphs = option_get(OPT_TIMELINE_GRAPHS) == 0,
	};
	return client_start(&setup, why, why_size);
}

/* A reading of the clocks, before anything refers to it. */
static void tell_clock(void)
{
	struct timeline_clock clock;
	enum times t = times_look(&clock);
	if ((t == TIMES_REAL || t == TIMES_FOREIGN) && recording_begin()) {
		recording_clock(&clock);
		recording_end();
	}
}

bool session_start(enum timeline_mode wanted, bool on_demand, const char *dir, char *why, size_t why_size)
{
	mode = wanted;
	if (!cupti_bind(why, why_size) || !open_file(on_demand, dir, why, why_size))
		return false;
	if (!client_begin(why, why_size)) {
		recording_close();
		unlink(recording_path());
		return false;
	}
	if (!events_start())
		log_info("timeline: no memory for libturbo's own events");
	last_second = times_steady();
	watch_start();
	sampled_start(mode);
	tell_clock();
	atomic_store_explicit(&on, true, memory_order_relaxed);
	stats_add(STATS_TIMELINE_SESSIONS, 1);
	log_info("timeline: recording into %s", recording_path());
	return true;
}

static void tell_end(void)
{
	char why[128];
	if (recording_trouble(why, sizeof(why)))
		log_warn("timeline: recording into %s has ended: %s", recording_path(), why);
	else
		log_info("timeline: recorded into %s", recording_path());
}

void session_stop(bool exiting)
{
	if (!session_on())
		return;
	atomic_store_explicit(&on, false, memory_order_relaxed);
	events_stop();
	if (client_enter()) {
		tell_clock();
		client_leave();
	}
	watch_stop();
	sampled_account();
	client_stop();
	session_drain_events();
	gap_end_all();
	recording_close();
	if (exiting)
		detach_cancel(); /* a sample's end may just have begun it */
	else
		detach_begin();
	tell_end();
}

/* ---- each second ---- */

static void count_lost(void)
{
	size_t dropped = 0;
	if (cupti.ActivityGetNumDroppedRecords(NULL, 0, &dropped) == CUPTI_OK && dropped)
		recording_count(TIMELINE_COUNT_CUPTI_LOST, dropped);
}

/* Calls of CUPTI; another client may come at any time, and then they must not be made. */
static void fetch(void)
{
	if (!client_enter())
		return;
	tell_clock();
	if (buffers_asked()) {
		cupti.ActivityFlushAll(0);
		count_lost();
	}
	client_leave();
}

/* CUPTI's buffers of the last second. */
static void each_second(uint64_t now)
{
	last_second = now;
	if (client_state() == CLIENT_AWAY)
		client_resume();
	fetch();
	watch_tick();
	memory_sample();
}

void session_tick(void)
{
	uint64_t now = times_steady();
	session_drain_events();
	buffers_grow();
	sampled_tick(client_begin);
	if (now - last_second >= SECOND)
		each_second(now);
	recording_save();
	if (!recording_is_open())
		session_stop(false);
}

void session_fork_child(void)
{
	atomic_store_explicit(&on, false, memory_order_relaxed);
}

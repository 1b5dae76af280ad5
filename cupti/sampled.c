/* sampled.c - see sampled.h. */
#include "sampled.h"

#include "capture.h"
#include "client.h"
#include "detach.h"
#include "gap.h"
#include "log.h"
#include "options.h"
#include "recording.h"
#include "times.h"
#include "watch.h"

#define WINDOW_NS 1000000000ull
#define PERCENT_AUTO 10

static bool sampling;
static uint64_t next;    /* when the window or the pause ends, CLOCK_MONOTONIC */
static uint64_t counted; /* up to here */
static uint64_t jitter = 88172645463325252ull;

/* Up to an eighth longer or shorter. */
static uint64_t pause_ns(void)
{
	int64_t percent = option_get(OPT_TIMELINE_PERCENT);
	uint64_t share = percent == OPTION_AUTO ? PERCENT_AUTO : (uint64_t)percent;
	uint64_t pause = WINDOW_NS * (100 - share) / share;
	jitter ^= jitter << 13;
	jitter ^= jitter >> 7;
	jitter ^= jitter << 17;
	return pause - pause / 8 + jitter % (pause / 4 + 1);
}

void sampled_start(enum timeline_mode mode)
{
	sampling = mode == TIMELINE_MODE_SAMPLED;
	counted = times_steady();
	next = counted + WINDOW_NS;
	jitter ^= counted;
}

void sampled_account(void)
{
	uint64_t now = times_steady();
	if (!sampling)
		return;
	recording_count(TIMELINE_COUNT_SAMPLED_NS, now - counted);
	if (client_state() == CLIENT_ON)
		recording_count(TIMELINE_COUNT_SAMPLED_ON_NS, now - counted);
	counted = now;
}

void sampled_tick(sampled_begin *begin)
{
	char why[512];
	uint64_t now = times_steady();
	sampled_account();
	/* CUPTI neither comes nor goes while a graph is captured. */
	if (!sampling || now < next || capture_live())
		return;
	if (client_state() != CLIENT_OFF) {
		watch_stop();
		gap_begin(GAP_SAMPLED);
		client_stop();
		detach_begin();
		next = now + pause_ns();
		return;
	}
	if (begin(why, sizeof(why))) {
		gap_end(GAP_SAMPLED);
		watch_start();
	} else {
		log_once(LOG_WARN, "timeline: a sample was left out: %s", why);
	}
	next = now + WINDOW_NS;
}

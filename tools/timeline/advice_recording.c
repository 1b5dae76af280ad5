/*
 * advice_recording.c - a report that is about little of the time: what to look at instead.
 */
#include "advice.h"

#include <string.h>

#define MOST 0.5

static double unseen_share(const struct advice_case *c)
{
	return units_ratio((double)c->gpu->time.unseen_ns, (double)c->gpu->time.window_ns);
}

static uint64_t paused(const struct advice_case *c)
{
	return c->gpu->idle[REPORT_IDLE_PAUSE].ns;
}

struct window {
	char text[64];
};

/* What --window takes; it begins and ends inside. */
static struct window window_of(const struct report_gpu *g)
{
	struct window w;
	bool fine = g->stretch_end - g->stretch_start < 100000000;
	uint64_t unit = fine ? 1000 : 1000000;
	double start = (double)((g->stretch_start + unit - 1) / unit), end = (double)(g->stretch_end / unit);
	if (fine)
		snprintf(w.text, sizeof(w.text), "%.0fus..%.0fus", start, end);
	else
		snprintf(w.text, sizeof(w.text), "%.3f..%.3f", start / 1e3, end / 1e3);
	return w;
}

/* ---- not recorded ---- */

static double unseen_cost(const struct advice_case *c)
{
	double share = unseen_share(c);
	return share >= MOST ? ADVICE_NO_COST * (1 + share) : 0;
}

static void unseen_say(const struct advice_case *c, struct report_finding *f)
{
	const struct report_rank *r = c->rank;
	const struct report_gap *longest = NULL;
	bool sampled = r->mode == TIMELINE_MODE_SAMPLED;
	for (unsigned i = 0; i < r->gaps; i++)
		if (!longest || r->gap[i].duration > longest->duration)
			longest = &r->gap[i];
	if (sampled) /* as it was asked for */
		f->severity = REPORT_NOTE;
	f->title = metrics_text("Most of the time was not recorded");
	f->evidence =
		metrics_text("%s of %s were recorded; %s gap%s, the longest %s: %.60s.", units_time(c->seen).s,
					 units_time((double)c->gpu->time.window_ns).s, units_count(r->gap_count).s,
					 r->gap_count == 1 ? "" : "s", units_time(longest ? (double)longest->duration : 0).s,
					 longest ? longest->reason : "unknown");
	f->fix = metrics_text(
		"turbo report --window %s is about the longest part that was recorded whole. %s",
		window_of(c->gpu).text,
		sampled ? "TURBO_TIMELINE=kernel records all of the time."
				: "For more, record without another CUPTI client (torch.profiler, Nsight) beside it.");
}

/* ---- nothing to do ---- */

static double paused_cost(const struct advice_case *c)
{
	double window = (double)c->gpu->time.window_ns;
	double share = units_ratio((double)(c->gpu->time.unseen_ns + paused(c)), window);
	return share >= MOST && paused(c) && unseen_share(c) < MOST ? ADVICE_NO_COST * (1 + share) : 0;
}

static void paused_say(const struct advice_case *c, struct report_finding *f)
{
	const struct report_bucket *b = &c->gpu->idle[REPORT_IDLE_PAUSE];
	f->title = metrics_text("Most of the time the GPU had nothing to do");
	f->evidence = metrics_text(
		"%s pause%s of a second and more take %s of the %s that were recorded; shares of the time say little about "
		"the rest.",
		units_count(b->count).s, b->count == 1 ? "" : "s", units_time((double)b->ns).s,
		units_time(c->seen).s);
	f->fix = metrics_text("turbo report --window %s is about the longest part without a pause.",
						  window_of(c->gpu).text);
}

const struct advice_rule advice_recording_rules[] = {
	{"mostly-unseen", 0, unseen_cost, unseen_say, REPORT_WARN, NULL, NULL, NULL},
	{"mostly-paused", 0, paused_cost, paused_say, REPORT_WARN, NULL, NULL, NULL},
	{NULL, 0, NULL, NULL, REPORT_NOTE, NULL, NULL, NULL},
};

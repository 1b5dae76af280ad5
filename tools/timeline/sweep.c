/*
 * sweep.c - how long which kinds of operation were active together.
 *
 * Intervals come in order of their start, so at any time a kind is active until the latest end of its
 * intervals so far: one number a kind is all the state there is.
 */
#include <string.h>

#include "metrics.h"

#define UNSEEN (1u << SWEEP_UNSEEN)
#define BIT(category) (1u << (category))

static void init_series(struct report_series *series, unsigned bins, uint64_t start, uint64_t bin_ns)
{
	series->bins = bins;
	series->start = start;
	series->bin_ns = bin_ns;
	for (unsigned c = 0; c < REPORT_CATEGORIES; c++)
		series->exposed[c] = metrics_alloc(bins, sizeof(float));
	series->overlap = metrics_alloc(bins, sizeof(float));
	series->unseen = metrics_alloc(bins, sizeof(float));
}

void sweep_init(struct sweep *s, struct report_gpu *g, uint64_t start, uint64_t end, unsigned split)
{
	uint64_t bin_ns = sweep_bin_ns(start, end, split);
	*s = (struct sweep){.origin = start, .series = &g->series, .bin_ns = bin_ns / split};
	s->bins = REPORT_BINS * split;
	s->bin_end = start + s->bin_ns;
	init_series(s->series, REPORT_BINS, start, bin_ns);
	if (split == 1)
		return;
	s->fine = &g->fine;
	init_series(s->fine, s->bins, start, s->bin_ns);
}

/* The category that a set of active ones counts as, the one named first in report.h; or none. */
static int leader(unsigned mask)
{
	for (int c = 0; c < REPORT_CATEGORIES; c++)
		if (mask & BIT(c))
			return c;
	return -1;
}

static bool overlaps(unsigned mask)
{
	return (mask & BIT(REPORT_COMPUTE)) && (mask & BIT(REPORT_COMMUNICATION));
}

/* What was active in `share` of a bin. */
static void add_share(struct report_series *series, unsigned bin, unsigned mask, float share)
{
	int c = leader(mask);
	*(c < 0 ? &series->unseen[bin] : &series->exposed[c][bin]) += share;
	if (overlaps(mask))
		series->overlap[bin] += share;
}

static void close_bin(struct sweep *s)
{
	unsigned split = s->bins / REPORT_BINS;
	for (unsigned m = 1; m < SWEEP_MASKS; m++) {
		if (!s->in_bin[m])
			continue;
		float share = (float)((double)s->in_bin[m] / (double)s->bin_ns);
		if (s->bin < s->bins) {
			add_share(s->series, s->bin / split, m, share / (float)split);
			if (s->fine)
				add_share(s->fine, s->bin, m, share);
		}
		s->total[m] += s->in_bin[m];
		s->in_bin[m] = 0;
	}
	s->total[0] += s->in_bin[0];
	s->in_bin[0] = 0;
	/* Nothing is drawn behind the last bin, so it does not end. */
	s->bin++;
	s->bin_end = s->bin < s->bins ? s->bin_end + s->bin_ns : UINT64_MAX;
}

static void account(struct sweep *s, unsigned mask, uint64_t from, uint64_t to)
{
	while (to > s->bin_end) {
		s->in_bin[mask] += s->bin_end - from;
		from = s->bin_end;
		close_bin(s);
	}
	s->in_bin[mask] += to - from;
}

void sweep_begin(struct sweep *s, uint64_t start)
{
	s->begun = true;
	s->now = start;
	uint64_t bin = (start - s->origin) / s->bin_ns;
	s->bin = bin < s->bins ? (unsigned)bin : s->bins;
	s->bin_end = s->bin < s->bins ? s->origin + (s->bin + 1ull) * s->bin_ns : UINT64_MAX;
}

void sweep_to(struct sweep *s, uint64_t time)
{
	while (s->now < time) {
		unsigned mask = 0;
		uint64_t next = time;
		for (unsigned k = 0; k < SWEEP_KINDS; k++)
			if (s->end[k] > s->now) {
				mask |= 1u << k;
				if (s->end[k] < next)
					next = s->end[k];
			}
		account(s, mask, s->now, next);
		s->now = next;
	}
}

uint64_t sweep_idle(const struct sweep *s)
{
	return s->total[0] + s->in_bin[0];
}

void sweep_mark(struct sweep *s, uint64_t time)
{
	sweep_to(s, time);
	s->marked_at = time;
	for (unsigned m = 0; m < SWEEP_MASKS; m++)
		s->marked[m] = s->total[m] + s->in_bin[m];
}

void sweep_end(struct sweep *s, uint64_t end, struct report_time *out)
{
	if (!s->begun)
		return;
	sweep_to(s, end);
	close_bin(s);
	if (s->now > end && s->marked_at == end)
		memcpy(s->total, s->marked, sizeof(s->total));
	out->idle_ns = s->total[0];
	out->unseen_ns = s->total[UNSEEN];
	for (unsigned m = 1; m < SWEEP_MASKS; m++) {
		int c = leader(m);
		out->window_ns += s->total[m];
		if (c < 0)
			continue;
		out->busy_ns += s->total[m];
		out->exposed_ns[c] += s->total[m];
		if (overlaps(m))
			out->overlap_ns += s->total[m];
		for (unsigned k = 0; k < REPORT_CATEGORIES; k++)
			if (m & BIT(k))
				out->category_ns[k] += s->total[m];
	}
	out->window_ns += s->total[0];
}

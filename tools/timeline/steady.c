/*
 * steady.c - how a program runs once it runs. What the first batches, the heap's growth or a compiler cost is seen
 * once, and says nothing about a job of hours; so advice about what happens all the time looks here.
 */
#include <stdlib.h>

#include "metrics.h"

#define STEADY_STEPS 4    /* begins after a quarter of the steps … */
#define STEADY_SHARE 0.5  /* … or after this share of the operations */
#define SPANS_MOST 65536u /* gaps that are told apart */

/* ---- spans ---- */

void spans_add(struct spans *s, uint64_t start, uint64_t end)
{
	struct span *last = s->count ? &s->item[s->count - 1] : NULL;
	if (end <= start)
		return;
	if (last && (start <= last->end || s->count == SPANS_MOST)) {
		last->end = end > last->end ? end : last->end;
		return;
	}
	if (s->count == s->room) {
		s->room = s->room ? 2 * s->room : 16;
		s->item = metrics_grow(s->item, s->room, sizeof(*s->item));
	}
	s->item[s->count++] = (struct span){start, end};
}

uint64_t spans_within(const struct spans *s, uint64_t from, uint64_t to)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < s->count; i++) {
		uint64_t start = s->item[i].start > from ? s->item[i].start : from;
		uint64_t end = s->item[i].end < to ? s->item[i].end : to;
		sum += end > start ? end - start : 0;
	}
	return sum;
}

/* ---- */

static void add(struct report_bucket *to, const struct report_bucket *from)
{
	to->count += from->count;
	to->ns += from->ns;
}

static void add_input(struct report_steady *to, const struct report_bucket *from, uint64_t longest)
{
	add(&to->input, from);
	if (longest > to->input_max_ns)
		to->input_max_ns = longest;
}

/* The first bin that counts. */
static unsigned begins(const struct steady_bin *bin, const struct report_gpu *g)
{
	const struct report_series *s = &g->series;
	uint64_t begun = 0;
	unsigned b = 0;
	if (g->steps.count) {
		uint64_t start = g->steps.start[g->steps.count / STEADY_STEPS] - s->start;
		return (unsigned)((start + s->bin_ns - 1) / s->bin_ns);
	}
	for (; b < REPORT_BINS && (double)begun < STEADY_SHARE * (double)g->operations; b++)
		begun += bin[b].operations;
	return b;
}

void steady_report(const struct steady_bin *bin, const struct steady_calls *calls, const struct spans *unseen,
				   bool pauses, struct report_gpu *g)
{
	struct report_steady *out = &g->steady;
	unsigned first = begins(bin, g);
	uint64_t paused = 0;
	out->start = g->series.start + first * g->series.bin_ns;
	if (out->start > g->last)
		out->start = g->last;
	for (unsigned b = first; b < REPORT_BINS; b++) {
		add_input(out, &bin[b].input, bin[b].input_max);
		if (pauses)
			paused += bin[b].pause.ns;
		else
			add_input(out, &bin[b].pause_input, bin[b].pause_input_max);
		add(&out->alloc, &calls[b].alloc);
		add(&out->released, &calls[b].released);
		out->alloc_bytes += calls[b].alloc_bytes;
	}
	uint64_t ns = g->last - out->start, left = spans_within(unseen, out->start, g->last) + paused;
	out->ns = ns > left ? ns - left : 0;
	for (unsigned i = 0, gone = 0; i < g->steps.count; i++) {
		bool unseen_one = gone < g->steps.unseen && g->steps.unseen_at[gone] == i;
		gone += unseen_one;
		out->steps += g->steps.start[i] >= out->start && !unseen_one;
	}
}

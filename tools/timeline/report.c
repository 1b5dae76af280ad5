/*
 * report.c - all ranks together.
 */
#include <stdlib.h>
#include <string.h>

#include "metrics.h"

#define TOP_DEFAULT 20
#define STRAGGLER_LEAST 0.05 /* longer than the median */
/* What a device's clock and the start of a copy make of its time is up to a microsecond each. */
#define RATE_LEAST_NS 20000
#define RATE_LEAST_EACH_NS 4000
#define COMMUNICATION_LEAST 0.03 /* share of the window: ranks that hardly talk do not wait for each other */

struct watch {
	const struct report_options *o;
	uint64_t done, total;
};

static void progress(void *arg, uint64_t records)
{
	struct watch *w = arg;
	w->done += records;
	w->o->progress(w->o->progress_arg, w->done, w->total);
}

/* The span of all. */
static void find_window(struct report *r, struct trace **traces, unsigned count,
						const struct report_options *o)
{
	uint64_t start = UINT64_MAX, end = 0;
	for (unsigned i = 0; i < count; i++) {
		uint64_t first, last;
		if (!trace_span(traces[i], &first, &last))
			continue;
		start = first < start ? first : start;
		end = last > end ? last : end;
	}
	if (start > end)
		return;
	r->origin_ns = start;
	r->window_end = end - start;
	r->window_asked = o->window_end != 0;
	if (!r->window_asked)
		return;
	r->window_start = o->window_start < r->window_end ? o->window_start : r->window_end;
	r->window_end = o->window_end < r->window_end ? o->window_end : r->window_end;
}

static void add_time(struct report_time *to, const struct report_time *from)
{
	to->window_ns += from->window_ns;
	to->busy_ns += from->busy_ns;
	to->idle_ns += from->idle_ns;
	to->unseen_ns += from->unseen_ns;
	to->overlap_ns += from->overlap_ns;
	for (unsigned c = 0; c < REPORT_CATEGORIES; c++) {
		to->category_ns[c] += from->category_ns[c];
		to->exposed_ns[c] += from->exposed_ns[c];
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

/*
 * Ranks that meet in collectives take the same time for a step: the slow one works, the others wait for it in
 * their collectives. So the one with the most time outside of exposed communication is the slow one.
 */
static void find_straggler(struct report *r)
{
	double *own = metrics_alloc(r->ranks, sizeof(*own)), *sorted = metrics_alloc(r->ranks, sizeof(*own));
	unsigned n = 0, slowest = 0;
	double waiting = 0;
	r->straggler = -1;
	for (unsigned i = 0; i < r->ranks; i++) {
		if (!r->rank[i].gpus)
			continue;
		const struct report_time *t = &r->rank[i].gpu[0].time;
		double seen = (double)(t->window_ns - t->unseen_ns), step = (double)r->rank[i].gpu[0].steps.median_ns;
		double exposed = seen > 0 ? (double)t->exposed_ns[REPORT_COMMUNICATION] / seen : 1;
		own[i] = (1 - exposed) * (step > 0 ? step : 1);
		sorted[n++] = own[i];
		if (own[i] > own[slowest])
			slowest = i;
		waiting = exposed > waiting ? exposed : waiting;
	}
	qsort(sorted, n, sizeof(*sorted), by_value);
	double median = n % 2 ? sorted[n / 2] : n ? sorted[n / 2 - 1] : 0; /* of two: the faster one */
	if (n >= 2 && median > 0 && waiting >= COMMUNICATION_LEAST &&
		own[slowest] / median - 1 >= STRAGGLER_LEAST) {
		r->straggler = (int)slowest;
		r->straggler_excess = own[slowest] / median - 1;
	}
	free(own);
	free(sorted);
}

double report_rate(uint64_t bytes, uint64_t ns, uint64_t count)
{
	bool tells = ns >= RATE_LEAST_NS && ns / RATE_LEAST_EACH_NS >= count;
	return tells ? (double)bytes / (double)ns : 0;
}

uint64_t report_memory(const struct report_gpu *g)
{
	return g->memory_process_peak ? g->memory_process_peak : g->memory_peak;
}

static void find_imbalance(struct report *r)
{
	double sum = 0, most = 0;
	unsigned n = 0;
	for (unsigned i = 0; i < r->ranks; i++)
		for (unsigned k = 0; k < r->rank[i].gpus; k++) {
			double peak = (double)report_memory(&r->rank[i].gpu[k]);
			if (peak <= 0)
				continue;
			sum += peak;
			most = peak > most ? peak : most;
			n++;
		}
	if (n >= 2)
		r->memory_imbalance = most * n / sum;
}

/* Devices that did something, by the streams that the file names. */
static unsigned devices(const struct trace *t)
{
	uint64_t seen = 0;
	for (uint32_t i = 0; i < trace_lanes(t); i++)
		if (trace_lane(t, i)->kind == TIMELINE_LANE_STREAM)
			seen |= 1ull << (trace_lane(t, i)->device % 64);
	return (unsigned)__builtin_popcountll(seen);
}

static unsigned fine_split(struct trace **traces, unsigned count)
{
	unsigned gpus = 0;
	for (unsigned i = 0; i < count; i++)
		gpus += devices(traces[i]);
	unsigned split = REPORT_FINE_BINS / REPORT_BINS / (gpus ? gpus : 1);
	return split > REPORT_FINE_SPLIT ? REPORT_FINE_SPLIT : split ? split : 1;
}

struct report *report_make(struct trace **traces, unsigned count, const struct report_options *o)
{
	struct report *r = metrics_alloc(1, sizeof(*r));
	struct kernel_table all = {0};
	struct watch watch = {.o = o};
	r->top = o->top ? o->top : TOP_DEFAULT;
	find_window(r, traces, count, o);
	for (unsigned i = 0; i < count; i++)
		watch.total += trace_records(traces[i]);
	r->rank = metrics_alloc(count, sizeof(*r->rank));
	r->ranks = count;
	struct pass_window w = {r->origin_ns, r->window_start, r->window_end, r->window_asked, 1};
	if (o->fine)
		w.split = fine_split(traces, count);
	for (unsigned i = 0; i < count; i++) {
		pass_rank(traces[i], &w, r->top, &r->rank[i], &all, o->progress ? progress : NULL, &watch);
		for (unsigned k = 0; k < r->rank[i].gpus; k++)
			add_time(&r->time, &r->rank[i].gpu[k].time);
	}
	kernels_report(&all, r->top, &r->kernels);
	kernels_free(&all);
	find_straggler(r);
	find_imbalance(r);
	advice_give(r);
	verdict_give(r);
	return r;
}

/* ---- */

void tallies_free(struct report_tallies *t)
{
	for (unsigned i = 0; i < t->count; i++)
		free(t->item[i].name);
	free(t->item);
	*t = (struct report_tallies){0};
}

static void free_kernels(struct report_kernels *k)
{
	for (unsigned i = 0; i < k->count; i++) {
		free(k->item[i].name);
		free(k->item[i].short_name);
	}
	free(k->item);
}

static void free_series(struct report_series *s)
{
	for (unsigned c = 0; c < REPORT_CATEGORIES; c++)
		free(s->exposed[c]);
	free(s->overlap);
	free(s->unseen);
}

static void free_gpu(struct report_gpu *g)
{
	free_series(&g->series);
	free_series(&g->fine);
	for (unsigned i = 0; i < g->counters; i++) {
		free(g->counter[i].name);
		free(g->counter[i].value);
	}
	free(g->counter);
	free(g->stream);
	free(g->steps.anchor);
	free(g->steps.start);
	free(g->steps.unseen_at);
	free(g->name);
}

static void free_rank(struct report_rank *r)
{
	for (unsigned i = 0; i < r->gpus; i++)
		free_gpu(&r->gpu[i]);
	for (unsigned i = 0; i < r->collectives; i++)
		free(r->collective[i].function);
	for (unsigned i = 0; i < r->gaps; i++)
		free(r->gap[i].reason);
	free_kernels(&r->kernels);
	tallies_free(&r->calls);
	tallies_free(&r->syncs);
	tallies_free(&r->events);
	tallies_free(&r->overheads);
	free(r->gpu);
	free(r->collective);
	free(r->gap);
	free(r->path);
	free(r->host);
	free(r->command);
	free(r->version);
	free(r->options);
}

void report_free(struct report *r)
{
	if (!r)
		return;
	for (unsigned i = 0; i < r->ranks; i++)
		free_rank(&r->rank[i]);
	for (unsigned i = 0; i < r->findings; i++) {
		free(r->finding[i].title);
		free(r->finding[i].evidence);
		free(r->finding[i].fix);
		free(r->finding[i].option);
	}
	free(r->finding);
	free_kernels(&r->kernels);
	free(r->rank);
	free(r->verdict);
	free(r);
}

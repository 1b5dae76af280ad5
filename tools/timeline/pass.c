/*
 * pass.c - one trace, from its first record to its last.
 */
#include <stdlib.h>
#include <string.h>

#include "metrics.h"

#define PROGRESS_EVERY 65536

uint32_t *pass_slot(struct pass *p, const struct trace_event *e)
{
	return e->entry_index && e->entry->kind == e->kind ? &p->slot[e->entry_index] : &p->odd_slot[e->kind];
}

struct pass_gpu *pass_gpu(struct pass *p, uint32_t device)
{
	for (unsigned i = 0; i < p->gpus; i++)
		if (p->gpu[i]->out.device == device || i == PASS_GPUS - 1)
			return p->gpu[i];
	const struct timeline_header *h = trace_header(p->trace);
	struct pass_gpu *g = metrics_alloc(1, sizeof(*g));
	g->out.device = device;
	if (device < h->device_count) {
		g->out.memory_bytes = h->device[device].memory_bytes;
		g->out.name = metrics_text("%s", h->device[device].name);
	} else {
		g->out.name = metrics_text("unknown device");
	}
	sweep_init(&g->sweep, &g->out, p->window_start, p->window_end, p->split);
	g->sweep.end[SWEEP_UNSEEN] = p->unseen_until;
	if (p->window_asked)
		sweep_begin(&g->sweep, p->window_start);
	steps_init(&g->steps, trace_entries(p->trace), p->window_end);
	g->bin = metrics_alloc(REPORT_BINS, sizeof(*g->bin));
	p->gpu[p->gpus++] = g;
	return g;
}

static void describe(struct pass *p, uint64_t origin)
{
	const struct timeline_header *h = trace_header(p->trace);
	struct report_rank *r = p->out;
	r->path = metrics_text("%s", trace_path(p->trace));
	r->host = metrics_text("%s", h->host);
	r->command = metrics_text("%s", h->command);
	r->version = metrics_text("%s", h->version_text);
	r->options = metrics_text("%s", h->options);
	r->pid = h->pid;
	r->rank = h->rank;
	r->ranks = h->ranks;
	r->local_rank = h->local_rank;
	r->mode = (enum timeline_mode)h->mode;
	r->on_demand = h->on_demand == 1;
	r->cupti_version = h->cupti_version;
	r->driver_version = h->driver_version;
	r->live = trace_live(p->trace);
	r->ended = h->end_ns != 0;
	r->start = (int64_t)h->start_ns - (int64_t)origin;
	r->end = (int64_t)h->end_ns - (int64_t)origin;
	r->records = trace_records(p->trace);
	memcpy(r->lost, h->count, sizeof(r->lost));
	r->sampled_share = 1;
	if (h->count[TIMELINE_COUNT_SAMPLED_NS])
		r->sampled_share =
			(double)h->count[TIMELINE_COUNT_SAMPLED_ON_NS] / (double)h->count[TIMELINE_COUNT_SAMPLED_NS];
}

static bool is_operation(enum timeline_kind kind)
{
	return kind == TIMELINE_KERNEL || kind == TIMELINE_COPY || kind == TIMELINE_MEMSET ||
		   kind == TIMELINE_GRAPH;
}

/*
 * CUPTI's clock is CLOCK_REALTIME, unless another client has given it another one and the recorder could not follow;
 * then its records are moved onto the clock of libturbo's own, as the exports do. Smaller differences are the
 * noise of reading two clocks.
 */
#define CLOCK_NOISE_NS 1000000
#define CLOCK_LOOK_NS 10000000

static int64_t clock_shift(struct pass *p, const struct trace_event *e)
{
	if (e->kind > TIMELINE_OVERHEAD)
		return 0;
	if (e->start >= p->shift_until) {
		int64_t shift = trace_clock_offset(p->trace, e->start);
		p->shift = shift > CLOCK_NOISE_NS || shift < -CLOCK_NOISE_NS ? shift : 0;
		p->shift_until = e->start + CLOCK_LOOK_NS;
	}
	return p->shift;
}

/*
 * A gap is recorded when it begins, without a duration, and again when it ends. Without the second, it
 * lasted until the recording ended.
 */
static bool half_gap(struct pass *p, const struct pass_event *e)
{
	if (p->open_gap && e->e->kind == TIMELINE_GAP && e->start + 1 == p->open_gap && e->end > e->start) {
		p->open_gap = 0;
		return false;
	}
	if (p->open_gap && e->start + 1 > p->open_gap) {
		uint64_t start = p->open_gap - 1;
		p->open_gap = 0;
		pass_gap(p, start, p->window_end, p->open_gap_reason);
	}
	if (e->e->kind != TIMELINE_GAP || e->end > e->start)
		return false;
	p->open_gap = e->start + 1;
	p->open_gap_reason = e->e->name;
	return true;
}

static void take(struct pass *p, const struct trace_event *e)
{
	int64_t start = (int64_t)(e->start - p->origin) + clock_shift(p, e);
	struct pass_event c = {.e = e, .start = start > 0 ? (uint64_t)start : 0};
	c.end = c.start + e->duration;
	if (half_gap(p, &c))
		return;
	if (e->kind == TIMELINE_API)
		pass_launch(p, &c);
	if (c.start < p->window_start) {
		if (c.end <= p->window_start)
			return;
		c.start = p->window_start;
	}
	if (c.start >= p->window_end && p->window_asked)
		return;
	if (c.end > p->window_end)
		c.end = c.start > p->window_end ? c.start : p->window_end;
	(is_operation(e->kind) ? pass_operation : pass_host)(p, &c);
}

static bool begin(struct pass *p, const struct pass_window *w)
{
	uint64_t first, last;
	uint32_t entries = trace_entries(p->trace), lanes = trace_lanes(p->trace);
	describe(p, w->origin);
	if (!trace_rewind(p->trace) || !trace_span(p->trace, &first, &last))
		return false;
	p->origin = w->origin;
	p->window_start = w->start;
	p->window_end = w->end;
	p->window_asked = w->asked;
	p->split = w->split;
	p->middle = w->start + (w->end - w->start) / 2;
	p->slot = metrics_alloc(entries, sizeof(*p->slot));
	for (uint32_t i = 0; i < entries; i++)
		p->slot[i] = PASS_NO_SLOT;
	for (unsigned i = 0; i < TIMELINE_KINDS; i++)
		p->odd_slot[i] = PASS_NO_SLOT;
	p->lane = metrics_alloc(lanes, sizeof(*p->lane));
	p->calls = metrics_alloc(REPORT_BINS, sizeof(*p->calls));
	p->cut = w->asked && w->end + w->origin < last;
	/* Of a window that was asked for, a device that did nothing in it is news. */
	for (uint32_t i = 0; w->asked && i < lanes; i++)
		if (trace_lane(p->trace, i)->kind == TIMELINE_LANE_STREAM)
			pass_gpu(p, trace_lane(p->trace, i)->device);
	return true;
}

static int by_device(const void *a, const void *b)
{
	const struct report_gpu *x = a, *y = b;
	return x->device < y->device ? -1 : x->device > y->device;
}

static int by_stream(const void *a, const void *b)
{
	const struct report_stream *x = a, *y = b;
	if (x->context != y->context)
		return x->context < y->context ? -1 : 1;
	return x->stream < y->stream ? -1 : x->stream > y->stream;
}

static void give_streams(struct pass *p, struct pass_gpu *g)
{
	unsigned n = 0;
	uint32_t lanes = trace_lanes(p->trace);
	for (uint32_t i = 0; i < lanes; i++)
		n += p->lane[i].gpu == g;
	g->out.stream = metrics_alloc(n, sizeof(*g->out.stream));
	for (uint32_t i = 0; i < lanes; i++) {
		if (p->lane[i].gpu != g)
			continue;
		struct report_stream *s = &g->out.stream[g->out.streams++];
		*s = p->lane[i].out;
		s->context = trace_lane(p->trace, i)->context;
		s->stream = trace_lane(p->trace, i)->stream;
	}
	qsort(g->out.stream, n, sizeof(*g->out.stream), by_stream);
}

/* To its device; to the first where it did nothing or is not known. */
static void give_staged(struct report_rank *r, uint32_t device, const struct report_copy *from)
{
	struct report_gpu *g = r->gpu;
	for (unsigned i = 0; i < r->gpus; i++)
		if (r->gpu[i].device == device)
			g = &r->gpu[i];
	for (unsigned d = 0; d < REPORT_DIRECTIONS; d++) {
		g->copy[d].staged_count += from[d].staged_count;
		g->copy[d].staged_bytes += from[d].staged_bytes;
		g->copy[d].staged_ns += from[d].staged_ns;
		g->copy[d].staged_unseen_count += from[d].staged_unseen_count;
		g->copy[d].staged_unseen_bytes += from[d].staged_unseen_bytes;
	}
}

static void end(struct pass *p, unsigned top, struct kernel_table *all)
{
	struct report_rank *r = p->out;
	r->damaged = trace_damaged(p->trace);
	pass_host_end(p);
	r->gpu = metrics_alloc(p->gpus, sizeof(*r->gpu));
	for (unsigned i = 0; i < p->gpus; i++) {
		struct pass_gpu *g = p->gpu[i];
		pass_gpu_end(p, g);
		give_streams(p, g);
		r->gpu[r->gpus++] = g->out;
		free(g);
	}
	qsort(r->gpu, r->gpus, sizeof(*r->gpu), by_device);
	for (uint32_t i = 0; r->gpus && i <= PASS_GPUS; i++)
		give_staged(r, i, p->staged[i]);
	kernels_report(&p->kernels, top, &r->kernels);
	kernels_merge(all, &p->kernels);
	kernels_free(&p->kernels);
	free(p->slot);
	free(p->lane);
	free(p->calls);
	free(p->unseen.item);
	free(p->launch);
}

void pass_rank(struct trace *t, const struct pass_window *w, unsigned top, struct report_rank *out,
			   struct kernel_table *all, pass_progress *progress, void *arg)
{
	struct pass p = {.trace = t, .out = out};
	struct trace_event e;
	uint64_t n = 0;
	if (!begin(&p, w))
		return;
	while (trace_next(t, &e)) {
		if (progress && ++n % PROGRESS_EVERY == 0)
			progress(arg, PROGRESS_EVERY);
		if (w->asked && p.shift == 0 && e.start - w->origin >= w->end)
			break;
		take(&p, &e);
	}
	if (p.open_gap)
		pass_gap(&p, p.open_gap - 1, w->end, p.open_gap_reason);
	end(&p, top, all);
}

/*
 * pass_gpu.c - operations of a device: kernels, copies, memsets, graphs.
 */
#include <stdlib.h>
#include <string.h>

#include "metrics.h"

#define INPUT_GAP_NS 100000 /* a shorter gap before a copy to the device is a late launch */
#define INPUT_BYTES 1024    /* a smaller copy is an argument, not a batch */
#define SHORT_NS 30000
#define SYNC_SLACK_NS 10000 /* clocks of host and device agree to this */
#define TINY_NS 10000
#define SMALL_BYTES 65536
#define SCALAR_BYTES 4096
#define PAUSE_NS 1000000000u /* longer than a batch is waited for */
#define PAUSES_MOST 5        /* of a GPU, else they are no exception */

/* CUpti_ActivityMemcpyKind and CUpti_ActivityMemoryKind. */
enum { HTOD = 1, DTOH, HTOA, ATOH, ATOA, ATOD, DTOA, DTOD, HTOH, PTOP };
enum { PAGEABLE = 1 };

const char *const report_idle_name[REPORT_IDLE_CLASSES] = {
	[REPORT_IDLE_PAUSE] = "pause",      [REPORT_IDLE_INPUT] = "input", [REPORT_IDLE_SYNC] = "sync",
	[REPORT_IDLE_ALLOC] = "allocation", [REPORT_IDLE_SHORT] = "short", [REPORT_IDLE_HOST] = "host",
};
const char *const report_direction_name[REPORT_DIRECTIONS] = {
	[REPORT_H2D] = "H2D", [REPORT_D2H] = "D2H",          [REPORT_D2D] = "D2D",
	[REPORT_P2P] = "P2P", [REPORT_COPY_OTHER] = "other",
};

static enum report_direction direction_of(const struct timeline_entry *entry)
{
	if (entry->kind != TIMELINE_COPY)
		return REPORT_COPY_OTHER;
	switch (entry->copy.direction) {
	case HTOD:
	case HTOA: return REPORT_H2D;
	case DTOH:
	case ATOH: return REPORT_D2H;
	case ATOA:
	case ATOD:
	case DTOA:
	case DTOD: return REPORT_D2D;
	case PTOP: return REPORT_P2P;
	default: return REPORT_COPY_OTHER;
	}
}

static bool pageable(const struct timeline_entry *entry, enum report_direction d)
{
	return (d == REPORT_H2D && entry->copy.from_kind == PAGEABLE) ||
		   (d == REPORT_D2H && entry->copy.to_kind == PAGEABLE);
}

static void count_copy(struct pass_gpu *g, const struct pass_event *e)
{
	enum report_direction d = direction_of(e->e->entry);
	struct report_copy *c = &g->out.copy[d];
	uint64_t ns = e->end - e->start;
	c->count++;
	c->bytes += e->e->value;
	c->ns += ns;
	c->small_count += e->e->value < SMALL_BYTES;
	if (pageable(e->e->entry, d)) {
		c->pageable_count++;
		c->pageable_bytes += e->e->value;
		c->pageable_ns += ns;
	}
}

static void count_traits(struct report_gpu *o, unsigned traits, uint64_t ns)
{
	if (traits & KERNEL_GEMM)
		o->gemm_ns += ns;
	if (traits & KERNEL_CONV)
		o->conv_ns += ns;
	if (traits & KERNEL_FP32) {
		o->fp32_ns += ns;
		o->fp32_count++;
	}
	if (traits & KERNEL_LAYOUT) {
		o->layout_ns += ns;
		o->layout_count++;
	}
	if (traits & KERNEL_SLOW_CONV) {
		o->slow_conv_ns += ns;
		o->slow_conv_count++;
	}
}

static const char *kernel_name(struct pass *p, const struct trace_event *e)
{
	if (e->kind == TIMELINE_GRAPH)
		return *e->name && e->entry->kind == TIMELINE_GRAPH ? e->name : "CUDA graph";
	return e->entry->kind == TIMELINE_KERNEL ? trace_demangled(p->trace, e->entry_index) : e->name;
}

static enum report_category count_kernel(struct pass *p, struct pass_gpu *g, const struct pass_event *e)
{
	uint32_t *slot = pass_slot(p, e->e);
	uint64_t ns = e->end - e->start;
	if (*slot == PASS_NO_SLOT)
		*slot = kernels_slot(&p->kernels, kernel_name(p, e->e));
	struct kernel_slot *n = &p->kernels.slot[*slot];
	hist_add(&n->hist, ns);
	if (e->e->kind == TIMELINE_GRAPH) {
		g->out.graphs++;
		return REPORT_COMPUTE;
	}
	g->out.kernels++;
	hist_add(&g->kernels, ns);
	if (ns < TINY_NS) {
		g->out.tiny_kernels++;
		g->out.tiny_ns += ns;
	}
	if (n->traits)
		count_traits(&g->out, n->traits, ns);
	return n->category;
}

static enum report_category count_operation(struct pass *p, struct pass_gpu *g, const struct pass_event *e)
{
	switch (e->e->kind) {
	case TIMELINE_COPY: count_copy(g, e); return REPORT_MEMORY;
	case TIMELINE_MEMSET:
		g->out.memsets++;
		g->out.memset_bytes += e->e->value;
		g->out.memset_ns += e->end - e->start;
		return REPORT_MEMORY;
	default: return count_kernel(p, g, e);
	}
}

/* ---- why it was idle ---- */

static enum report_idle why_idle(const struct pass *p, const struct pass_gpu *g, uint64_t gap,
								 const struct pass_event *next)
{
	const struct trace_event *e = next ? next->e : NULL;
	if (e && gap >= INPUT_GAP_NS && e->kind == TIMELINE_COPY && direction_of(e->entry) == REPORT_H2D &&
		e->value >= INPUT_BYTES)
		return REPORT_IDLE_INPUT;
	if (g->alloc_ns >= gap / 2 + 1)
		return REPORT_IDLE_ALLOC;
	if (g->after_d2h || (e && p->sync_until + SYNC_SLACK_NS >= g->busy_until &&
						 p->sync_until <= next->start && p->sync_until))
		return REPORT_IDLE_SYNC;
	return gap < SHORT_NS ? REPORT_IDLE_SHORT : REPORT_IDLE_HOST;
}

static void add_gap(struct report_bucket *to, uint64_t ns)
{
	to->count++;
	to->ns += ns;
}

static void count_idle(const struct pass *p, struct pass_gpu *g, const struct pass_event *next)
{
	uint64_t idle = sweep_idle(&g->sweep), gap = idle - g->idle_seen, limit = 10000;
	g->idle_seen = idle;
	if (!gap)
		return;
	enum report_idle class = why_idle(p, g, gap, next);
	struct steady_bin *bin = &g->bin[pass_bin(p, next ? next->start : p->window_end)];
	uint64_t *most = gap >= PAUSE_NS ? &bin->pause_input_max : &bin->input_max;
	add_gap(gap >= PAUSE_NS ? &g->pause[class] : &g->out.idle[class], gap);
	if (gap >= PAUSE_NS)
		add_gap(&bin->pause, gap);
	if (class == REPORT_IDLE_INPUT)
		add_gap(gap >= PAUSE_NS ? &bin->pause_input : &bin->input, gap);
	if (class == REPORT_IDLE_INPUT)
		*most = gap > *most ? gap : *most;
	unsigned b = 0;
	for (; b < REPORT_GAP_BUCKETS - 1 && gap >= limit; b++)
		limit *= 10;
	add_gap(&g->out.gap[b], gap);
}

/* A part of the window without pause and gap of the recording ends where the device was last busy. */
static void end_stretch(struct pass_gpu *g, uint64_t next)
{
	if (g->busy_until > g->stretch &&
		g->busy_until - g->stretch > g->out.stretch_end - g->out.stretch_start) {
		g->out.stretch_start = g->stretch;
		g->out.stretch_end = g->busy_until;
	}
	g->stretch = next;
}

/* What the host waits for before it goes on: a copy to pageable memory, or a scalar. */
static bool waited_for(const struct trace_event *e)
{
	return e->kind == TIMELINE_COPY && direction_of(e->entry) == REPORT_D2H &&
		   (!(e->flags & TIMELINE_FLAG_ASYNC) || e->value <= SCALAR_BYTES);
}

void pass_operation(struct pass *p, const struct pass_event *e)
{
	struct pass_lane *lane = &p->lane[e->e->lane_index];
	if (!lane->gpu)
		lane->gpu = pass_gpu(p, e->e->lane->device);
	struct pass_gpu *g = lane->gpu;
	if (!g->out.operations++) {
		g->out.first = g->stretch = e->start;
		if (!g->sweep.begun)
			sweep_begin(&g->sweep, e->start);
	}
	enum report_category category = count_operation(p, g, e);
	if (e->e->entry_index) /* 0 is no operation in particular */
		steps_add(&g->steps, e->e->entry_index, e->start,
				  e->e->kind == TIMELINE_KERNEL || e->e->kind == TIMELINE_GRAPH);
	g->bin[pass_bin(p, e->start)].operations++;
	sweep_add(&g->sweep, category, e->start, e->end);
	uint64_t idle = g->idle_seen;
	count_idle(p, g, e);
	if (g->idle_seen - idle >= PAUSE_NS || (p->unseen_until > g->busy_until && e->start >= p->unseen_until))
		end_stretch(g, e->start);
	p->tail_count = p->tail_ns = 0;
	if (e->end >= g->busy_until) {
		g->busy_until = e->end;
		g->after_d2h = waited_for(e->e);
		g->alloc_ns = p->alloc_until > e->end ? p->alloc_until - e->end : 0;
	}
	pass_stream(p, lane, e);
}

static char *anchor_name(struct pass *p, uint32_t entry)
{
	const struct timeline_entry *e = trace_entry(p->trace, entry);
	if (e->kind == TIMELINE_KERNEL)
		return kernel_short_name(trace_demangled(p->trace, entry));
	if (e->kind == TIMELINE_COPY)
		return metrics_text("%s copy", report_direction_name[direction_of(e)]);
	return metrics_text("%s", trace_name(p->trace, e->name));
}

/* What keeps coming back is how the program runs, however long it is; what does not is a pause. */
static bool settle_pauses(struct pass_gpu *g)
{
	uint64_t pauses = 0;
	for (unsigned i = 0; i < REPORT_IDLE_CLASSES; i++)
		pauses += g->pause[i].count;
	for (unsigned i = 0; i < REPORT_IDLE_CLASSES; i++) {
		struct report_bucket *to = &g->out.idle[pauses > PAUSES_MOST ? i : REPORT_IDLE_PAUSE];
		to->count += g->pause[i].count;
		to->ns += g->pause[i].ns;
	}
	return pauses <= PAUSES_MOST;
}

static void find_steps(struct pass *p, struct pass_gpu *g)
{
	struct report_gpu *o = &g->out;
	uint64_t left = o->time.unseen_ns + o->idle[REPORT_IDLE_PAUSE].ns, ns = o->time.window_ns - left;
	int64_t anchor = o->last > o->first ? steps_find(&g->steps, o->first, o->last, ns, &p->unseen) : -1;
	if (anchor < 0)
		return;
	steps_report(&g->steps, (uint32_t)anchor, ns, &p->unseen, &o->steps);
	o->steps.anchor = anchor_name(p, (uint32_t)anchor);
}

/* Where the device's window ends. What was not recorded after its last operation is no part of it. */
static uint64_t window_end(const struct pass *p, const struct pass_gpu *g)
{
	bool tail = p->tail_count && !p->cut && g->out.operations;
	return p->window_asked && !tail ? p->window_end : g->busy_until;
}

/* Nothing is drawn behind the last operation. */
static void end_series(struct report_series *s, uint64_t last)
{
	for (unsigned b = 0; b < s->bins; b++)
		if (s->start + b * s->bin_ns >= last)
			s->unseen[b] = 0;
}

void pass_gpu_end(struct pass *p, struct pass_gpu *g)
{
	struct report_gpu *o = &g->out;
	if (!o->operations)
		o->first = p->window_start;
	o->last = window_end(p, g);
	if (p->window_asked)
		o->first = p->window_start;
	if (o->last > g->busy_until) {
		sweep_to(&g->sweep, o->last);
		g->after_d2h = false;
		count_idle(p, g, NULL);
	}
	end_stretch(g, 0);
	bool pauses = settle_pauses(g);
	sweep_end(&g->sweep, o->last, &o->time);
	end_series(&o->series, o->last);
	end_series(&o->fine, o->last);
	o->kernel_sum_ns = g->kernels.sum;
	o->kernel_p50_ns = hist_quantile(&g->kernels, 0.5);
	find_steps(p, g);
	steady_report(g->bin, p->calls, &p->unseen, pauses, o);
	free(g->bin);
	hist_free(&g->kernels);
	steps_free(&g->steps);
}

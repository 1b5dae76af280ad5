/*
 * pass_host.c - records of host threads and of the recorder: calls, waits, events, collectives, gaps, samples.
 */
#include <stdlib.h>
#include <string.h>

#include "metrics.h"
#include "cupti/memory.h"
#include "shim/events.h"

#define SMALL_COLLECTIVE_BYTES 65536

static const char *const event_name[EVENT_COUNT] = {
#define EVENT(id, name, unit, text) [EVENT_##id] = name,
#include "shim/events.def"
#undef EVENT
};

static void add(struct report_tally *t, const struct pass_event *e)
{
	uint64_t ns = e->end - e->start;
	t->count++;
	t->failed += (e->e->flags & TIMELINE_FLAG_FAILED) != 0;
	t->ns += ns;
	t->value += e->e->value;
	if (ns > t->max_ns)
		t->max_ns = ns;
}

static void tally(struct report_tallies *t, uint32_t *slot, const struct pass_event *e)
{
	if (*slot == PASS_NO_SLOT) {
		t->item = metrics_grow(t->item, t->count + 1, sizeof(*t->item));
		t->item[t->count] = (struct report_tally){.name = metrics_text("%s", e->e->name)};
		*slot = t->count++;
	}
	add(&t->item[*slot], e);
}

/* What CUPTI calls a synchronisation, but no host thread waits in. */
static bool is_wait(const char *name)
{
	return !strstr(name, "Wait Event") && !strstr(name, "WaitEvent");
}

static void waited(struct pass *p, const struct pass_event *e)
{
	if (e->end > p->sync_until)
		p->sync_until = e->end;
}

/* ---- libturbo's events ---- */

static void driver_memory(struct pass *p, const struct pass_event *e)
{
	for (unsigned i = 0; i < p->gpus; i++) {
		struct pass_gpu *g = p->gpu[i];
		if (e->end > g->busy_until)
			g->alloc_ns += e->end - (e->start > g->busy_until ? e->start : g->busy_until);
	}
	if (e->end > p->alloc_until)
		p->alloc_until = e->end;
}

static struct steady_calls *calls_at(struct pass *p, uint64_t time)
{
	return &p->calls[pass_bin(p, time)];
}

/* libturbo's events come while CUPTI records nothing, too; what is compared with its records must not. */
static bool unseen(const struct pass *p, const struct pass_event *e)
{
	return e->start < p->unseen_until;
}

static void driver_call(struct pass *p, bool frees, const struct pass_event *e)
{
	struct steady_calls *at = calls_at(p, e->start);
	struct report_bucket *b = frees ? &at->released : &at->alloc;
	add(frees ? &p->out->free : &p->out->alloc, e);
	p->out->alloc_late += !frees && e->start >= p->middle;
	driver_memory(p, e);
	if (unseen(p, e))
		return;
	b->count++;
	b->ns += e->end - e->start;
	at->alloc_bytes += frees ? 0 : e->e->value;
}

static void staged(struct pass *p, enum report_direction d, const struct pass_event *e)
{
	uint32_t device = e->e->entry->kind == TIMELINE_EVENT ? e->e->entry->event.device : 0; /* + 1 */
	struct report_copy *c = &p->staged[device && device <= PASS_GPUS ? device - 1 : PASS_GPUS][d];
	if (unseen(p, e)) {
		c->staged_unseen_count++;
		c->staged_unseen_bytes += e->e->value;
		return;
	}
	tally(&p->out->events, pass_slot(p, e->e), e);
	c->staged_count++;
	c->staged_bytes += e->e->value;
	c->staged_ns += e->end - e->start;
}

/* By the name, which another version has too; what is told under the name of a call by its number. */
static unsigned event_of(const struct trace_event *e)
{
	for (unsigned i = 0; i < EVENT_COUNT; i++)
		if (!strcmp(e->name, event_name[i]))
			return i;
	if (strstr(e->name, "Synchronize"))
		return EVENT_SYNC;
	return e->entry->event.id && e->entry->event.id < EVENT_COUNT ? e->entry->event.id : EVENT_COUNT;
}

static void libturbo_event(struct pass *p, const struct pass_event *e)
{
	unsigned id = event_of(e->e);
	if (id == EVENT_SYNC) {
		tally(&p->sync_events, pass_slot(p, e->e), e);
		waited(p, e);
		return;
	}
	if (id == EVENT_COPY_H2D || id == EVENT_COPY_D2H) {
		staged(p, id == EVENT_COPY_H2D ? REPORT_H2D : REPORT_D2H, e);
		return;
	}
	tally(&p->out->events, pass_slot(p, e->e), e);
	if (id == EVENT_DEVMEM_MISS || id == EVENT_DEVMEM_FREE)
		driver_call(p, id == EVENT_DEVMEM_FREE, e);
	p->out->oom += id == EVENT_DEVMEM_OOM;
}

/* ---- collectives ---- */

/* Bytes that each rank must send or receive over its link, for `bytes` of the call's own buffer: the convention of
 * nccl-tests, whose size is the larger of the two buffers. */
static double bus_bytes(const char *function, double bytes, uint32_t ranks)
{
	double n = ranks;
	if (strstr(function, "AllReduce"))
		return bytes * 2 * (n - 1) / n;
	if (strstr(function, "AllGather") || strstr(function, "ReduceScatter") ||
		strcasestr(function, "AllToAll"))
		return bytes * (n - 1);
	return bytes;
}

static uint32_t collective_slot(struct pass *p, const char *function)
{
	for (uint32_t i = 0; i < p->out->collectives; i++)
		if (!strcmp(p->collective[i].out.function, function))
			return i;
	p->collective = metrics_grow(p->collective, p->out->collectives + 1, sizeof(*p->collective));
	p->collective[p->out->collectives] =
		(struct pass_collective){.out = {.function = metrics_text("%s", function)}};
	return p->out->collectives++;
}

static void collective(struct pass *p, const struct pass_event *e)
{
	uint32_t *slot = pass_slot(p, e->e);
	uint32_t ranks = e->e->entry->kind == TIMELINE_COLLECTIVE ? e->e->entry->collective.ranks : 0;
	if (*slot == PASS_NO_SLOT)
		*slot = collective_slot(p, e->e->name);
	struct pass_collective *c = &p->collective[*slot];
	c->out.count++;
	c->out.failed += (e->e->flags & TIMELINE_FLAG_FAILED) != 0;
	c->out.bytes += e->e->value;
	c->out.small_count += e->e->value < SMALL_COLLECTIVE_BYTES;
	if (!ranks && trace_header(p->trace)->ranks > 1)
		ranks = (uint32_t)trace_header(p->trace)->ranks;
	if (ranks > c->out.ranks)
		c->out.ranks = ranks;
	if (ranks > 1)
		c->bus_bytes += bus_bytes(e->e->name, (double)e->e->value, ranks);
}

/* "ncclAllReduce" and "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)". */
static bool kernel_is_of(const char *kernel, const char *function)
{
	const char *what = strncmp(function, "nccl", 4) ? function : function + 4,
			   *at = strstr(kernel, "Kernel_");
	size_t n = strlen(what);
	if (!strcmp(what, "Send") || !strcmp(what, "Recv"))
		return at && !strncmp(at + 7, "SendRecv", 8);
	return at && !strncasecmp(at + 7, what, n) && (at[7 + n] == '_' || !at[7 + n] || at[7 + n] == '(');
}

static void match_kernels(struct pass *p, struct pass_collective *c)
{
	for (uint32_t i = 0; i < p->kernels.count; i++) {
		const struct kernel_slot *k = &p->kernels.slot[i];
		if (k->category != REPORT_COMMUNICATION || !kernel_is_of(k->name, c->out.function))
			continue;
		c->out.kernel_count += k->hist.count;
		c->out.kernel_ns += k->hist.sum;
	}
	if (c->out.kernel_ns)
		c->out.busbw = c->bus_bytes / (double)c->out.kernel_ns;
}

/* ---- gaps and samples ---- */

static int shortest(const struct report_rank *r)
{
	int least = 0;
	for (int i = 1; i < (int)r->gaps; i++)
		if (r->gap[i].duration < r->gap[least].duration)
			least = i;
	return least;
}

void pass_gap(struct pass *p, uint64_t start, uint64_t end, const char *reason)
{
	struct report_rank *r = p->out;
	if (start < p->window_start)
		start = p->window_start;
	if (end <= start)
		return;
	for (unsigned i = 0; i < p->gpus; i++) {
		struct pass_gpu *g = p->gpu[i];
		/* Unless an operation follows, the device's window has ended already. */
		if (g->sweep.begun && start >= g->busy_until && g->sweep.now <= g->busy_until)
			sweep_mark(&g->sweep, g->busy_until);
		sweep_add(&g->sweep, SWEEP_UNSEEN, start, end);
	}
	if (end > p->unseen_until)
		p->unseen_until = end;
	spans_add(&p->unseen, start, end);
	if (!p->tail_count++)
		p->tail_start = start;
	p->tail_ns += end - start;
	r->gap_count++;
	r->gap_ns += end - start;
	if (!r->gap)
		r->gap = metrics_alloc(REPORT_GAPS, sizeof(*r->gap));
	struct report_gap *g = &r->gap[r->gaps < REPORT_GAPS ? (int)r->gaps : shortest(r)];
	if (r->gaps == REPORT_GAPS && g->duration >= end - start)
		return;
	free(g->reason);
	*g = (struct report_gap){start, end - start, metrics_text("%s", reason)};
	r->gaps += r->gaps < REPORT_GAPS;
}

static struct report_counter *counter_of(struct report_gpu *g, const char *name)
{
	for (unsigned i = 0; i < g->counters; i++)
		if (!strcmp(g->counter[i].name, name))
			return &g->counter[i];
	g->counter = metrics_grow(g->counter, g->counters + 1, sizeof(*g->counter));
	struct report_counter *c = &g->counter[g->counters++];
	*c = (struct report_counter){.name = metrics_text("%s", name), .bins = REPORT_BINS};
	c->value = metrics_alloc(REPORT_BINS, sizeof(*c->value));
	for (unsigned i = 0; i < REPORT_BINS; i++)
		c->value[i] = -1;
	return c;
}

static void sample(struct pass *p, const struct pass_event *e)
{
	if (e->e->lane->kind != TIMELINE_LANE_DEVICE)
		return;
	struct pass_gpu *g = pass_gpu(p, e->e->lane->device);
	struct report_counter *c = counter_of(&g->out, e->e->name);
	uint64_t bin = (e->start - g->out.series.start) / g->out.series.bin_ns;
	double v = (double)e->e->value;
	c->samples++;
	c->last = v;
	if (v > c->peak)
		c->peak = v;
	if (bin < c->bins && v > c->value[bin])
		c->value[bin] = v;
	uint64_t *peak = !strcmp(e->e->name, MEMORY_USED)      ? &g->out.memory_peak
					 : !strcmp(e->e->name, MEMORY_PROCESS) ? &g->out.memory_process_peak
														   : NULL;
	if (peak && e->e->value > *peak)
		*peak = e->e->value;
}

/* ---- */

static void call(struct pass *p, const struct pass_event *e)
{
	p->out->launches = true;
	p->out->launch_count++;
	tally(&p->out->calls, pass_slot(p, e->e), e);
	if (strstr(e->e->name, "Synchronize"))
		waited(p, e);
}

void pass_host(struct pass *p, const struct pass_event *e)
{
	switch (e->e->kind) {
	case TIMELINE_API: call(p, e); break;
	case TIMELINE_SYNC:
		if (!is_wait(e->e->name))
			break;
		tally(&p->out->syncs, pass_slot(p, e->e), e);
		waited(p, e);
		break;
	case TIMELINE_OVERHEAD: tally(&p->out->overheads, pass_slot(p, e->e), e); break;
	case TIMELINE_EVENT: libturbo_event(p, e); break;
	case TIMELINE_COLLECTIVE: collective(p, e); break;
	case TIMELINE_GAP: pass_gap(p, e->start, e->end, e->e->name); break;
	case TIMELINE_COUNTER: sample(p, e); break;
	default: break;
	}
}

static int by_time(const void *a, const void *b)
{
	const struct report_tally *x = a, *y = b;
	if (x->ns != y->ns)
		return x->ns < y->ns ? 1 : -1;
	return strcmp(x->name, y->name);
}

static void sorted(struct report_tallies *t)
{
	if (t->count)
		qsort(t->item, t->count, sizeof(*t->item), by_time);
}

static int by_start(const void *a, const void *b)
{
	const struct report_gap *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

/* A gap after the last operation is none in the time that is reported. */
static void drop_tail(struct pass *p)
{
	struct report_rank *r = p->out;
	unsigned kept = 0;
	uint64_t last = 0;
	for (unsigned i = 0; i < p->gpus; i++)
		last = p->gpu[i]->busy_until > last ? p->gpu[i]->busy_until : last;
	if (p->cut || !p->gpus || !p->tail_count)
		return;
	for (unsigned i = 0; i < r->gaps; i++)
		if (r->gap[i].start >= p->tail_start)
			free(r->gap[i].reason);
		else
			r->gap[kept++] = r->gap[i];
	r->gaps = kept;
	r->gap_count -= p->tail_count;
	r->gap_ns -= p->tail_ns;
	r->gap_after_ns = spans_within(&p->unseen, last, UINT64_MAX);
}

void pass_host_end(struct pass *p)
{
	struct report_rank *r = p->out;
	drop_tail(p);
	/* CUPTI's records and libturbo's events are about the same waits. */
	struct report_tallies *spare = &p->sync_events;
	if (!r->syncs.count) {
		r->syncs = p->sync_events;
		*spare = (struct report_tallies){0};
	}
	tallies_free(spare);
	sorted(&r->calls);
	sorted(&r->syncs);
	sorted(&r->events);
	sorted(&r->overheads);
	if (r->gaps)
		qsort(r->gap, r->gaps, sizeof(*r->gap), by_start);
	r->collective = metrics_alloc(r->collectives, sizeof(*r->collective));
	for (unsigned i = 0; i < r->collectives; i++) {
		match_kernels(p, &p->collective[i]);
		r->collective[i] = p->collective[i].out;
	}
	free(p->collective);
	r->launch_delay_p50_ns = hist_quantile(&p->launch_delay, 0.5);
	hist_free(&p->launch_delay);
}

/*
 * export_common.c - what is exported, and how things are called.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/timeline/export.h"

#define PROGRESS_EVERY 65536

static const char *const kind_names[TIMELINE_KINDS] = {
	[TIMELINE_NONE] = "none",   [TIMELINE_KERNEL] = "kernel",
	[TIMELINE_COPY] = "copy",   [TIMELINE_MEMSET] = "memset",
	[TIMELINE_GRAPH] = "graph", [TIMELINE_API] = "api",
	[TIMELINE_SYNC] = "sync",   [TIMELINE_OVERHEAD] = "overhead",
	[TIMELINE_EVENT] = "event", [TIMELINE_COLLECTIVE] = "collective",
	[TIMELINE_GAP] = "gap",     [TIMELINE_COUNTER] = "counter",
};

const char *export_kind_name(enum timeline_kind kind)
{
	return (unsigned)kind < TIMELINE_KINDS ? kind_names[kind] : NULL;
}

/* Kineto's words for CUpti_ActivityMemcpyKind and CUpti_ActivityMemoryKind. */
static const char *direction_name(uint32_t direction)
{
	static const char *const name[] = {"Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
									   "AtoD",    "DtoA", "DtoD", "HtoH", "PtoP"};
	return direction < sizeof(name) / sizeof(name[0]) ? name[direction] : "<unknown>";
}

static const char *memory_name(uint32_t kind)
{
	static const char *const name[] = {"Unknown", "Pageable", "Pinned",        "Device",
									   "Array",   "Managed",  "Device Static", "Managed Static"};
	return kind < sizeof(name) / sizeof(name[0]) ? name[kind] : "<unknown>";
}

const char *export_name(struct trace *t, const struct trace_event *e, char *buf, size_t size)
{
	const struct timeline_entry *entry = e->entry;
	switch (e->kind) {
	case TIMELINE_KERNEL: return trace_demangled(t, e->entry_index);
	case TIMELINE_COPY:
		snprintf(buf, size, "Memcpy %s (%s -> %s)", direction_name(entry->copy.direction),
				 memory_name(entry->copy.from_kind), memory_name(entry->copy.to_kind));
		return buf;
	case TIMELINE_MEMSET:
		snprintf(buf, size, "Memset (%s)", memory_name(entry->memset.memory_kind));
		return buf;
	case TIMELINE_GRAPH: snprintf(buf, size, "CUDA graph %llu", (unsigned long long)e->value); return buf;
	default: return *e->name ? e->name : kind_names[e->kind];
	}
}

const char *export_category(const struct trace_event *e)
{
	switch (e->kind) {
	case TIMELINE_KERNEL:
	case TIMELINE_GRAPH: return "kernel";
	case TIMELINE_COPY: return "gpu_memcpy";
	case TIMELINE_MEMSET: return "gpu_memset";
	case TIMELINE_API: return e->entry->api.runtime ? "cuda_runtime" : "cuda_driver";
	case TIMELINE_SYNC: return "cuda_sync";
	case TIMELINE_OVERHEAD: return "overhead";
	case TIMELINE_COLLECTIVE: return "nccl";
	case TIMELINE_GAP: return "gap";
	case TIMELINE_COUNTER: return "counter";
	default: return "libturbo";
	}
}

const char *export_event_unit(const char *name)
{
	static const struct {
		const char *name, *unit;
	} row[] = {
#define EVENT(id, name, unit, text) {name, unit},
#include "events.def"
#undef EVENT
	};
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		if (!strcmp(row[i].name, name))
			return row[i].unit;
	return "value";
}

bool export_starts_work(const char *name)
{
	return strstr(name, "Launch") || strstr(name, "Memcpy") || strstr(name, "Memset");
}

/* CUPTI's clock is CLOCK_REALTIME, unless a client has given it another one: then its times are moved onto
 * that of libturbo's own records. Smaller differences are the noise of reading two clocks. */
static int64_t cupti_shift(const struct trace *t, const struct trace_event *e)
{
	const int64_t noise = 1000000;
	if (e->kind > TIMELINE_OVERHEAD)
		return 0;
	int64_t shift = trace_clock_offset(t, e->start);
	return shift > noise || shift < -noise ? shift : 0;
}

/*
 * A gap is recorded when it begins, without a duration, and again, with the same start, when it ends. Without the
 * second it lasted until the recording ended.
 */
#define GAPS_BEGUN 8

struct delivery {
	struct trace *trace;
	const struct export_request *request;
	void (*each)(void *arg, const struct trace_event *e);
	void *arg;
	struct trace_event begun[GAPS_BEGUN]; /* all of one start */
	unsigned gaps;
};

/* What takes no time lies in the window that begins with it. */
static void deliver(struct delivery *d, const struct trace_event *e)
{
	const struct export_request *q = d->request;
	if (e->start < q->to && (e->start >= q->from || e->start + e->duration > q->from))
		d->each(d->arg, e);
}

static void deliver_begun(struct delivery *d)
{
	uint64_t first, last;
	for (unsigned i = 0; i < d->gaps; i++) {
		struct trace_event *e = &d->begun[i];
		if (trace_span(d->trace, &first, &last) && last > e->start)
			e->duration = last - e->start;
		deliver(d, e);
	}
	d->gaps = 0;
}

/* Holds back what has only begun. */
static bool half_gap(struct delivery *d, const struct trace_event *e)
{
	if (d->gaps && e->start != d->begun[0].start)
		deliver_begun(d);
	if (e->kind != TIMELINE_GAP)
		return false;
	for (unsigned i = 0; i < d->gaps; i++)
		if (d->begun[i].entry_index == e->entry_index) {
			if (e->duration)
				d->begun[i] = d->begun[--d->gaps];
			return !e->duration;
		}
	if (e->duration || d->gaps == GAPS_BEGUN)
		return false;
	d->begun[d->gaps++] = *e;
	return true;
}

void export_each(struct trace *t, const struct export_request *q, struct output *o,
				 void (*each)(void *arg, const struct trace_event *e), void *arg)
{
	struct delivery d = {.trace = t, .request = q, .each = each, .arg = arg};
	struct trace_event e;
	uint64_t done = 0, all = trace_records(t);
	trace_rewind(t);
	while (!o->error && trace_next(t, &e)) {
		if (++done % PROGRESS_EVERY == 0 && q->progress && !q->progress(q->arg, done, all))
			break;
		if (!(q->kinds & 1u << e.kind) || half_gap(&d, &e))
			continue;
		int64_t shift = cupti_shift(t, &e), start = (int64_t)e.start + shift;
		e.start = start > 0 ? (uint64_t)start : 0;
		if (e.start >= q->to && shift == 0)
			break;
		deliver(&d, &e);
	}
	deliver_begun(&d);
	if (q->progress)
		q->progress(q->arg, all, all);
}
